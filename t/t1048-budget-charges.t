#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='budgets charge and commit by the charge factor of the queue of a job'
# Rules: B4, B6

. "$(dirname "$0")/lib.sh"
in_sequence

# configure_charge FACTOR: writes the configuration with this charge factor of the queue gold.
configure_charge() { write_conf "$(with_plugin) | $(with_queues gold batch) | .fairshare = {refresh: 1, queues: {gold: {charge: $1}}}"; }
# push_budget: pushes a budget of 120 node-seconds of bank A.
push_budget() {
	mf doc assoc 5001 A username=ann shares=1 usage=0 counted_until="$(date +%s)" queues=gold,batch \
		bank root 0 parent= shares=1 active=1 bank A 0 parent=root shares=1 active=1 queue gold queue batch project "*" >doc.json &&
	jq -c --argjson at "$(date +%s.%N)" '. + {tree: {policy: "fair-tree", at: $at, half_life: 0, node_weight: 1, core_weight: 0, gpu_weight: 0},
		budgets: [{scope: "bank", name: "A", unit: "node-hours", start: 0, end: (($at | floor) + 86400), deposited: 120000, spent: 0, rate: 0}]}' \
		doc.json >push.json && mf rpc policy_update "$(cat push.json)"
}
print_shown() { mf query | jq ".budgets[0] | $1"; }
is_complete() { test "$(print_shown .complete)" = true; }
# print_charge ID FACTOR: prints the charge of an ended job of one node, from its R and its eventlog.
print_charge() { flux job info "$1" R | jq --argjson ended "$(mf times "$1" clean)" "(\$ended - .execution.starttime) * 1000 * $2 | round"; }

test_expect_success 'a job commits its size times its time limit times the charge factor of its queue' '
	configure_charge 0.5 && start_instance && push_budget && wait_until is_complete && a=$(mf submit 5001 -B A -q gold -t 120) && wait_running $a &&
	test "$(print_shown ".spent + .committed")" = 60000 && b=$(mf submit 5001 -B A -q batch -t 61) && wait_held_by $b budget-node-hours-bank
'
test_expect_success 'a job that does not run counts by the present factor, and a running job by the factor at its start' '
	configure_charge 2 && flux config reload && c=$(mf submit 5001 -B A -q gold -t 31) && wait_held_by $c budget-node-hours-bank &&
	d=$(mf submit 5001 -B A -q gold -t 29) && wait_running $d && test "$(print_shown ".spent + .committed")" = 118000
'
test_expect_success 'ended jobs are charged by the factor at their start' '
	cancel $b && cancel $c && sleep 1 && cancel $a && cancel $d && wait_ended $a $d && wait_settled && spent=$(print_shown .spent) &&
	expected=$(($(print_charge $a 0.5) + $(print_charge $d 2))) && echo "$expected expected, $spent spent" &&
	test "$(print_shown .committed)" = 0 && test $((spent - expected)) -le 60 && test $((expected - spent)) -le 60
'
finish
