#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures live fair-share. With LEAVES=0, measures the time to post a single priority, and the time of Flux's loop over all jobs. Otherwise
# measures refreshes, stalls of the job manager, and a full reprioritize.
# usage: live.sh PLUGIN.so...   (N=10000 jobs, LEAVES=0 associations, REFRESH=2 seconds between two refreshes)

. "$(dirname "$0")/lib.sh"
time_plugins live.py "${N:-10000}" "${LEAVES:-0}" "${REFRESH:-2}" -- "$@"
