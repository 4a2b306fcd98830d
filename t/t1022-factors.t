#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='the factors age and size, and interleave'
# Rules: F22, P2, P8

. "$(dirname "$0")/lib.sh"
in_sequence

# push_tree POLICY USAGE_OF_5001 USAGE_OF_5002: pushes users with equal shares in bank A, with usages as of now.
push_tree() {
	mf doc assoc 5001 A username=ann shares=1 usage="$2" counted_until=0 \
		assoc 5002 A username=bob shares=1 usage="$3" counted_until=0 \
		assoc 5003 A username=cyd shares=1 usage=100 counted_until=0 \
		bank root 0 parent= shares=1 active=1 bank A 0 parent=root shares=1 active=1 project "*" >doc.json &&
	push_as_of_now "$1"
}
# push_two_banks POLICY: bank B has less usage than bank A, and user cyd in B has more usage per share than ann in A. So cyd comes first under
# fair-tree, and ann comes first under classic.
push_two_banks() {
	mf doc assoc 5001 A username=ann shares=1 usage=0 counted_until=0 assoc 5002 A username=bob shares=1 usage=1000 counted_until=0 \
		assoc 5003 B username=cyd shares=1 usage=800 counted_until=0 assoc 5004 B username=dan shares=1 usage=0 counted_until=0 \
		bank root 0 parent= shares=1 active=1 bank A 0 parent=root shares=1 active=1 bank B 0 parent=root shares=1 active=1 \
		project "*" >doc.json && push_as_of_now "$1"
}
# push_as_of_now POLICY: pushes the records of doc.json with the present time.
push_as_of_now() {
	jq -c --arg policy "$1" --argjson at "$(date +%s.%N)" '. + {tree: {policy: $policy, at: $at,
		half_life: 604800, node_weight: 1, core_weight: 0, gpu_weight: 0}}' doc.json >policy.json &&
	mf rpc policy_update "$(cat policy.json)"
}
query_live() { mf query 'q["live"]' | jq -c "$1"; }
load_settings() { write_conf ".fairshare = $1" && flux config reload; }
# print_event_time ID EVENT [NUMBER]: prints the time of the last such event in the eventlog, or of event NUMBER, counted from 0.
print_event_time() { mf times "$1" "$2" | if test $# -gt 2; then sed -n "$(($3 + 1))p"; else tail -1; fi; }
# check_difference ID ID POINTS: checks that the priority of the first job is POINTS above that of the second, except for rounding.
check_difference() {
	jq -ne "$(mf prio "$1") - $(mf prio "$2") - ($3) | fabs <= 1" >/dev/null ||
		{ echo "$(mf prio "$1") - $(mf prio "$2") is not $3"; return 1; }
}
retry() {
	local i
	for i in $(seq 300); do "$@" >soon.out 2>&1 && return 0; sleep 0.1; done
	cat soon.out
	return 1
}

test_expect_success 'age and size change no priority without weights' '
	write_conf ".fairshare = {refresh: 1}" && start_instance && stop_queues && load_plugin &&
	mf push assoc 5001 A fairshare=0.5 assoc 5002 A fairshare=0.5 project "*" &&
	a=$(mf submit 5001) && wait_scheduled $a && sleep 2 && b=$(mf submit 5002 -N 2) && wait_scheduled $b && prio_is $a 50000 && prio_is $b 50000
'
test_expect_success 'the age factor separates two jobs by the time between their submissions' '
	load_settings "{refresh: 1, \"age-max\": \"1000s\", weights: {age: 1000000}}" && retry eval "test \$(mf prio $a) != 50000" &&
	check_difference $a $b "($(print_event_time $b submit) - $(print_event_time $a submit)) * 1000" && first=$(mf prio $a) &&
	c=$(mf submit 5002) && wait_scheduled $c && check_difference $a $c "($(print_event_time $c submit) - $(print_event_time $a submit)) * 1000"
'
test_expect_success 'the ages of jobs with equal weights grow equally, so a refresh posts nothing' '
	before=$(mf events $a | wc -l) && sleep 3 && test $(mf events $a | wc -l) = $before && prio_is $a $first
'
test_expect_success 'the shown age is the eligible time divided by age-max, and the terms sum to the priority' '
	mf rpc jobs "{}" | sed "s/^ok //" >jobs.json && jq -e ".terms | index(\"age_offset\") == index(\"age\") + 1" jobs.json &&
	jq -e ".now as \$now | .weighings as \$all | (.terms | index(\"age\")) as \$age | .jobs | length > 0 and all(.[];
		(.values[\$age] - ([1, (\$now - .submitted) / 1000] | min) | fabs) < 0.001 and
		([.values, \$all[.weighing]] | transpose | map(.[0] * .[1]) | add | round) == .priority)" jobs.json
'
test_expect_success 'the query shows the reference time of ages' '
	query_live .ages && jq -ne "$(query_live .ages.reference) - now | . > 0 and . <= 1000"
'
test_expect_success 'time at urgency 0 does not count as age' '
	flux job urgency $a hold >out && wait_for priority $a priority=0 && sleep 2 && flux job urgency $a 16 >out &&
	retry eval "test \$(mf prio $a) != 0" && held="($(print_event_time $a urgency 1) - $(print_event_time $a urgency 0))" &&
	check_difference $a $c "($(print_event_time $c submit) - $(print_event_time $a submit) - $held) * 1000"
'
test_expect_success 'time in DEPEND does not count as age' '
	d=$(mf submit 5001 -d afterany:$a) && sleep 2 && cancel $a && wait_scheduled $d && freed=$(print_event_time $d dependency-remove) &&
	check_difference $c $d "($freed - $(print_event_time $c submit)) * 1000"
'
test_expect_success 'ages are computed from eventlogs after a reload' '
	e=$(mf submit 5001) && wait_scheduled $e && flux job urgency $e hold >out && sleep 2 && flux job urgency $e 16 >out &&
	held="($(print_event_time $e urgency 1) - $(print_event_time $e urgency 0))" && reload_plugin &&
	mf push assoc 5001 A fairshare=0.5 assoc 5002 A fairshare=0.5 project "*" && wait_settled && retry check_difference $c $d "($freed - $(print_event_time $c submit)) * 1000" &&
	retry check_difference $c $e "($(print_event_time $e submit) - $(print_event_time $c submit) + $held) * 1000"
'
test_expect_success 'the age factor stops growing at age-max' '
	load_settings "{refresh: 1, \"age-max\": \"1s\", weights: {age: 1000}}" && sleep 2 && retry check_difference $c $d 0
'
test_expect_success 'the size factor is the requested nodes divided by the nodes in resource.R' '
	load_settings "{refresh: 1, weights: {size: 1000}}" && retry prio_is $b 50500 && retry prio_is $c 50250 && test $(query_live .ages.site_nodes) = 4
'
test_expect_success 'a pushed weight takes precedence over a weight of the configuration' '
	mf push factor size 0 && retry prio_is $b 50000
'
all_near_bound() {
	query_live .ages && test "$(query_live ".ages | [.max_wait_behind, (.near_the_bound | length), .near_the_bound_total]")" = "[4,4,4]"
}
test_expect_success 'max-wait-behind gives the age its weight, and the query lists jobs near the bound' '
	load_settings "{refresh: 1, \"max-wait-behind\": \"4s\"}" && retry all_near_bound &&
	low=$(mf submit 5001 -u 1) && wait_scheduled $low && sleep 5 && high=$(mf submit 5002 -u 30) && wait_scheduled $high &&
	test $(mf prio $low) -ge $(mf prio $high)
'
submit_both() {
	local first second
	first=$(mf submit 5001 -n 16 --run 0.05s -t 60 -j 20) && second=$(mf submit 5002 -n 16 --run 0.05s -t 60 -j 20) && ids="$first $second" &&
		wait_scheduled $ids
}
test_expect_success 'all jobs of one user start first without interleave' '
	cancel_all && load_settings "{refresh: 0}" && submit_both && push_tree fair-tree 1000 1000 && wait_settled && start_queues && wait_ended $ids && stop_queues &&
	mf starts $ids >out && cat out && uniq_users=$(tr " " "\n" <out | uniq | grep -c .) && test $uniq_users = 2
'
# The jobs start in pairs, with one job of each user in a pair. If the two jobs have the same priority, their ids decide which job starts first.
for policy in fair-tree weighted-walk classic depth-oblivious pbs; do
	test_expect_success "two equal users take turns with interleave under $policy" '
		load_settings "{refresh: 0, interleave: true}" && submit_both && push_tree $policy 1000 1000 && wait_settled &&
		start_queues && wait_ended $ids && stop_queues && mf starts $ids >out && cat out &&
		test $(tr " " "\n" <out | grep . | paste -d" " - - | grep -c -e "5001 5002" -e "5002 5001") = 20
	'
done
cancel_all
finish
