#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# reprioritize of many pending jobs: nothing changed, and each priority changed.
# usage: reprioritize.sh PLUGIN.so|nothing...   (N=10000 jobs)

. "$(dirname "$0")/lib.sh"
time_plugins reprioritize.py "${N:-10000}" -- "$@"
