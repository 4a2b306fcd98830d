#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# A whole policy in one message and in parts: for how long the job manager serves nobody else.
# usage: parts.sh PLUGIN.so...   (N=100000 associations)

. "$(dirname "$0")/lib.sh"
time_plugins parts.py "${N:-100000}" -- "$@"
