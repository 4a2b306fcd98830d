#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='priorities and their memo'
# Rules: P1, P3, P4, P7, P14, K23

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance has stopped queues and one association' '
	write_conf "$(with_queues gold none)" && start_instance && stop_queues && load_plugin &&
	mf push assoc 5001 A queues=gold fairshare=0.45321 project "*" factor urgency 1
'
# check_new_priority WANT UID OPTIONS: checks the priority of a new job with these options; its id is in $last.
check_new_priority() {
	local want=$1 id
	shift
	id=$(mf submit "$@") && wait_scheduled "$id" && prio_is "$id" "$want" || return 1
	last=$id
}
test_expect_success 'a priority is the fair-share times its weight' 'check_new_priority 45321 5001 -q none'
test_expect_success 'an urgency counts by its difference from the default' 'check_new_priority 45320 5001 -q none -u 15 && check_new_priority 45335 5001 -q none -u 30'
test_expect_success 'the priority of a queue is added with its weight' 'mf push queue gold priority=10000 && check_new_priority 100045321 5001 -q gold'
test_expect_success 'a queue that is not in the table adds nothing' 'check_new_priority 45321 5001 -q none'
test_expect_success 'the priority of a bank is added with its weight' '
	mf push assoc 5002 B queues=gold fairshare=0 bank B 3.5 factor bank 100 && check_new_priority 350 5002 -q none
'
test_expect_success 'a sum that ends with one half is rounded up' '
	mf push assoc 5003 C fairshare=0.000025 && check_new_priority 3 5003 -q none
'
test_expect_success 'a negative priority of a queue lowers the sum' 'mf push queue gold priority=-4 && check_new_priority 5321 5001 -q gold'
test_expect_success 'a sum of 0 or less becomes priority 0' 'mf push queue gold priority=-5 && check_new_priority 0 5001 -q gold'
test_expect_success 'urgency 0 gives priority 0' 'check_new_priority 0 5001 -q none -u 0'
test_expect_success 'a job of urgency 0 has no memo' 'check_no_event $last memo'
test_expect_success 'urgency 31 gives the highest priority' 'check_new_priority 4294967295 5001 -q none -u 31'
test_expect_success 'a job of urgency 31 has no memo' 'check_no_event $last memo'
test_expect_success 'a capped sum stays one below the priority of urgency 31' '
	mf push factor fairshare 99999999999999 && check_new_priority 4294967294 5001 -q none && mf push factor fairshare 100000
'
test_expect_success 'a job gets its priority when its urgency is raised from 0' '
	check_new_priority 0 5001 -q none -u 0 && flux job urgency $last 16 >out && wait_for priority $last priority=45321
'
test_expect_success 'the memo shows the fair-share once, before the priority' '
	check_new_priority 45321 5001 -q none && mf events $last | grep -e ^memo -e ^priority >got &&
	printf "memo fairshare=0.45321\npriority priority=45321\n" >want && test_cmp want got
'
test_expect_success 'the memo is posted again when the fair-share changes' '
	mf push assoc 5001 A queues=gold fairshare=0.5 && wait_for priority $last priority=50000 &&
	mf events $last | grep "memo fairshare=0.5"
'
test_expect_success 'a fair-share that differs by less than the memo shows posts no event' '
	mf push assoc 5001 A queues=gold fairshare=0.5000000000001 max_nodes=7 && wait_settled &&
	mf events $last | grep -e ^memo -e ^priority >got &&
	printf "memo fairshare=0.45321\npriority priority=45321\nmemo fairshare=0.5\npriority priority=50000\n" >want &&
	test_cmp want got
'
test_expect_success 'a change of the fair-share below one point of priority posts a memo' '
	mf push assoc 5001 A queues=gold fairshare=0.500001 && wait_settled && mf events $last | grep "memo fairshare=0.500001" &&
	prio_is $last 50000
'
test_expect_success 'edited weights do not reach a pending job before reprioritize' '
	mf data factor fairshare 1000 && wait_settled && prio_is $last 50000
'
test_expect_success 'edited weights reach each pending job at the next reprioritize' 'mf push && wait_for priority $last priority=500'
test_expect_success 'factors of other names are stored and change no priority' '
	mf push factor other 1000000 && wait_settled && prio_is $last 500
'
test_expect_success 'jobs run in the order of their priorities' '
	cancel_all && mf push factor fairshare 100000 assoc 5004 A fairshare=0.1 assoc 5005 A fairshare=0.9 &&
	low=$(mf submit 5004 -q none -N 4 -n 16) && high=$(mf submit 5005 -q none -N 4 -n 16) && wait_scheduled $low $high &&
	start_queues && wait_running $high && is_state SCHED $low && cancel $high && wait_running $low
'
finish
