#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures other requests while many jobs wait for their begin-time, and the cancellation of these jobs.
# usage: waiting.sh PLUGIN.so...   (N=20000 jobs that wait, R=1000 submissions with a dependency that are refused)

. "$(dirname "$0")/lib.sh"
time_plugins waiting.py "${N:-20000}" "${R:-1000}" -- "$@"
