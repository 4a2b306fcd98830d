#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='a refresh posts only priorities that the order of a scheduler queue needs'
# Rules: F16, F18

. "$(dirname "$0")/lib.sh"
in_sequence

# push_tree USAGE_OF_5001 USAGE_OF_5002: pushes users 5001 and 5002 in A and 5003 in B, under classic with a half-life of 20 s.
push_tree() {
	mf doc assoc 5001 A username=ann shares=1 usage="$1" counted_until=0 \
		assoc 5002 A username=bob shares=1 usage="$2" counted_until=0 \
		assoc 5003 B username=cyd shares=1 usage=0 counted_until=0 \
		bank root 0 parent= shares=1 active=1 bank A 0 parent=root shares=1 active=1 bank B 0 parent=root shares=1 active=1 \
		project "*" config zero_score=hold >doc.json &&
	jq -c --argjson at "$(date +%s.%N)" '. + {tree: {policy: "classic", at: $at, half_life: 20, node_weight: 1,
		core_weight: 0, gpu_weight: 0}}' doc.json >policy.json &&
	mf rpc policy_update "$(cat policy.json)"
}
call_method() { mf rpc "$@" | sed "s/^ok //"; }
count_refreshes() { call_method stats | jq .refresh.total; }
# wait_for_refreshes N: waits for N more refreshes.
wait_for_refreshes() {
	local goal=$(($(count_refreshes) + $1)) i
	for i in $(seq 600); do test $(count_refreshes) -ge $goal && return 0; sleep 0.05; done
	return 1
}
count_stale() { call_method priorities | jq '[.jobs[] | select(.posted.priority != .exact.priority)] | length'; }
is_in_order() {
	call_method priorities | jq -e '.jobs | sort_by(-.posted.priority, .id) == sort_by(-.exact.priority, .id)'
}

test_expect_success 'two users run a job each, and 20 jobs are pending' '
	write_conf ".fairshare = {refresh: 0.2, memo: \"never\"}" && start_instance && load_plugin && push_tree 100 300 &&
	runs=$(mf submit 5001) && other=$(mf submit 5003) && wait_running $runs $other && stop_queues &&
	first=$(mf submit 5001 -j 10) && last=$(mf submit 5002 -j 10) && wait_scheduled $first $last && wait_for_refreshes 2 && is_in_order
'
test_expect_success 'refreshes that leave the order unchanged post no priority' '
	mf posted priority $first $last >before && wait_for_refreshes 30 && mf posted priority $first $last >after && test_cmp before after &&
	test $(count_stale) = 20 && is_in_order
'
test_expect_success 'explain says that a stale priority changes no order' '
	flux job id $(echo $first | cut -d" " -f1) >id && call_method explain "{\"jobs\":[$(cat id)]}" >explained && jq -c . explained &&
	jq -e ".jobs[0].lag.code == \"same-order\"" explained
'
test_expect_success 'a refresh that changes the order posts current priorities until the order is right' '
	push_tree 300 100 && wait_for_refreshes 2 && is_in_order && mf posted priority $first $last >after && ! test_cmp before after &&
	mf in_order
'
test_expect_success 'requests post stale priorities at most once an hour' '
	wait_for_refreshes 5 && mf posted priority $first $last >before && mf rpc reprioritize && mf rpc reprioritize && wait_for_refreshes 2 &&
	mf posted priority $first $last >after && test_cmp before after && is_in_order
'

cancel_all
finish
