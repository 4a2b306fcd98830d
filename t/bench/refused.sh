#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures how long Flux takes to refuse submissions with a dependency, while the job manager retains many inactive jobs that had dependencies.
# Each plugin has an instance of its own, and the plugins take turns, so that disturbances affect all of them.
# usage: refused.sh PLUGIN.so PLUGIN.so...   (N="0 20000 50000" retained jobs, R=1000 refused ones, ROUNDS=15)

. "$(dirname "$0")/lib.sh"
start_plugins "$@"
FLUX_URI=${sites[1]} flux python "$bench/refused.py" "${R:-1000}" "${ROUNDS:-15}" "${N:-0 20000 50000}" "${sites[@]}"
stop_plugins
