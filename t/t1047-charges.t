#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='charge factors of queues: usage of running and ended jobs, over reloads of the configuration and of the plugin'
# Rules: F23, F24, F25

. "$(dirname "$0")/lib.sh"
in_sequence

# push_tree [CHARGES]: pushes users 5001 to 5003 in bank A without usage, and with this array of charges.
push_tree() {
	local at
	at=$(date +%s.%N)
	mf doc assoc 5001 A username=ann shares=1 usage=0 counted_until=0 queues=free,gold,batch \
		assoc 5002 A username=bob shares=1 usage=0 counted_until=0 queues=free,gold,batch \
		assoc 5003 A username=cyd shares=1 usage=0 counted_until=0 queues=free,gold,batch \
		bank root 0 parent= shares=1 active=1 bank A 0 parent=root shares=1 active=1 \
		queue free queue gold queue batch project "*" config zero_score=hold >doc.json &&
	jq -c --argjson at "$at" --argjson charges "${1:-null}" '. + {tree: {policy: "fair-tree", at: $at, half_life: 0,
		node_weight: 1, core_weight: 0, gpu_weight: 0}} + (if $charges then {charges: $charges} else {} end)' doc.json >policy.json &&
	mf rpc policy_update "$(cat policy.json)"
}
call_method() { mf rpc "$@" | sed "s/^ok //"; }
# configure QUEUES: writes the configuration with this table [fairshare.queues].
configure() { write_conf "$(with_queues free gold batch) | .fairshare = {refresh: \"300ms\", queues: $1}"; }
# print_usage USERID: prints the time and the usage of a user at that time, as "NOW USAGE".
print_usage() { call_method standing "{\"user\":$1}" | jq -r '"\(.now) \(.associations[0].usage)"'; }
print_start() { flux job info "$1" R | jq .execution.starttime; }
print_end() { mf times "$1" clean; }
print_charges() { call_method stats "{}" | jq -c "${1:-.charges}"; }
# is_near A B: checks that two usages differ by less than 0.2.
is_near() { jq -ne "($1 - $2) | fabs < 0.2" >/dev/null || { echo "$1 is not near $2"; return 1; }; }
# check_usage USERID EXPRESSION: checks a usage; in the expression, $now is the time of the answer.
check_usage() {
	local now usage
	read -r now usage <<<"$(print_usage "$1")" && echo "user $1 at $now: $usage" && is_near "$usage" "$(jq -n --argjson now "$now" "$2")"
}

# retry_usage USERID EXPRESSION: repeats check_usage for a few seconds, while the plugin reads its snapshot and asks job-list.
retry_usage() {
	local i
	for i in $(seq 50); do check_usage "$@" && return 0; sleep 0.2; done
	return 1
}

test_expect_success 'without charge factors the plugin reports none' '
	configure "{}" && start_instance && load_plugin && push_tree && print_charges >out && echo null >expected && test_cmp expected out
'
test_expect_success 'an invalid factor or an unknown queue is refused, and the configuration in force stays' '
	configure "{gold: {charge: 1000.5}}" && test_must_fail flux config reload 2>err && cat err &&
	grep "fairshare.queues.gold.charge: expected a number from 0 to 1000, got real 1000.5" err &&
	configure "{gld: {charge: 2}}" && test_must_fail flux config reload 2>err && grep "queues.gld: no such queue; known are batch, free, gold" err &&
	print_charges >out && test_cmp expected out
'
test_expect_success 'a job that started before a factor was configured is charged without the factor' '
	early=$(mf submit 5003 -q gold) && wait_running $early && sleep 1 &&
	configure "{free: {charge: 0}, gold: {charge: 2}}" && before=$(date +%s.%N) && flux config reload && after=$(date +%s.%N) &&
	print_charges ".charges.configured" >out && echo "{\"free\":0,\"gold\":2}" >expected && test_cmp expected out &&
	print_charges ".charges.changes | map([.queue, .factor])" >out && echo "[[\"free\",0],[\"gold\",2]]" >expected && test_cmp expected out &&
	since=$(print_charges ".charges.changes[1].since") && jq -ne "$before - 0.2 < $since and $since < $after" && sleep 1 && check_usage 5003 "\$now - $(print_start $early)"
'
test_expect_success 'running jobs are charged by the factor of their queue: 0 is free, 2 is twice the usage' '
	free=$(mf submit 5001 -q free) && gold=$(mf submit 5002 -q gold) && wait_running $free $gold && sleep 2 &&
	check_usage 5001 0 && check_usage 5002 "2 * (\$now - $(print_start $gold))"
'
test_expect_success 'a job in another queue is charged as before' '
	batch=$(mf submit 5001 -q batch) && wait_running $batch && sleep 1 && check_usage 5001 "\$now - $(print_start $batch)"
'
test_expect_success 'ended jobs keep their usage' '
	cancel $gold $batch $free && wait_ended $gold $batch $free &&
	of_batch="$(print_end $batch) - $(print_start $batch)" && of_gold="2 * ($(print_end $gold) - $(print_start $gold))" &&
	check_usage 5001 "$of_batch" && check_usage 5002 "$of_gold" && sleep 1 && check_usage 5002 "$of_gold"
'
test_expect_success 'a new factor applies to jobs that start after the reload of the configuration' '
	running=$(mf submit 5002 -q gold) && wait_running $running && of_running="2 * (\$now - $(print_start $running))" &&
	configure "{gold: {charge: 0.5}}" && flux config reload && sleep 1 && check_usage 5002 "$of_gold + $of_running" &&
	later=$(mf submit 5001 -q gold) && wait_running $later && sleep 2 &&
	of_later="0.5 * (\$now - $(print_start $later))" && check_usage 5001 "$of_batch + $of_later" && check_usage 5002 "$of_gold + $of_running" &&
	print_charges ".charges.changes | map([.queue, .factor])" >out &&
	echo "[[\"free\",0],[\"free\",1],[\"gold\",2],[\"gold\",0.5]]" >expected && test_cmp expected out
'
test_expect_success 'a push with the changes leaves the usages as they are' '
	print_charges ".charges.changes" >charges.json && push_tree "$(cat charges.json)" &&
	check_usage 5001 "$of_batch + $of_later" && check_usage 5002 "$of_gold + $of_running" && check_usage 5003 "\$now - $(print_start $early)" &&
	print_charges ".charges.changes" >out && test_cmp charges.json out
'
test_expect_success 'after a reload of the plugin and a restart of Flux, usages are those of the factors at the start of each job' '
	ended=$(mf submit 5003 -q gold) && wait_running $ended && sleep 1 && cancel $ended && wait_ended $ended &&
	of_ended="0.5 * ($(print_end $ended) - $(print_start $ended))" &&
	for action in reload_plugin restart; do
		case $action in
		restart) stop_instance && write_conf "$(with_queues free gold batch) | $(with_plugin) | .fairshare = {queues: {gold: {charge: 0.5}}}" && start_instance ;;
		*) reload_plugin ;;
		esac && wait_settled &&
		retry_usage 5001 "$of_batch + $of_later" && retry_usage 5002 "$of_gold + $of_running" &&
		retry_usage 5003 "\$now - $(print_start $early) + $of_ended" || return 1
	done
'
test_expect_success 'a record of a push with an invalid factor is named, and the last push stays in force' '
	push_tree "[{\"queue\":\"gold\",\"since\":1,\"factor\":2},{\"queue\":\"free\",\"since\":1,\"factor\":-1}]" >out; cat out &&
	grep "charges\[1\].factor: expected a number from 0 to 1000, got -1 (queue free); correct the record" out &&
	check_usage 5001 "$of_batch + $of_later"
'
cancel_all
finish
