#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures the time of submissions and changes of urgency while guests send requests without pause, and in the same run without guests. Also
# measures one explain and one list of all jobs.
# usage: guests.sh PLUGIN.so...   (N=20000 jobs, LEAVES=100000 associations, GUESTS=100, ROUNDS=4)

. "$(dirname "$0")/lib.sh"
time_plugins guests.py "${N:-20000}" "${LEAVES:-100000}" "${GUESTS:-100}" "${ROUNDS:-4}" -- "$@"
