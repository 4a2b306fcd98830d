#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare top says that the plugin does not answer, and recovers'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"

python3 "$T_DIR/scripts/top.py" && test_set_prereq PYTE
test_expect_success 'an instance has the plugin and a site' '
	start_instance && make_site && load_plugin && flux fairshare push -p $DB
'
test_expect_success 'one screen is printed without a terminal, as wide as COLUMNS' '
	COLUMNS=120 flux fairshare top --once >once.out && grep -E "^Bank +Share +Used +Level +Running" once.out && grep " B  *70.00 %" once.out &&
	! grep "q quit" once.out
'
test_expect_success PYTE 'the screen reports a removed plugin and a stopped broker, obeys keys, and recovers' '
	python3 "$T_DIR/scripts/top.py" --silence "$PLUGIN"
'
finish
