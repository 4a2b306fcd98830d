#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Times how long held jobs take that a limit releases one at a time. The time is linear if twice as many jobs
# take twice as long.
# usage: drain.sh PLUGIN.so...   (N="2500 5000 10000")

. "$(dirname "$0")/lib.sh"
for n in ${N:-2500 5000 10000}; do
	time_plugins drain.py "$n" -- "$@"
done
