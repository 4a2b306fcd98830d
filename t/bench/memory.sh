#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Memory of the broker for each association and for each held job (what Flux itself needs for a job included:
# the line of the do-nothing plugin says how much that is).
# usage: memory.sh PLUGIN.so|nothing...   (N=50000 associations, J=10000 jobs)

. "$(dirname "$0")/lib.sh"
time_plugins memory.py "${N:-50000}" "${J:-10000}" -- "$@"
