#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flaws of the original plugin: a load while jobs exist'
# Rules: L6, L12, R16

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance can keep finished jobs in CLEANUP' '
	write_conf "$(with_linger)" && start_instance && load_plugin
'
test_expect_success 'a job stays in CLEANUP' '
	mf doc assoc 5001 A project "*" >doc &&
	mf push assoc 5001 A project "*" && touch linger &&
	id=$(mf submit 5001 -N2) && wait_running $id && cancel $id && wait_for epilog-start $id &&
	is_state CLEANUP $id
'
test_expect_success 'flaw 38: a job in CLEANUP at load counts as running' '
	reload_plugin doc && mf counts 5001 A active=1 run=1 nodes=2 cores=2
'
test_expect_success 'flaw 38: the end of a job in CLEANUP at load brings the counters to 0, not below' '
	rm linger && wait_ended $id && mf counts 5001 A active=0 run=0 nodes=0 cores=0
'
test_expect_success 'a running job holds a second job' '
	mf doc assoc 5002 A max_running_jobs=1 project "*" >doc2 && reload_plugin doc2 &&
	one=$(mf submit 5002) && wait_running $one &&
	two=$(mf submit 5002) && wait_held_by $two max-running-jobs-user-limit
'
test_expect_success 'flaw 39: a load releases a held job whose blocker ended while no plugin was loaded' '
	remove_plugin && cancel $one && wait_ended $one && is_state DEPEND $two &&
	load_plugin doc2 && wait_running $two && mf counts 5002 A active=1 run=1 held=0
'
test_expect_success 'jobs of two users wait in PRIORITY without a plugin' '
	remove_plugin &&
	for uid in 5003 5004; do
		id=$(mf submit $uid) && eval run$uid=$id && wait_for depend $id || return 1
	done &&
	mf alive && is_state PRIORITY $run5003 $run5004
'
test_expect_success 'flaw 40: a load gives each pending job the bank and project of its own user' '
	mf doc assoc 5003 A def_project=p3 projects=p3 assoc 5004 B def_project=p4 projects=p4 \
		project p3 project p4 >doc &&
	load_plugin doc && wait_running $run5003 $run5004 &&
	test $(mf spec $run5003 attributes.system.bank) = A &&
	test $(mf spec $run5003 attributes.system.project) = p3 &&
	test $(mf spec $run5004 attributes.system.bank) = B &&
	test $(mf spec $run5004 attributes.system.project) = p4
'
test_expect_success 'flaw 40: a job that was pending at load counts in its own association' '
	mf counts 5003 A active=1 run=1 && mf counts 5004 B active=1 run=1 &&
	cancel_all && mf counts 5003 A active=0 run=0 && mf counts 5004 B active=0 run=0
'
test_expect_success 'a job without a bank in its jobspec runs' '
	remove_plugin && flux jobtap load .priority-default &&
	id=$(mf submit 5003 -N2) && wait_running $id && flux jobtap remove .priority-default
'
test_expect_success 'flaw 41: a load ends no running job without a bank' '
	load_plugin doc && wait_settled && is_state RUN $id && check_no_event $id exception
'
test_expect_success 'flaw 41: a running job without a bank counts after the load' '
	mf counts 5003 A active=1 run=1 nodes=2 && cancel $id && wait_ended $id && mf counts 5003 A active=0 run=0 nodes=0
'
test_expect_success 'two jobs run and two are held' '
	mf push assoc 5006 A max_running_jobs=2 project "*" && set -- $(mf submit 5006 -j 2) && wait_running $1 $2 &&
	set -- $1 $2 $(mf submit 5006 -j 2) &&
	wait_held_by $3 max-running-jobs-user-limit && wait_held_by $4 max-running-jobs-user-limit && jobs="$*"
'
test_expect_success 'flaw 42: a load with more active jobs than allowed refuses none of them' '
	mf doc assoc 5006 A max_running_jobs=2 max_active_jobs=1 project "*" >doc &&
	reload_plugin doc && wait_settled && set -- $jobs && is_state DEPEND $3 $4 && is_state RUN $1 $2 &&
	mf counts 5006 A active=4 run=2 held=2
'
test_expect_success 'flaw 42: these held jobs go as headroom appears, and new jobs are refused' '
	check_refused "user has max active jobs" mf submit 5006 &&
	set -- $jobs && cancel $1 && wait_running $3 && cancel $2 && wait_running $4 &&
	cancel $3 $4 && wait_ended $3 $4 && mf counts 5006 A active=0 run=0
'
finish
