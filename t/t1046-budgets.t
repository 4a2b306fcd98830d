#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='budgets of node-hours: jobs that may overspend a budget are held or rejected, over reloads and restarts'
# Rules: B1, B3, B4, B5, B6, B7, B8, B9, B10, B11

. "$(dirname "$0")/lib.sh"
in_sequence

MINUTE=60000 # of one node, in node-milliseconds
NOW=$(date +%s)

# print_budget SCOPE NAME DEPOSITED [START END [SPENT]]: prints the record of a budget of node-hours. DEPOSITED and SPENT are in
# node-milliseconds, START and END in seconds from the beginning of this test.
print_budget() {
	jq -nc --arg scope "$1" --arg name "$2" --argjson deposited "$3" --argjson start "$((NOW + ${4:-0}))" --argjson until "$((NOW + ${5:-86400}))" \
		--argjson spent "${6:-0}" \
		'{scope: $scope, name: $name, unit: "node-hours", start: $start, end: $until, deposited: $deposited, spent: $spent, rate: 0}'
}
# push_budgets BUDGET...: pushes users 5001 and 5002 in bank A and 5003 in bank B, and the budgets. WATERMARK is the time up to which the spent
# amounts include ended jobs.
WATERMARK=$NOW
push_budgets() {
	mf doc assoc 5001 A username=ann shares=1 usage=0 counted_until=$WATERMARK \
		assoc 5002 A username=bob shares=1 usage=0 counted_until=$WATERMARK assoc 5003 B username=cyd shares=1 usage=0 counted_until=$WATERMARK \
		bank root 0 parent= shares=1 active=1 bank A 0 parent=root shares=1 active=1 bank B 0 parent=root shares=1 active=1 \
		project "*" >doc.json &&
	printf '%s\n' "$@" | jq -sc --slurpfile doc doc.json --argjson at "$(date +%s.%N)" '$doc[0] + {budgets: ., tree: {policy: "fair-tree",
		at: $at, half_life: 600, node_weight: 1, core_weight: 0, gpu_weight: 0}}' >push.json &&
	mf rpc policy_update "$(cat push.json)"
}
# print_shown SCOPE NAME KEY: queries the plugin, and prints the value KEY of the budget that is in force.
print_shown() {
	mf query | jq ".budgets[] | select(.scope == \"$1\" and .name == \"$2\" and .in_force) | .$3"
}
# has_amounts SCOPE NAME SPENT COMMITTED: compares the amounts of a budget.
has_amounts() {
	mf query | jq -c '.budgets[] | [.scope, .name, .deposited, .spent, .committed, .in_force]' >amounts; cat amounts
	test "$(print_shown $1 $2 "spent == $3 and .committed == $4")" = true
}
# load_settings FILTER: replaces the table [fairshare].
load_settings() { write_conf "$(with_plugin) | .kvs[\"checkpoint-period\"] = \"200ms\" | .fairshare = $1" && flux config reload; }
# is_spent AMOUNT: checks that no job runs, and that the first budget has less than AMOUNT left. Between two jobs, no job
# runs for a moment, but more than AMOUNT is left.
is_spent() { mf query | jq -e ".budgets | all(.committed == 0) and .[0].deposited - .[0].spent < $1" >/dev/null; }
is_complete() { mf query | jq -e ".budgets | length > 0 and all(.complete)" >/dev/null; }
# print_charge ID: prints the charge of an ended job of one node, from its R and its eventlog.
print_charge() {
	local start end
	end=$(mf times "$1" clean) && flux job info "$1" R | jq --argjson ended "$end" '.execution |
		([($ended - .starttime), (.expiration - .starttime)] | min) * 1000 | round'
}
# print_reason ID: prints the text about the first limit that holds the job.
print_reason() { mf rpc explain "{\"jobs\":[$(flux job id "$1")]}" | sed "s/^ok //" | jq -r ".jobs[0].holds[0].text"; }

test_expect_success 'a push without a tree may not carry budgets' '
	write_conf "$(with_plugin) | .kvs[\"checkpoint-period\"] = \"200ms\" | .fairshare = {refresh: 1}" && start_instance &&
	mf doc assoc 5001 A project "*" | jq -c ". + {budgets: [$(print_budget bank A 1)], queues: [], banks: [], priority_factors: []}" >doc.json &&
	test_must_fail mf rpc policy_update "$(cat doc.json)" >out; cat out && grep "budgets: the push has no tree" out
'
test_expect_success 'the error about an invalid budget names the record, the value and the remedy' '
	test_must_fail push_budgets "$(print_budget bank A 1 20 10)" >out; cat out &&
	grep "budgets\[0\].end: expected an integer from $((NOW + 21)) to 100000000000, got $((NOW + 10)) (bank A, node-hours)" out &&
	grep "flux fairshare budget log" out
'
test_expect_success 'without budgets the query has no key for them' '
	push_budgets && mf query | jq -e "has(\"budgets\") | not"
'
test_expect_success 'a job counts with its nodes times its time limit in the budget of its bank and of the bank above' '
	push_budgets "$(print_budget bank root $((10 * MINUTE)))" "$(print_budget bank A $((6 * MINUTE)))" && wait_until is_complete &&
	a=$(mf submit 5001 -B A -N 2 -n 2 -t 120) && wait_running $a && mf query | jq -c .budgets &&
	test $(print_shown bank A "spent + .committed") = $((4 * MINUTE)) && test $(print_shown bank root "spent + .committed") = $((4 * MINUTE))
'
test_expect_success 'a budget holds a job that may use more than the balance' '
	b=$(mf submit 5002 -B A -t 180) && wait_held_by $b budget-node-hours-bank && deps_are $b budget-node-hours-bank &&
	c=$(mf submit 5003 -B B -t 240) && wait_running $c && d=$(mf submit 5003 -B B -t 150) && wait_held_by $d budget-node-hours-bank
'
test_expect_success 'explain names the budget and its amounts' '
	print_reason $b >reason && cat reason && grep -E "^0.0667 of 0.1 node-hours in the budget of bank A and the banks below it are spent, or committed to released jobs; this job takes 0.05$" reason
'
test_expect_success 'standing lists the budget of the bank' '
	mf rpc standing "{\"user\": 5002}" | sed "s/^ok //" >standing && jq -c ".associations[0].limits[] | select(.limit | startswith(\"budget\"))" standing &&
	jq -e ".associations[0].limits | any(.limit == \"budget-node-hours-bank\" and .measure == \"node-hours\" and .name == \"A\")" standing &&
	jq -c ".associations[0].budgets" standing && jq -e ".associations[0].budgets | map([.name, .deposited, .spent + .committed]) ==
		[[\"A\", $((6 * MINUTE)), $((4 * MINUTE))], [\"root\", $((10 * MINUTE)), $((8 * MINUTE))]]" standing
'
test_expect_success 'a job that ends early returns the unused amount' '
	cancel $a && wait_ended $a && wait_running $b $d && cancel $b && cancel $c && cancel $d && wait_ended $b $c $d && wait_settled &&
	test $(print_shown bank root committed) = 0
'
test_expect_success 'a job is charged for the run time in its R and its eventlog' '
	expected=$((2 * $(print_charge $a) + $(print_charge $b))) && spent=$(print_shown bank A spent) && echo "$expected expected, $spent spent" &&
	test $((expected - spent)) -le 60 && test $((spent - expected)) -le 60
'
test_expect_success 'a push that includes these jobs changes no balance' '
	spent_a=$(print_shown bank A spent) && spent_root=$(print_shown bank root spent) && sleep 1 && WATERMARK=$(date +%s.%N) &&
	push_budgets "$(print_budget bank root $((10 * MINUTE)) 0 86400 $spent_root)" "$(print_budget bank A $((6 * MINUTE)) 0 86400 $spent_a)" &&
	has_amounts bank A $spent_a 0 && has_amounts bank root $spent_root 0
'
test_expect_success 'a job without a time limit is rejected where a budget counts it' '
	check_refused "the budget of bank A counts node-hours, so each job needs a time limit: set one with -t" mf submit 5001 -B A -t 0
'
test_expect_success 'a budget of a user and of an association hold jobs too' '
	push_budgets "$(print_budget user 5001 $MINUTE)" "$(print_budget association 5002/A $MINUTE)" && e=$(mf submit 5001 -B A -t 61) &&
	f=$(mf submit 5002 -B A -t 61) && wait_held_by $e budget-node-hours-user && wait_held_by $f budget-node-hours-association
'
test_expect_success 'a deposit releases held jobs' '
	push_budgets "$(print_budget user 5001 $((2 * MINUTE)))" "$(print_budget association 5002/A $((2 * MINUTE)))" && wait_running $e $f && cancel_all
'
test_expect_success 'with the setting "reject", a job that does not fit is rejected' '
	load_settings "{refresh: 1, budgets: \"reject\"}" && push_budgets "$(print_budget bank A $MINUTE)" && wait_until is_complete &&
	test_must_fail mf submit 5001 -B A -t 61 2>out; cat out && grep "the job may use 0.017 node-hours, and the budget of bank A has" out
'
test_expect_success 'with the setting "warn", a budget neither rejects nor holds a job' '
	load_settings "{refresh: 1, budgets: \"warn\"}" && g=$(mf submit 5001 -B A -t 600) && h=$(mf submit 5001 -B A -t 0) && wait_running $g $h && cancel_all &&
	load_settings "{refresh: 1}"
'
test_expect_success 'a job waits outside of windows, and starts when the next window begins' '
	since=$(($(date +%s) - NOW)) && over=$(print_budget bank A $MINUTE 0 $since) &&
	push_budgets "$over" "$(print_budget bank A $((2 * MINUTE)) $((since + 1000)) $((since + 2000)))" &&
	i=$(mf submit 5001 -B A -t 30) && wait_held_by $i budget-node-hours-bank && test "$(print_shown bank A in_force)" = "" &&
	begin=$(($(date +%s) - NOW + 3)) && push_budgets "$over" "$(print_budget bank A $((2 * MINUTE)) $begin $((since + 2000)))" &&
	wait_running $i && test $(date +%s) -ge $((NOW + begin)) && cancel $i && wait_ended $i
'

# A budget of 60 node-seconds replaces a budget of 10 node-hours. Each of 500 jobs runs on one of four nodes for 0.2 to 0.4 s, so all jobs would
# spend more than 100 node-seconds. The jobs that the budget pays for take at least 15 s. No job runs during the restart, because sched-simple does
# not survive a restart with running jobs on fake resources. But many released jobs wait in SCHED. The scheduler must not have an unanswered request
# for resources either: if Flux stops after the scheduler wrote the R of a job and before Flux logged the event alloc, Flux takes the next answer
# about this job for an error ("already allocated"), and no job starts.
is_committed() { mf query | jq -c ".budgets[0]"; mf query | jq -e ".budgets[0].committed > 0" >/dev/null; }
test_expect_success '500 short jobs spend a budget up to a hundredth, and not more, over a reload and a restart' '
	WATERMARK=$(date +%s.%N) && push_budgets "$(print_budget bank A 60000)" && wait_until is_complete && flux queue stop --quiet &&
	for uid in 5001 5002; do mf submit $uid -B A -j 250 -c 4 -t 0.4 --run 0.2s || return 1; done >ids && test $(wc -l <ids) = 500 && wait_settled &&
	flux queue start --quiet && wait_running $(head -1 ids) && reload_plugin && wait_until is_complete && flux queue stop --quiet &&
	flux queue idle --quiet --timeout=${MF_WAIT}s && is_committed && restart_instance && wait_until is_complete && is_committed && flux queue start --quiet &&
	MF_WAIT=$((MF_WAIT * 4)) wait_until is_spent 400 && wait_settled &&
	spent=$(print_shown bank A spent) && echo "$spent are spent" && test $spent -le 60000 && test $spent -gt 59400
'
test_expect_success 'the other jobs are held, and the spent amount equals the charges of the jobs that ended' '
	flux jobs -A -f inactive -c 0 -no "{id.dec}" >ended && flux jobs -A -f depend -c 0 -no "{id.dec}" >held && mf state $(head -1 ids) &&
	test $(wc -l <held) -gt 100 && deps_are $(tail -1 held) budget-node-hours-bank && sum=0 &&
	for id in $(cat ids); do ! grep -q -x "$(flux job id --to=dec $id)" ended || sum=$((sum + $(print_charge $id))); done &&
	echo "the jobs were charged $sum, and the budget shows $spent" && test $((sum - spent)) -le 20 && test $((spent - sum)) -le 20
'
test_expect_success 'a kill of the broker loses no amount and releases no job' '
	sleep 1 && kill -9 $(flux getattr broker.pid); exec 8>&-; wait $broker_pid; broker_pid= &&
	start_instance && flux module reload sched-simple && flux queue start --quiet && wait_until is_complete && wait_settled && has_amounts bank A $spent 0 &&
	is_state DEPEND $(cat held) && deps_are $(tail -1 held) budget-node-hours-bank
'
test_expect_success 'a deposit for two more jobs releases two jobs' '
	count_held() { flux jobs -A -f depend -c 0 -no "{id.dec}" | wc -l; } && has_held() { test $(count_held) = $(($(wc -l <held) - 2)); } &&
	push_budgets "$(print_budget bank A $((spent + 800)))" && wait_until has_held && MF_WAIT=$((MF_WAIT * 4)) wait_until is_spent 800 && wait_settled && has_held && cancel_all
'
finish
