#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures the processor time and the memory that a submission takes in the job manager, for several plugins. These words stand for plugins:
#   floor    floor.c, which has the callbacks of mf_priority and posts the same events
#   events   floor.c without the callbacks that post no event
#   nothing  nothing.c, which does nothing
# All plugins run at once, each in an instance of its own, and take turns, so that other work on the machine disturbs all of them equally.
# usage: floor.sh floor PLUGIN.so...   (R=1000 submissions a round, ROUNDS=15)

. "$(dirname "$0")/lib.sh"
meter
export FLUX_MODPROBE_DISABLE=job-list
start_plugins "$@"
FLUX_URI=${sites[1]} flux python "$bench/floor.py" "${R:-1000}" "${ROUNDS:-15}" "$work/meter.so" "${sites[@]}"
stop_plugins
