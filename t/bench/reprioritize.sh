#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures the time of a reprioritize of many pending jobs, if no priority changes and if each priority changes.
# usage: reprioritize.sh PLUGIN.so|nothing...   (N=10000 jobs)

. "$(dirname "$0")/lib.sh"
time_plugins reprioritize.py "${N:-10000}" -- "$@"
