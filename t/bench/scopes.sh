#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# What limits over scopes cost in a real instance: submission, cancellation that lets the next held job go, and a push,
# with and without a limit on each bank, the root bank and each user, by turns.
# usage: scopes.sh PLUGIN.so...   (BANKS=10000, LEAVES=100000 associations, HELD=20000 jobs, ROUNDS=6)

. "$(dirname "$0")/lib.sh"
time_plugins scopes.py "${BANKS:-10000}" "${LEAVES:-100000}" "${HELD:-20000}" "${ROUNDS:-6}" -- "$@"
