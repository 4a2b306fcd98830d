#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures the time to run held jobs if a limit releases them one at a time. The time is linear if twice as many jobs take twice as long.
# usage: drain.sh PLUGIN.so...   (N="2500 5000 10000")

. "$(dirname "$0")/lib.sh"
for n in ${N:-2500 5000 10000}; do
	time_plugins drain.py "$n" -- "$@"
done
