#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Submissions that are refused, while many jobs that once had dependencies are retained (inactive, not purged).
# usage: refused.sh PLUGIN.so...   (N=100000 retained jobs, R=1000 refused ones)

. "$(dirname "$0")/lib.sh"
time_plugins refused.py "${N:-100000}" "${R:-1000}" -- "$@"
