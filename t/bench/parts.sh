#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures for how long a policy in one message and a staged push keep the job manager busy.
# usage: parts.sh PLUGIN.so...   (N=100000 associations)

. "$(dirname "$0")/lib.sh"
time_plugins parts.py "${N:-100000}" -- "$@"
