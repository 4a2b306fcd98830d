#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures the memory of the broker for each association and for each held job. This includes the memory that
# Flux itself needs for a job, which the row of the plugin that does nothing shows.
# usage: memory.sh PLUGIN.so|nothing...   (N=50000 associations, J=10000 jobs)

. "$(dirname "$0")/lib.sh"
time_plugins memory.py "${N:-50000}" "${J:-10000}" -- "$@"
