#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='explain names each of the eight limits and each other cause, and its predicted times hold'
# Rules: L1

. "$(dirname "$0")/lib.sh"

call_as() { local as=$1; shift; mf rpc --as "$as" "$@" | sed "s/^ok //"; }
explain_job() { call_as 5001 explain "{\"jobs\":[$(flux job id "$1")]}" >out && jq '.jobs[0]' out >job; }
check_job() { jq -e "$1" job >/dev/null || { echo "not so: $1"; jq . job; return 1; }; }
# push_limits ASSOC_KEYS -- QUEUE_KEYS: pushes limits of user 5001 in bank A and of queue q.
push_limits() {
	local assoc=()
	while test $# -gt 0 && test "$1" != --; do assoc+=("$1"); shift; done
	shift
	mf push assoc 5001 A queues=q "${assoc[@]}" assoc 5001 B queues=r max_active_jobs=2 queue q "$@" queue r project "*"
}
print_counter() { mf query "[b for u in q['mf_priority_map'] for b in u['banks'] if b['bank_name'] == 'A'][0]$1"; }
# check_hold LIMIT MEASURE USED CAP NEEDED: checks that explain, query and dependencies of $held agree.
check_hold() {
	wait_held_by $held $1 && explain_job $held &&
	check_job ".held and .carries == [\"$1\"] and (.holds | length) == 1" &&
	check_job ".holds[0] | .limit == \"$1\" and .measure == \"$2\" and .used == $3 and .limit_is == $4 and .needed == $5" &&
	check_job ".holds[0] | (.frees | map(.amount) | add) == .used and .frees_total >= 1" &&
	check_job ".helps | length > 0" && deps_are $held $1 &&
	call_as 5001 jobs "{\"ids\":[$(flux job id $held)]}" >list && jq -e ".jobs[0].holds == [\"$1\"]" list
}
end_jobs() { cancel "$@" && wait_ended "$@"; }

test_expect_success 'an instance has two queues' '
	write_conf "$(with_queues q r)" && start_instance && load_plugin
'
test_expect_success 'explain names the limit of running jobs in a queue' '
	push_limits -- max_running_jobs=1 && run=$(mf submit 5001 -q q) && wait_running $run && held=$(mf submit 5001 -q q) &&
	check_hold max-run-jobs-queue jobs 1 1 1 && check_job ".holds[0] | .scope == \"queue\" and .queue == \"q\" and .stage == \"running\"" &&
	test $(print_counter "[\"queue_usage\"][\"q\"][\"cur_run_jobs\"]") = 1 && end_jobs $run $held
'
test_expect_success 'explain names the limit of running jobs of an association' '
	push_limits max_running_jobs=1 -- && run=$(mf submit 5001 -q q) && wait_running $run && held=$(mf submit 5001 -q q) &&
	check_hold max-running-jobs-user-limit jobs 1 1 1 && check_job ".holds[0].frees[0] | .state == \"run\" and .id == $(flux job id $run)" &&
	check_job ".helps | map(.code) | index(\"wait\") != null and index(\"cancel\") != null" && end_jobs $run $held
'
test_expect_success 'explain names the limits of nodes and cores of running jobs' '
	push_limits max_nodes=3 -- && run=$(mf submit 5001 -q q -N 2 -n 2) && wait_running $run && held=$(mf submit 5001 -q q -N 2 -n 2) &&
	check_hold max-resources-user-limit nodes 2 3 2 && check_job ".helps[] | select(.code == \"smaller\") | .text | test(\"at most 1 nodes\")" &&
	end_jobs $held && push_limits max_cores=3 -- && held=$(mf submit 5001 -q q -N 2 -n 2) && check_hold max-resources-user-limit cores 2 3 2 && end_jobs $run $held
'
test_expect_success 'explain names the limits of jobs in SCHED, of an association and of a queue' '
	stop_queues && push_limits max_sched_jobs=1 -- && one=$(mf submit 5001 -q q) && wait_scheduled $one && held=$(mf submit 5001 -q q) &&
	check_hold max-sched-jobs-user-limit jobs 1 1 1 && check_job ".latest == null and .latest_reason.code == \"needs-start\"" &&
	check_job ".holds[0].frees == [{id: $(flux job id $one), state: \"sched\", amount: 1, by: null}]" && end_jobs $held &&
	push_limits -- max_sched_jobs=1 && held=$(mf submit 5001 -q q) && check_hold max-sched-jobs-queue-limit jobs 1 1 1 && end_jobs $one $held
'
test_expect_success 'explain names the limits of nodes and cores in SCHED in a queue' '
	stop_queues && push_limits -- max_sched_nodes_per_assoc=3 && one=$(mf submit 5001 -q q -N 2 -n 2) && wait_scheduled $one && held=$(mf submit 5001 -q q -N 2 -n 2) &&
	check_hold max-sched-nodes-queue-limit nodes 2 3 2 && end_jobs $held &&
	push_limits -- max_sched_cores_per_assoc=3 && held=$(mf submit 5001 -q q -N 2 -n 2) && check_hold max-sched-cores-queue-limit cores 2 3 2 && end_jobs $one $held
'
test_expect_success 'explain names the limit of nodes in RUN and SCHED in a queue' '
	stop_queues && push_limits -- max_nodes_per_assoc=3 && one=$(mf submit 5001 -q q -N 2 -n 2) && wait_scheduled $one && held=$(mf submit 5001 -q q -N 2 -n 2) &&
	check_hold max-resources-queue nodes 2 3 2 && check_job ".holds[0].stage == \"both\"" && end_jobs $one $held
'
test_expect_success 'explain names the limit that holds the job, not the name that the job still carries' '
	start_queues && push_limits max_running_jobs=1 -- && run=$(mf submit 5001 -q q) && wait_running $run && held=$(mf submit 5001 -q q) &&
	wait_held_by $held max-running-jobs-user-limit &&
	mf data assoc 5001 A queues=q max_running_jobs=5 max_nodes=1 && explain_job $held &&
	check_job ".carries == [\"max-running-jobs-user-limit\"] and (.holds | map(.limit)) == [\"max-resources-user-limit\"]" && end_jobs $run $held
'
test_expect_success 'held jobs are released at the predicted times if running jobs use their whole time limit' '
	push_limits max_running_jobs=2 -- && a=$(mf submit 5001 -q q -t 20 --run 1h) && b=$(mf submit 5001 -q q -t 24 --run 1h) && wait_running $a $b &&
	one=$(mf submit 5001 -q q -t 60) && two=$(mf submit 5001 -q q -t 60) && wait_held_by $two max-running-jobs-user-limit &&
	explain_job $one && first=$(jq .latest job) && explain_job $two && second=$(jq .latest job) && check_job ".line == {place: 2, of: 2}" &&
	test $first = $(flux job info $a R | jq .execution.expiration) && test $second = $(flux job info $b R | jq .execution.expiration) &&
	wait_freed_from $one max-running-jobs-user-limit && wait_freed_from $two max-running-jobs-user-limit &&
	wait_ended $a $b && went() { mf times $1 dependency-remove; } && over() { mf times $1 clean; } &&
	jq -ne "$(went $one) - $first > -0.5 and $(went $two) - $second > -0.5" &&
	jq -ne "[$(went $one) - $(over $a), $(went $two) - $(over $b)] | all(. >= 0 and . < 1)" &&
	cancel $one $two && wait_ended $one $two
'
test_expect_success 'explain follows a new time limit of the running job' '
	push_limits max_running_jobs=1 -- && a=$(mf submit 5001 -q q -t 1000) && wait_running $a && held=$(mf submit 5001 -q q) && wait_held_by $held max-running-jobs-user-limit &&
	flux update $a duration=2000 && wait_settled && explain_job $held &&
	check_job ".latest - $(flux job info $a R | jq .execution.starttime) - 2000 | fabs < 1" && end_jobs $a $held
'
test_expect_success 'explain gives no latest start behind a job without a time limit or under a limit of 0' '
	push_limits max_running_jobs=1 -- && a=$(mf submit 5001 -q q -t 0) && wait_running $a && held=$(mf submit 5001 -q q) && wait_held_by $held max-running-jobs-user-limit &&
	explain_job $held && check_job ".latest == null and .latest_reason.code == \"no-time-limit\"" && end_jobs $a $held &&
	push_limits max_running_jobs=0 -- && held=$(mf submit 5001 -q q) && explain_job $held && check_job ".latest_reason.code == \"never\"" && end_jobs $held
'
test_expect_success 'explain names begin-time, other dependencies, urgency 0 and a score of 0' '
	push_limits -- && when=$(($(date +%s) + 3600)) && begin=$(mf submit 5001 -q q -d begin-time:$when) && explain_job $begin &&
	check_job ".others == [{cause: \"begin-time\", text: .others[0].text, name: \"begin-time=$when.000\", at: $when}]" &&
	after=$(mf submit 5001 -q q -d afterany:$begin) && explain_job $after && check_job ".others[0] | .cause == \"dependency\" and (.name | test(\"after-finish\"))" &&
	stop_queues && still=$(mf submit 5001 -q q -u 0) && explain_job $still && check_job ".others | map(.cause) | index(\"urgency\") != null" &&
	check_job ".helps[0].code == \"urgency\" and .posted.outcome == \"held-by-urgency\" and .posted.priority == 0" &&
	mf push assoc 5001 A queues=q fairshare=0 && nil=$(mf submit 5001 -q q) && wait_for priority $nil && explain_job $nil &&
	check_job ".others | map(.cause) | index(\"score\") != null" && check_job ".posted.priority == 0 and .posted.outcome == \"held-by-score\"" && end_jobs $still $nil $after $begin
'
test_expect_success 'explain names a stopped queue and a disabled queue' '
	stop_queues && push_limits -- && id=$(mf submit 5001 -q q) && wait_scheduled $id && sleep 1.1 && explain_job $id && check_job ".others | map(.cause) == [\"queue-stopped\"]" &&
	flux queue stop --quiet -m "for repair" q && flux queue disable --quiet -m "no more" q && sleep 1.1 && explain_job $id &&
	check_job ".others | map(.cause) == [\"queue-stopped\", \"queue-disabled\"]" && check_job ".others[0].text | test(\"queue q is stopped: for repair\")" &&
	flux queue enable --quiet q && end_jobs $id
'
test_expect_success 'a rejection says how to correct the submission' '
	push_limits max_active_jobs=1 -- && id=$(mf submit 5001 -q q) &&
	test_must_fail mf submit 5001 -q q 2>err && cat err &&
	grep -xF "user has max active jobs; 1 of 1 in bank A: wait until one ends" err &&
	test_must_fail mf submit 5001 -q q -B X 2>err && cat err && end_jobs $id && grep -xF "cannot find user/bank or user/default bank entry for uid: 5001; yours: A, B (default A)" err
'
test_expect_success 'the annotation of a held job names its limit' '
	push_limits max_running_jobs=1 -- && start_queues && write_conf "$(with_queues q r) | .fairshare = {annotate: true}" && flux config reload &&
	run=$(mf submit 5001 -q q) && wait_running $run && held=$(mf submit 5001 -q q) && wait_held_by $held max-running-jobs-user-limit && wait_settled &&
	flux jobs -A -no "{annotations.user.standing}" $held >note && cat note && grep -x "held: max-running-jobs-user-limit 1/1" note && end_jobs $run $held
'
cancel_all
finish
