#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='counters of a job on each way through its states'
# Rules: L9, L11, L12, L14

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance can keep finished jobs in CLEANUP' '
	write_conf "$(with_queues q) | $(with_linger)" && start_instance && load_plugin &&
	mf push assoc 5001 A queues=q queue q project "*"
'
none="active=0 run=0 sched=0 nodes=0 cores=0 held=0 q.run=0 q.nodes=0 q.sched=0 q.sched_nodes=0 q.sched_cores=0"
sched="active=1 run=0 sched=1 nodes=0 cores=0 held=0 q.run=0 q.nodes=0 q.sched=1 q.sched_nodes=2 q.sched_cores=6"
run="active=1 run=1 sched=0 nodes=2 cores=6 held=0 q.run=1 q.nodes=2 q.sched=0 q.sched_nodes=0 q.sched_cores=0"

test_expect_success 'a job in SCHED counts its nodes and cores in SCHED' '
	stop_queues && id=$(mf submit 5001 -q q -N 2 -n 6) && wait_scheduled $id && mf counts 5001 A $sched
'
test_expect_success 'a job that bounces between SCHED and PRIORITY counts once' '
	for u in 0 31 16 1 16; do flux job urgency $id $u >out || return 1; done && mf update $id duration=100 && mf push &&
	mf alive && mf counts 5001 A $sched
'
test_expect_success 'a job in RUN counts its nodes and cores as running' 'start_queues && wait_running $id && mf counts 5001 A $run'
test_expect_success 'a running job counts the resources of its R, also after a reload' '
	mf running $id && reload_plugin && mf push assoc 5001 A queues=q queue q project "*" &&
	mf running $id && mf counts 5001 A $run
'
test_expect_success 'an update of a running job leaves its counters unchanged' 'mf update $id duration=90 && mf counts 5001 A $run'
test_expect_success 'a job in CLEANUP counts as running' '
	touch linger && cancel $id && wait_for epilog-start $id && is_state CLEANUP $id && mf counts 5001 A $run
'
test_expect_success 'an inactive job counts nowhere' 'rm linger && wait_ended $id && mf counts 5001 A $none'
test_expect_success 'a job that ends by itself counts nowhere afterwards' '
	id=$(mf submit 5001 -q q --run 0.1s) && wait_ended $id && mf counts 5001 A $none
'
test_expect_success 'a job that is cancelled in SCHED counts nowhere afterwards' '
	stop_queues && id=$(mf submit 5001 -q q) && wait_scheduled $id && cancel $id && wait_ended $id && mf counts 5001 A $none
'
test_expect_success 'a job that is cancelled in SCHED at urgency 0 counts nowhere afterwards' '
	id=$(mf submit 5001 -q q -u 0) && wait_scheduled $id && cancel $id && wait_ended $id && mf counts 5001 A $none
'
test_expect_success 'a job that our limit holds in DEPEND counts as active and held' '
	mf push assoc 5001 A queues=q max_sched_jobs=0 && id=$(mf submit 5001 -q q) && wait_held_by $id max-sched-jobs-user-limit &&
	mf counts 5001 A active=1 sched=0 held=1 q.sched=0
'
test_expect_success 'a job that is cancelled while held counts nowhere afterwards' '
	cancel $id && wait_ended $id && mf counts 5001 A $none
'
test_expect_success 'changes of urgency and duration leave a held job counted once' '
	id=$(mf submit 5001 -q q) && wait_held_by $id max-sched-jobs-user-limit && flux job urgency $id 0 >out &&
	flux job urgency $id 20 >out && mf update $id duration=50 && mf counts 5001 A active=1 sched=0 held=1
'
test_expect_success 'a held job that is released and cancelled counts nowhere afterwards' '
	mf push assoc 5001 A queues=q && wait_scheduled $id && mf counts 5001 A active=1 sched=1 held=0 &&
	cancel $id && wait_ended $id && mf counts 5001 A $none
'
test_expect_success 'a job that another plugin blocks in DEPEND counts as active only' '
	a=$(mf submit 5001 -q q) && wait_scheduled $a && id=$(mf submit 5001 -q q -d afterany:$a) && wait_for dependency-add $id && mf alive &&
	is_state DEPEND $id && mf counts 5001 A active=2 sched=1 held=0
'
test_expect_success 'a job that is cancelled while blocked counts nowhere afterwards' '
	cancel $id $a && wait_ended $id $a && mf counts 5001 A $none
'
test_expect_success 'a job that is cancelled in PRIORITY before data counts nowhere afterwards' '
	reload_plugin && id=$(mf submit 5001 -q q) && wait_for depend $id && mf alive && is_state PRIORITY $id &&
	cancel $id && wait_ended $id && mf push assoc 5001 A queues=q queue q project "*" && mf counts 5001 A active=0 sched=0
'
test_expect_success 'a job that exceeds its time limit and a job that fails count nowhere afterwards' '
	start_queues && a=$(mf submit 5001 -q q -t 0.2 ) && b=$(mf submit 5001 -q q --run 0.1s --set attributes.system.exec.test.wait_status=256) &&
	wait_ended $a $b && mf counts 5001 A active=0 run=0 sched=0 nodes=0 cores=0 q.run=0
'
test_expect_success 'a job that the executor refuses counts nowhere afterwards' '
	id=$(mf submit 5001 -q q --set attributes.system.exec.test.mock_exception=\"init\") && wait_ended $id &&
	mf counts 5001 A active=0 run=0 sched=0 nodes=0 cores=0 q.run=0 q.nodes=0
'
test_expect_success 'a job that another plugin ends by a fatal exception counts nowhere afterwards' '
	id=$(mf submit 5001 -q q) && wait_running $id && flux job raise --severity=0 --type=test $id && wait_ended $id &&
	mf counts 5001 A active=0 run=0 nodes=0
'
test_expect_success 'a hundred short jobs of three users count nowhere afterwards' '
	mf push assoc 5001 A queues=q max_running_jobs=3 assoc 5002 A queues=q max_sched_jobs=2 assoc 5003 A queues=q max_cores=2 &&
	ids="$(mf submit 5001 -q q -j 34 --run 0.01s) $(mf submit 5002 -q q -j 33 --run 0.01s) $(mf submit 5003 -q q -j 33 --run 0.01s)" &&
	wait_ended $ids && for u in 5001 5002 5003; do mf counts $u A active=0 run=0 sched=0 nodes=0 cores=0 held=0 q.run=0 q.sched=0 || return 1; done
'
finish
