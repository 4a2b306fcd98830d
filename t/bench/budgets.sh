#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures submission, start and end of a job in a real instance, alternately with and without fifty limits and ten budgets.
# usage: budgets.sh PLUGIN.so...   (BANKS=1000, LEAVES=100000 associations, ROUNDS=10)

CORES=150
. "$(dirname "$0")/lib.sh"
time_plugins budgets.py "${BANKS:-1000}" "${LEAVES:-100000}" "${ROUNDS:-10}" -- "$@"
