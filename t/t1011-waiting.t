#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='jobs that arrive before the data'
# Rules: L14, L16, P10, P11

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance has the plugin without data' 'start_instance && stop_queues && load_plugin'
test_expect_success 'a job that arrives before data waits in PRIORITY' '
	a=$(mf submit 5001) && wait_for depend $a && wait_settled && is_state PRIORITY $a
'
test_expect_success 'a job that waits for data has no dependency, no jobspec update and no memo' '
	check_no_event $a "dependency|jobspec-update|memo|^priority|exception"
'
test_expect_success 'reprioritize without data leaves the job in PRIORITY' 'mf push && wait_settled && is_state PRIORITY $a'
test_expect_success 'data of other users leave the job in PRIORITY' '
	mf push assoc 5002 A project "*" && wait_settled && is_state PRIORITY $a && check_no_event $a exception
'
test_expect_success 'data of its user leave the job in PRIORITY until reprioritize' '
	mf data assoc 5001 A max_sched_jobs=0 && wait_settled && is_state PRIORITY $a
'
test_expect_success 'reprioritize leaves the job in PRIORITY, held, if a limit has no headroom' '
	mf push && wait_settled && is_state PRIORITY $a && mf counts 5001 A active=1 sched=0 held=1
'
test_expect_success 'reprioritize gives the job its priority if the limit has headroom' '
	mf push assoc 5001 A max_sched_jobs=1 && wait_scheduled $a && prio_is $a 50000
'
test_expect_success 'the job counts in SCHED after it got its priority' 'mf counts 5001 A active=1 sched=1 held=0'
test_expect_success 'the job got its bank and project from the data' '
	test $(mf spec $a attributes.system.bank) = A && test "$(mf spec $a attributes.system.project)" = "*"
'
test_expect_success 'the limit holds the next job of the user' 'b=$(mf submit 5001) && wait_held_by $b max-sched-jobs-user-limit'
test_expect_success 'jobs that wait for data get no priority at urgency 0, 20 or 31' '
	cancel_all && reload_plugin && a=$(mf submit 5001 -u 0) && b=$(mf submit 5001 -u 31) && c=$(mf submit 5001) &&
	wait_for depend $c && wait_settled && is_state PRIORITY $a $b $c && flux job urgency $c 20 >out && wait_settled && is_state PRIORITY $c
'
test_expect_success 'jobs that waited for data get the priority of their urgency when data arrive' '
	mf push assoc 5001 A project "*" && wait_scheduled $a $b $c && prio_is $a 0 && prio_is $b 4294967295 && prio_is $c 54000 &&
	mf counts 5001 A active=3 sched=3
'
test_expect_success 'a job that names a bank missing in the data ends with the reason' '
	cancel_all && reload_plugin && a=$(mf submit 5001 -B nix) && b=$(mf submit 5001) && wait_for depend $b && wait_settled &&
	mf push assoc 5001 A project "*" && wait_for exception $a type=mf_priority &&
	mf events $a | grep "note=cannot find user/bank or user/default bank entry for uid: 5001" && wait_ended $a
'
test_expect_success 'a job of the same user that names no bank gets its priority' '
	wait_scheduled $b &&
	mf counts 5001 A active=1 sched=1
'
test_expect_success 'a job gets its priority if associations arrive after queues, projects and banks' '
	cancel_all && reload_plugin && a=$(mf submit 5001) && wait_for depend $a &&
	mf push queue q project p1 bank A 1 factor bank 5 && wait_settled && is_state PRIORITY $a &&
	mf push assoc 5001 A def_project=p1 projects=p1 && wait_scheduled $a && prio_is $a 50005 &&
	test $(mf spec $a attributes.system.project) = p1
'
test_expect_success 'all jobs of a hundred submissions of 25 users get their priorities when data arrive' '
	cancel_all && reload_plugin && ids= && records= &&
	for u in $(seq 6001 6025); do ids="$ids $(mf submit $u -j 4)" && records="$records assoc $u A" || return 1; done &&
	for id in $ids; do wait_for depend $id || return 1; done && mf push $records project "*" && wait_scheduled $ids &&
	mf counts 6001 A active=4 sched=4 && mf counts 6025 A active=4 sched=4
'
test_expect_success 'a job that leaves SCHED without data returns to SCHED with its posted priority' '
	cancel_all && mf push assoc 5001 A project "*" && a=$(mf submit 5001) && b=$(mf submit 5001) && wait_scheduled $a $b &&
	before=$(mf prio $a) && reload_plugin && flux job urgency $a 17 && mf update $b duration=60.0 && wait_settled &&
	is_state SCHED $a $b && prio_is $a $before && prio_is $b $before &&
	mf push assoc 5001 A project "*" && wait_settled && is_state SCHED $a $b && mf counts 5001 A active=2 sched=2
'
test_expect_success 'a job that went to PRIORITY while no plugin was loaded returns to SCHED with the data' '
	mf doc assoc 5001 A project "*" >doc && remove_plugin && flux job urgency $a 16 && wait_settled && is_state PRIORITY $a &&
	load_plugin doc && wait_settled && is_state SCHED $a $b && mf counts 5001 A active=2 sched=2
'
finish
