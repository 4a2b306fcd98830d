#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='restarts of the instance, with and without data, while jobs are in every state'
# Rules: K8, P10, R16

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance has jobs in RUN, SCHED, PRIORITY and DEPEND, held, blocked or both' '
	mf doc assoc 5001 A queues=q max_running_jobs=1 assoc 5002 A queues=q assoc 5004 A queues=q queue q project "*" >doc &&
	write_conf "$(with_queues q) | $(with_plugin)" && start_instance &&
	waiting=$(mf submit 5004 -q q) && wait_for depend $waiting && wait_settled && is_state PRIORITY $waiting &&
	mf push assoc 5001 A queues=q max_running_jobs=1 assoc 5002 A queues=q queue q project "*" &&
	run=$(mf submit 5001 -q q -N 2) && wait_running $run && held=$(mf submit 5001 -q q) && wait_held_by $held max-running-jobs-user-limit &&
	both=$(mf submit 5001 -q q -d afterany:$run) && wait_held_by $both max-running-jobs-user-limit &&
	stop_queues && sched=$(mf submit 5002 -q q) && wait_scheduled $sched && zero=$(mf submit 5002 -q q -u 0) && wait_scheduled $zero &&
	foreign=$(mf submit 5002 -q q -d afterany:$sched) && wait_for dependency-add $foreign
'
check_states() { is_state RUN $run && is_state SCHED $sched $zero && is_state DEPEND $held $both $foreign; }
check_counts() {
	mf counts 5001 A active=3 run=1 nodes=2 cores=2 held=2 sched=0 q.run=1 q.nodes=2 &&
	mf counts 5002 A active=3 run=0 sched=2 held=0 q.sched=2 &&
	deps_are $held max-running-jobs-user-limit && deps_are $both max-running-jobs-user-limit && deps_are $foreign none
}
test_expect_success 'the counters are exact before the restart' 'check_states && check_counts'
test_expect_success 'a restart without data leaves jobs from SCHED in PRIORITY and all others in their states' '
	restart_instance && wait_settled && is_state RUN $run && is_state PRIORITY $sched $zero $waiting && is_state DEPEND $held $both $foreign
'
test_expect_success 'a restart without data logs no error' 'no_errors'
test_expect_success 'the counters are exact when data arrive after the restart' '
	mf push assoc 5001 A queues=q max_running_jobs=1 assoc 5002 A queues=q queue q project "*" && wait_settled && check_states && check_counts
'
test_expect_success 'the counters are exact after a restart with data in the configuration' '
	write_conf "$(with_queues q) | $(with_plugin doc)" && restart_instance && wait_scheduled $waiting && wait_settled && check_states && check_counts
'
test_expect_success 'the counters are exact after two more restarts' '
	restart_instance && wait_settled && check_states && check_counts && restart_instance && wait_settled && check_states && check_counts && no_errors
'
test_expect_success 'the priorities are unchanged after the restarts' 'prio_is $sched 50000 && prio_is $zero 0'
test_expect_success 'held jobs are released one by one after the restarts' '
	cancel $run && wait_ended $run && wait_scheduled $held && wait_settled && is_state DEPEND $both $foreign &&
	start_queues && wait_running $held $sched && cancel $sched && wait_running $foreign && cancel $held && wait_running $both
'
test_expect_success 'a later restart does not hold a job that was released before' '
	restart_instance && wait_settled && is_state RUN $both && mf counts 5001 A active=1 run=1 held=0
'
test_expect_success 'a held job is released without a push if its limit has headroom after the restart' '
	next=$(mf submit 5001 -q q) && wait_held_by $next max-running-jobs-user-limit &&
	jq ".associations[0].max_running_jobs = 5" <doc >higher && write_conf "$(with_queues q) | $(with_plugin higher)" &&
	restart_instance && wait_running $next && mf counts 5001 A active=2 run=2 held=0
'
test_expect_success 'a held job can be cancelled after a restart' '
	write_conf "$(with_queues q) | $(with_plugin doc)" && last=$(mf submit 5001 -q q -N 4 -n 16) && wait_scheduled $last &&
	reload_plugin doc && more=$(mf submit 5001 -q q) && wait_held_by $more max-running-jobs-user-limit && restart_instance && wait_settled &&
	cancel $more && wait_ended $more && mf counts 5001 A active=3 run=2
'
test_expect_success 'all jobs end, and nothing is left in the counters' '
	flux job urgency $zero 16 >out && cancel_all && for u in 5001 5002 5004; do mf counts $u A active=0 run=0 sched=0 nodes=0 cores=0 held=0 || return 1; done
'
test_expect_success 'a held job that was unblocked before the restart is released ahead of later jobs' '
	cancel_all && mf doc assoc 5001 A queues=q max_running_jobs=1 assoc 5001 B queues=q queue q project "*" >two &&
	write_conf "$(with_queues q) | $(with_plugin two)" && restart_instance && a=$(mf submit 5001 -q q) && other=$(mf submit 5001 -q q -B B) &&
	wait_running $a $other && early=$(mf submit 5001 -q q -d afterany:$other) && wait_held_by $early max-running-jobs-user-limit &&
	later=$(mf submit 5001 -q q) && wait_held_by $later max-running-jobs-user-limit && cancel $other && wait_ended $other &&
	restart_instance && wait_settled && cancel $a && wait_running $early && wait_settled && is_state DEPEND $later
'
finish
