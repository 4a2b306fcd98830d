#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flaws of the original plugin: a restart of the instance'
# Rules: K8, L12, R16

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance loads the plugin with its data' '
	mf doc assoc 5001 A max_running_jobs=1 assoc 5002 A assoc 5003 A assoc 5004 A project "*" >doc &&
	write_conf "$(with_linger) | $(with_plugin doc)" && start_instance
'
test_expect_success 'jobs are in RUN, DEPEND, SCHED and CLEANUP' '
	touch linger &&
	clean=$(mf submit 5003) && wait_running $clean && cancel $clean && wait_for epilog-start $clean &&
	carried=$(mf submit 5004) && wait_running $carried &&
	run=$(mf submit 5001 -N2) && wait_running $run &&
	held=$(mf submit 5001) && wait_held_by $held max-running-jobs-user-limit &&
	second=$(mf submit 5001) && wait_held_by $second max-running-jobs-user-limit &&
	stop_queues && sched=$(mf submit 5002) && wait_scheduled $sched &&
	mf counts 5001 A active=3 run=1 nodes=2 cores=2 held=2 && mf counts 5002 A active=1 sched=1
'
test_expect_success 'the instance restarts' '
	restart_instance && rm linger &&
	wait_for flux-restart $sched && wait_settled && is_state RUN $run && is_state DEPEND $held
'
test_expect_success 'flaw 3: a job in SCHED that flux-restart moved counts once' '
	is_state SCHED $sched && mf counts 5002 A active=1 sched=1
'
test_expect_success 'flaw 1: held jobs are known as held after the restart' '
	deps_are $held max-running-jobs-user-limit && deps_are $second max-running-jobs-user-limit &&
	mf counts 5001 A active=3 run=1 nodes=2 held=2
'
test_expect_success 'flaw 1: held jobs go one by one after the restart' '
	start_queues && cancel $run && wait_running $held && wait_settled && is_state DEPEND $second &&
	cancel $held && wait_running $second
'
test_expect_success 'flaw 37: the end of a job that ran over a restart is uncounted' '
	mf counts 5004 A active=1 run=1 nodes=1 && cancel $carried && wait_ended $carried &&
	mf counts 5004 A active=0 run=0 nodes=0 cores=0
'
test_expect_success 'flaw 37: a job in CLEANUP at the restart counts' '
	mf counts 5003 A active=1 run=1 nodes=1
'
test_expect_success 'the job in CLEANUP ends' '
	{ cancel $held; cancel $second; true; } && end_linger $clean && wait_ended $clean
'
test_expect_success 'flaw 37: the end of a job in CLEANUP at the restart is uncounted' '
	mf counts 5003 A active=0 run=0 nodes=0 cores=0
'
test_expect_success 'a job has a log without its last event, and another waits in PRIORITY' '
	flux cancel --all --user=all && remove_plugin && load_plugin && unlog_end $clean &&
	wait=$(mf submit 5002) && wait_for depend $wait && mf alive && is_state PRIORITY $wait
'
test_expect_success 'flaw 43: a restart with data gives a waiting job its priority without another RPC' '
	restart_instance && wait_running $wait && mf counts 5002 A active=1 run=1 &&
	test $(mf spec $wait attributes.system.bank) = A
'
test_expect_success 'flaw 46: a job that ends during the restart logs no error' '
	wait_ended $clean && no_errors && mf counts 5003 A active=0 run=0
'
finish
