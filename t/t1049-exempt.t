#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='exempt queues and the largest priority of a queue, in real Flux with several users'
# Rules: L40, L41, L42, P16

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# load_queues JQ: loads the configuration with this table [fairshare.queues].
load_queues() {
	jq --argjson queues "$1" '.fairshare.queues = $queues' conf.json >more.json && cp more.json conf.json && flux config load <conf.json
}
exempt='"exempt": ["association", "bank", "user"]'
# print_counts UID: prints the running and active jobs that limits of the user's record count.
print_counts() { mf query | jq -c ".mf_priority_map[] | select(.userid == $1) | .banks[0] | [.cur_run_jobs, .cur_active_jobs]"; }
print_used() { mf query | jq ".limits[0].used"; }
submit() { local uid=$1 queue=$2; shift 2; mf submit "$uid" -B A -q "$queue" "$@"; }
has_priority() { test "$(flux jobs -no "{priority}" "$1")" = "$2"; }
has_limit() { mf query | jq -e ".limits | length == 1"; }

test_expect_success 'two users may run one job each, and a bank two' '
	write_conf "$(with_queues batch standby) | .fairshare.live = false | .fairshare.queues.standby = {$exempt, \"max-priority\": 100}" &&
	start_instance && load_plugin &&
	mf doc assoc 5001 A fairshare=0.5 max_running_jobs=1 max_active_jobs=3 queues=batch,standby assoc 5002 A fairshare=0.6 queues=batch,standby \
		assoc 5003 A fairshare=0.7 queues=batch,standby queue batch queue standby project "*" bank A 0 factor fairshare 100000 |
		jq ".limits = [{scope: \"bank\", name: \"A\", \"run-sched-jobs\": 2}]" >site.json && mf rpc policy_update "$(cat site.json)" &&
	mf query | jq -e ".queue_rules == {standby: {exempt: [\"association\", \"bank\", \"user\"], max_priority: 100}}"
'
test_expect_success 'standby jobs run while the user and the bank are at their limits, and do not count' '
	a=$(submit 5001 batch) && b=$(submit 5002 batch) && wait_running $a $b && held=$(submit 5001 batch) && full=$(submit 5003 batch) &&
	wait_held_by $held max-run-sched-jobs-bank && wait_held_by $held max-running-jobs-user-limit && wait_held_by $full max-run-sched-jobs-bank &&
	c=$(submit 5001 standby) && d=$(submit 5001 standby) && e=$(submit 5003 standby) && wait_running $c $d $e &&
	test "$(print_counts 5001)" = "[1,2]" && test "$(print_used)" = 2
'
test_expect_success 'max_active_jobs counts no standby job' '
	f=$(submit 5001 batch) && check_refused "user has max active jobs; 3 of 3 in bank A: wait until one ends" submit 5001 batch && g=$(submit 5001 standby) && wait_running $g
'
test_expect_success 'why and standing name the rules of the queue' '
	flux fairshare why $c >out && cat out && grep "Queue standby: exempt from limits over all queues (scopes: association, bank, user); priorities of at" out &&
	flux fairshare why $held >out && cat out && grep "1 of 1" out && flux fairshare standing 5001 >out && grep "Queue standby: exempt" out
'
test_expect_success 'a standby job that moves to batch is refused while the limits are full' '
	stop_queues && h=$(submit 5001 standby) && wait_scheduled $h && test_must_fail flux update $h queue=batch 2>err && cat err &&
	grep "max-active-jobs" err && cancel $f && wait_ended $f && test_must_fail flux update $h queue=batch 2>err && grep "max-running-jobs-user-limit" err
'
test_expect_success 'a standby job gets at most the max-priority, except at urgency 31' '
	wait_until has_priority $h 100 && i=$(submit 5003 standby) && wait_until has_priority $i 100 && flux job urgency $i 20 && j=$(submit 5002 standby) && flux job urgency $j 0 && wait_until has_priority $j 0 &&
	wait_until has_priority $i 100 &&
	flux job urgency $i 31 && wait_until has_priority $i 4294967295 && flux job urgency $i 16 && wait_until has_priority $i 100 &&
	flux fairshare why $h >out && cat out && grep "The sum is lowered to the queue.s max-priority." out &&
	flux fairshare why --json $h | jq -e ".jobs[0].posted.outcome == \"lowered-in-queue\" and .jobs[0].max_priority == 100"
'
test_expect_success 'check prints the rules of the queue and the priority that a standby job would get' '
	flux fairshare check -u 5003 -B A -q standby hostname >out; cat out && grep "Queue standby: exempt" out && grep "It has priority 100" out
'
test_expect_success 'a reload of the configuration raises and removes the max-priority' '
	load_queues "{\"standby\": {$exempt, \"max-priority\": 200}}" && wait_until has_priority $h 200 &&
	flux fairshare why $h | grep "the configuration changed the max-priority of queue standby" &&
	load_queues "{\"standby\": {$exempt}}" && wait_until has_priority $h 50000 && cancel $h $i $j && wait_ended $h $i $j && start_queues
'
test_expect_success 'a reload without exemptions counts all jobs again, and holds none that runs' '
	load_queues "{}" && wait_settled && is_state RUN $a $b $c $d $e $g && test "$(print_counts 5001)" = "[4,5]" && test "$(print_used)" = 6 &&
	h=$(submit 5003 standby) && wait_held_by $h max-run-sched-jobs-bank && mf query | jq -e "has(\"queue_rules\") | not"
'
test_expect_success 'a reload with exemptions releases the held standby job' '
	load_queues "{\"standby\": {$exempt}}" && wait_running $h && test "$(print_counts 5001)" = "[1,2]" && test "$(print_used)" = 2 &&
	wait_settled && is_state DEPEND $held $full
'
test_expect_success 'a restart keeps the counters and the held jobs' '
	write_conf "$(with_queues batch standby) | $(with_plugin) | .fairshare.live = false | .fairshare.queues.standby = {$exempt}" &&
	wait_settled && restart_instance && wait_until has_limit &&
	wait_settled && is_state DEPEND $held $full && test "$(print_counts 5001)" = "[1,2]" && test "$(print_used)" = 2 &&
	k=$(submit 5001 standby) && wait_running $k
'
test_expect_success 'the end of a standby job frees nothing, and the end of a batch job releases the next' '
	cancel $k && wait_ended $k && wait_settled && is_state DEPEND $held $full && cancel $b && wait_ended $b && wait_running $full &&
	wait_settled && is_state DEPEND $held && cancel $a && wait_ended $a && wait_running $held && cancel_all
'
test_expect_success 'an unknown scope or a priority of 0 is refused' '
	test_must_fail load_queues "{\"standby\": {\"exempt\": [\"asociation\"]}}" 2>err && cat err &&
	grep -F "fairshare.queues.standby.exempt: expected an array of \"association\", \"bank\" and \"user\", got [\"asociation\"]" err &&
	test_must_fail load_queues "{\"standby\": {\"max-priority\": 0}}" 2>err && grep "expected an integer from 1 to 4294967294" err
'
finish
