#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures live fair-share. With LEAVES=0: the post of a single priority, and Flux's loop over all jobs. Otherwise: refreshes, stalls of the job
# manager, and a full reprioritize.
# usage: live.sh PLUGIN.so...   (N=10000 jobs, LEAVES=0 associations, REFRESH=2 seconds between two refreshes)

. "$(dirname "$0")/lib.sh"
time_plugins live.py "${N:-10000}" "${LEAVES:-0}" "${REFRESH:-2}" -- "$@"
