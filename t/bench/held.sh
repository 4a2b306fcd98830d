#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures the time of a reprioritize with many held jobs and many queues.
# usage: held.sh PLUGIN.so...   (N=30000 held jobs, Q=100 queues)

. "$(dirname "$0")/lib.sh"
time_plugins held.py "${N:-30000}" "${Q:-100}" -- "$@"
