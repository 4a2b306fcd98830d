#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Guests who ask without pause: what submit and urgency take meanwhile, beside an idle time of the same run; and what one explain and
# a list of all jobs take.
# usage: guests.sh PLUGIN.so...   (N=20000 jobs, LEAVES=100000 associations, GUESTS=100, ROUNDS=4)

. "$(dirname "$0")/lib.sh"
time_plugins guests.py "${N:-20000}" "${LEAVES:-100000}" "${GUESTS:-100}" "${ROUNDS:-4}" -- "$@"
