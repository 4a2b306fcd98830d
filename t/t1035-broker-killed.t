#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='kill -9 of the broker during jobs and pushes, kill -9 of a push, and the restarts after that'
# Rules: L9, S4

. "$(dirname "$0")/lib.sh"
in_sequence

USERS="5001 5002 5003 5004 5005 5006"
IDLE=5007 # has no job until jobs run after a restart

# print_policy N: prints a policy in which each user may run N jobs. If two policies were mixed, users would have different limits.
print_policy() {
	local user
	mf doc $(for user in $USERS $IDLE; do echo "assoc $user A max_running_jobs=$1"; done) project "*" bank A 1
}
# print_limits: prints the different values of max_run_jobs in the records of all users except the instance owner. A push
# adds a record without limits for the owner.
print_limits() { mf query "sorted({b['max_run_jobs'] for u in q['mf_priority_map'] for b in u['banks'] if u['userid'] != $(id -u)})"; }

# push_until_killed: pushes the two policies alternately until the broker is gone.
push_until_killed() {
	while mf rpc policy_update "$(cat doc2)" && mf rpc policy_update "$(cat doc3)"; do :; done
}
# submit_until_killed: submits jobs of all users until the broker is gone; some jobs end at once, and some never end.
submit_until_killed() {
	while :; do
		for user in $USERS; do
			mf submit $user -j 10 --run 0.05s && mf submit $user --run 1h || return
		done
	done
}
# kill_broker N: kills the broker during pushes and submissions, as soon as N submissions and two pushes of each policy were accepted.
kill_broker() {
	local pid pushing submitting n=0
	pid=$(flux getattr broker.pid) && flux getattr broker.pid >>pids || return 1
	: >pushes.out && : >submits.out || return 1 # the loop below reads them before the writers start
	push_until_killed >>pushes.out 2>&1 & pushing=$!
	submit_until_killed >>submits.out 2>&1 & submitting=$!
	while test $(wc -l <submits.out) -lt $1 || test $(grep -c "^ok" pushes.out) -lt 4; do
		n=$((n + 1)) && test $n -lt $((MF_WAIT * 40)) && are_both_alive || { tail submits.out pushes.out; return 1; }
		sleep 0.05
	done
	are_both_alive || { tail submits.out pushes.out; return 1; }
	kill -9 $pid
	exec 8>&-
	wait $pushing $submitting
	wait $broker_pid
	broker_pid=
	unset FLUX_URI
}
are_both_alive() { kill -0 $pushing && kill -0 $submitting; }
wait_for_limits() {
	local now until=$((SECONDS + MF_WAIT))
	while test $SECONDS -le $until; do
		now=$(print_limits) && test "$now" = "$1" -o "$now" = "${2:-$1}" && return 0
		sleep 0.1
	done
	echo "$now is in force"
	return 1
}
# push_both: pushes the two policies one after the other, so that at least one push changes the data.
push_both() {
	local n
	for n in 2 3; do mf rpc policy_update "$(cat doc$n)" && wait_for_limits "[$n]" || return 1; done
}
# check_running_at_most N: checks that no user runs more than N jobs, which strict running limits guarantee.
check_running_at_most() {
	mf query "[(u['userid'], b['cur_run_jobs']) for u in q['mf_priority_map'] for b in u['banks'] if b['cur_run_jobs'] > $1]" >over &&
	test "$(cat over)" = "[]" || { cat over; return 1; }
}

# wait_for_checkpoints: waits until the KVS has a snapshot, and then for several checkpoints.
wait_for_checkpoints() {
	local until=$((SECONDS + MF_WAIT))
	until flux kvs get mf_priority.remember.manifest >/dev/null 2>&1; do
		test $SECONDS -le $until || return 1
		sleep 0.1
	done
	sleep 2
}

test_expect_success 'an instance checkpoints its KVS every 200 ms' '
	print_policy 2 >doc2 && print_policy 3 >doc3 &&
	write_conf "$(with_plugin) | .kvs[\"checkpoint-period\"] = \"200ms\" | .fairshare[\"running-limits\"] = \"strict\"" && start_instance &&
	mf rpc policy_update "$(cat doc2)" && wait_for_checkpoints
'
# The test only checks that jobs reach SCHED. After a broker was killed, Flux may send no requests to the
# scheduler, so the jobs may never run.
for round in 1 2 3; do
	test_expect_success "the instance restarts after its broker was killed during jobs and pushes, round $round" '
		kill_broker $((round * 60)) && start_instance
	'
	test_expect_success 'one whole policy is in force after the restart' '
		wait_for_limits "[2]" "[3]" && mf check && check_running_at_most 3
	'
	test_expect_success 'jobs reach SCHED after the next push' '
		start_queues && push_both && id=$(mf submit $IDLE --run 0.01s) && wait_scheduled $id && mf check && check_running_at_most 3
	'
done
test_expect_success 'all jobs end, and no counter remains' '
	cancel_all && mf check >left && cat left && jq -e ".jobs == 0 and .waiting == 0" left && check_running_at_most 0
'
# The broker may have died after it wrote the R of a job and before it logged the event alloc. Flux then takes the next answer of the scheduler
# for an error, and sends the scheduler no more requests.
test_expect_success 'the scheduler is loaded again' 'flux module reload sched-simple'
test_expect_success 'a held job and the policy outlive the kill of an idle broker' '
	run=$(mf submit 5001) && wait_running $run && sleep 1 && held=$(mf submit 5002 -j 9 | tail -1) && wait_held_by $held max-running-jobs-user-limit && sleep 1 &&
	kill -9 $(flux getattr broker.pid); exec 8>&-; wait $broker_pid; broker_pid= &&
	start_instance && wait_for_limits "[3]" && is_state DEPEND $held && mf check && check_running_at_most 3 &&
	cancel_all && mf check >left && cat left && jq -e ".jobs == 0" left
'

FAIRSHARE=${FAIRSHARE_UNDER_TEST:-$T_DIR/../target/release/flux-fairshare}
PUSH="$FAIRSHARE push"
test -x "$FAIRSHARE" && test_set_prereq COMMAND
test_expect_success COMMAND 'a push that is killed at twelve moments leaves the old limits or the new ones, never a mix' '
	jq ".associations += [range(6000; 8000) as \$u | .associations[0] | .userid = \$u]" doc2 >large2 &&
	sed "s/\"max_running_jobs\": *2,/\"max_running_jobs\": 3,/g" large2 >large3 && ! cmp -s large2 large3 &&
	$PUSH -p large3 && wait_for_limits "[3]" && began=$(date +%s.%N) && $PUSH -p large2 && whole=$(jq -n "$(date +%s.%N) - $began") &&
	wait_for_limits "[2]" && killed=0 &&
	for moment in $(jq -n "range(12) * $whole / 12"); do
		$PUSH -p large3 >push.out 2>&1 & push=$!
		sleep $moment
		kill -9 $push 2>/dev/null
		wait $push
		test $? -ne 137 || killed=$((killed + 1))
		print_limits >now && cat now && grep -q -x -e "\[2\]" -e "\[3\]" now || return 1
		$PUSH -p large2 || return 1
	done && echo "$killed of 12 were killed in the middle" && test $killed -ge 3
'
finish
