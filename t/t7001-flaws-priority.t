#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flaws of the original plugin: priorities'
# Rules: L3, P4, P6, P7

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance has stopped queues' '
	write_conf "$(with_queues gold silver)" &&
	start_instance &&
	stop_queues &&
	load_plugin
'
test_expect_success 'jobs of one association in two queues have the priority of their queue' '
	mf push assoc 5001 A queues=gold,silver fairshare=0 \
		queue gold priority=100 queue silver priority=1 project p &&
	gold=$(mf submit 5001 -q gold) && wait_scheduled $gold &&
	silver=$(mf submit 5001 -q silver) && wait_scheduled $silver &&
	prio_is $gold 1000000 && prio_is $silver 10000
'
test_expect_success 'flaw 5: a later submission leaves the queue factor of an earlier job unchanged' '
	mf push assoc 5001 A queues=gold,silver fairshare=0.5 &&
	mf alive && prio_is $silver 60000 && prio_is $gold 1050000
'
test_expect_success 'flaw 6: an edited queue priority reaches pending jobs at the next reprioritize' '
	mf push queue gold priority=200 queue silver priority=3 &&
	mf alive && prio_is $silver 80000 && prio_is $gold 2050000
'
test_expect_success 'flaw 6: edited bank priorities and weights reach pending jobs at the next reprioritize' '
	mf push bank A 7 factor bank 1000 factor queue 1 &&
	mf alive && prio_is $gold 57200 && prio_is $silver 57003
'
test_expect_success 'the weights return to their usual values' '
	mf push factor queue 10000 factor bank 0 bank A 0
'
test_expect_success 'flaw 7: a job under limits of 999 gets its priority' '
	mf push assoc 5002 A max_running_jobs=999 max_active_jobs=999 max_sched_jobs=999 \
		queues=silver fairshare=0.5 queue silver &&
	id=$(mf submit 5002 -q silver) && wait_scheduled $id && prio_is $id 50000 &&
	mf push && mf push && mf counts 5002 A active=1 sched=1
'
test_expect_success 'flaw 7: the 999th active job is accepted, and the next one is refused' '
	set -- $(mf submit 5002 -q silver -j 998) && eval last=\${998} && wait_scheduled $last &&
	mf counts 5002 A active=999 sched=999 held=0 &&
	check_refused "user has max active jobs" mf submit 5002 -q silver
'
test_expect_success 'flaw 7: the 999th job reaches SCHED, and the next one is held' '
	mf push assoc 5002 A max_running_jobs=999 max_sched_jobs=999 queues=silver fairshare=0.5 &&
	id=$(mf submit 5002 -q silver) && wait_held_by $id max-sched-jobs-user-limit &&
	mf counts 5002 A active=1000 sched=999 held=1
'
test_expect_success 'flaw 17: a sum beyond 32 bits is capped and does not wrap' '
	mf push assoc 5003 A queues=silver fairshare=1.0 factor fairshare 6000000000 &&
	id=$(mf submit 5003 -q silver) && wait_scheduled $id && prio_is $id 4294967294
'
test_expect_success 'flaw 17: terms beyond 32 bits are added without rounding' '
	mf push factor fairshare 9000000000 queue silver priority=-890000 &&
	mf alive && prio_is $id 100000000
'
test_expect_success 'the weights return to their usual values again' '
	mf push factor fairshare 100000 queue silver priority=0
'
test_expect_success 'a score of zero or less holds the job (as upstream has it)' '
	mf push assoc 5004 A queues=silver fairshare=0 &&
	zero=$(mf submit 5004 -q silver) && wait_scheduled $zero && prio_is $zero 0 &&
	minus=$(mf submit 5004 -q silver -u 10) && wait_scheduled $minus && prio_is $minus 0
'
test_expect_success 'flaw 18: a score of zero or less gives priority 1 under zero_score=floor' '
	mf push config zero_score=floor &&
	mf alive && prio_is $zero 1 && prio_is $minus 1 &&
	mf push config zero_score=hold && mf alive && prio_is $zero 0
'
test_expect_success 'flaw 24: a job in a queue that is forbidden later keeps a valid priority' '
	mf push assoc 5005 A queues=gold,silver fairshare=0.5 queue gold priority=3 queue silver &&
	id=$(mf submit 5005 -q gold) && wait_scheduled $id && prio_is $id 80000 &&
	mf push assoc 5005 A queues=silver fairshare=0.25 &&
	other=$(mf submit 5005 -q silver) && wait_scheduled $other &&
	mf push queue gold priority=4 queue silver &&
	mf alive && mf events $id && prio_is $id 65000
'
test_expect_success 'flaw 29: a reprioritize that changes nothing posts no event' '
	mf events $id >before && mf events $gold >>before &&
	mf push && mf push && wait_settled &&
	mf events $id >after && mf events $gold >>after &&
	test_cmp before after
'
finish
