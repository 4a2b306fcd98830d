#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures the time of rec_update for many associations: the first call, and a call that changes each association.
# usage: rec-update.sh PLUGIN.so|nothing...   (N=50000 associations)

. "$(dirname "$0")/lib.sh"
time_plugins rec_update.py "${N:-50000}" -- "$@"
