#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures limits over scopes in a real instance: submission, cancellation that releases the next held job, and a push, alternately with and without
# a limit on each bank, the root bank and each user.
# usage: scopes.sh PLUGIN.so...   (BANKS=10000, LEAVES=100000 associations, HELD=20000 jobs, ROUNDS=6)

. "$(dirname "$0")/lib.sh"
time_plugins scopes.py "${BANKS:-10000}" "${LEAVES:-100000}" "${HELD:-20000}" "${ROUNDS:-6}" -- "$@"
