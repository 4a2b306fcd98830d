#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='pushes during refreshes, whole and in parts, with thousands of pending jobs'
# Rules: F15, F17

. "$(dirname "$0")/lib.sh"
in_sequence

USERS=40
# A refresh of more than 4,000 associations takes many reactor turns, so that pushes arrive during the refresh.
ASSOCIATIONS=${AMID_ASSOCIATIONS:-4500}
JOBS=${AMID_JOBS:-50}
MORE=${AMID_MORE:-100}
ROUNDS=${AMID_ROUNDS:-48}

run_amid() { flux python "$T_DIR/scripts/amid.py" "$@"; }
list_ids() { mf jobs | cut -d" " -f1; }

test_expect_success 'a site of many associations has running jobs and thousands of pending jobs' '
	write_conf ".fairshare = {refresh: 0.5}" && start_instance && load_plugin &&
	run_amid push $ASSOCIATIONS $USERS 1 && one=$(mf submit 5001 -N 2) && two=$(mf submit 5002 -N 1) && wait_running $one $two && stop_queues &&
	for user in $(seq 5001 $((5000 + USERS))); do mf submit $user -j $JOBS || return 1; done >submitted &&
	wait_scheduled $(tail -1 submitted) && list_ids >before && test $(wc -l <before) = $((USERS * JOBS + 2))
'
test_expect_success 'pushes arrive in the middle of refreshes, whole and in parts' '
	run_amid push $ASSOCIATIONS $USERS $ROUNDS >pushed && cat pushed &&
	jq -e ".amid | .whole + .commit > 0 and .part > 0" pushed
'
test_expect_success 'each posted priority equals its terms and the priority in Flux after those pushes' '
	run_amid verify
'
test_expect_success 'all jobs exist and all counters are correct after those pushes' '
	list_ids >after && test_cmp before after && mf check
'
test_expect_success 'pushes during refreshes lose no job that is submitted, cancelled or changed meanwhile' '
	{ run_amid push $ASSOCIATIONS $USERS $ROUNDS >pushed & } && pusher=$! &&
	gone=$(head -20 submitted) && flux cancel $gone &&
	for id in $(sed -n "30,45p" submitted); do flux job urgency $id 20 || return 1; done &&
	for id in $(sed -n "46,50p" submitted); do flux job urgency $id hold || return 1; done &&
	more=$(mf submit 5003 -j 20) && wait $pusher && cat pushed && wait_ended $gone &&
	wait_scheduled $more && run_amid verify && mf check &&
	test $(list_ids | wc -l) = $((USERS * JOBS + 2))
'
# With 6,000 pending jobs Flux's loop over all of them would take over 50 ms, so the plugin posts the priorities one by one.
test_expect_success 'pushes during refreshes post correct priorities one by one if many jobs are pending' '
	for user in $(seq 5001 $((5000 + USERS))); do mf submit $user -j $MORE || return 1; done >added && wait_scheduled $(tail -1 added) &&
	run_amid push $ASSOCIATIONS $USERS $ROUNDS >pushed && cat pushed &&
	write_conf ".fairshare = {refresh: 5}" && flux config reload && run_amid verify && mf check &&
	test $(list_ids | wc -l) = $((USERS * (JOBS + MORE) + 2))
'
test_expect_success 'refreshes continue after those pushes' '
	before=$(mf query "q[\"live\"]" | jq .generation) &&
	for i in $(seq 300); do test $(mf query "q[\"live\"]" | jq .generation) -gt $before && return 0; sleep 0.2; done; false
'

cancel_all
finish
