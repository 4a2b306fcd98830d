#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Times reprioritize of many pending jobs: without changes, and with a change of each priority.
# usage: reprioritize.sh PLUGIN.so|nothing...   (N=10000 jobs)

. "$(dirname "$0")/lib.sh"
time_plugins reprioritize.py "${N:-10000}" -- "$@"
