#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures the time of refused submissions while many jobs wait for their begin-time, and the time to cancel the waiting jobs.
# usage: waiting.sh PLUGIN.so...   (N=20000 waiting jobs, R=1000 refused submissions with a dependency)

. "$(dirname "$0")/lib.sh"
time_plugins waiting.py "${N:-20000}" "${R:-1000}" -- "$@"
