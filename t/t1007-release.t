#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='the release of held jobs, by the examples of the specification'
# Rules: R1, R2, R4, R5, R6, R7, R8, R9, R10

. "$(dirname "$0")/lib.sh"

test_expect_success 'an instance has two queues' '
	write_conf "$(with_queues q1 q2)" && start_instance && load_plugin && mf push queue q1 queue q2 project "*"
'
test_expect_success 'example 1: headroom for one job in SCHED releases the first held job, not the second' '
	mf push assoc 5001 A queues=q1 max_sched_jobs=2 assoc 5009 A queues=q1 &&
	full=$(mf submit 5009 -q q1 -N 3 -n 12) && wait_running $full &&
	a=$(mf submit 5001 -q q1 -n 4) && wait_running $a && b=$(mf submit 5001 -q q1 -n 4) && wait_scheduled $b &&
	c=$(mf submit 5001 -q q1 -n 4) && wait_scheduled $c &&
	d=$(mf submit 5001 -q q1 -n 4) && wait_held_by $d max-sched-jobs-user-limit &&
	e=$(mf submit 5001 -q q1 -n 4) && wait_held_by $e max-sched-jobs-user-limit &&
	cancel $a && wait_running $b && wait_scheduled $d && wait_settled && deps_are $e max-sched-jobs-user-limit &&
	mf counts 5001 A run=1 sched=2 held=1
'
test_expect_success 'example 2: a job that two limits hold loses one dependency, and stays held while another job takes that headroom' '
	cancel_all && mf push assoc 5002 A queues=q1 max_running_jobs=2 max_nodes=3 &&
	a=$(mf submit 5002 -q q1 -N 2) && wait_running $a && b=$(mf submit 5002 -q q1) && wait_running $b &&
	c=$(mf submit 5002 -q q1 -N 2) && wait_held_by $c max-resources-user-limit &&
	deps_are $c max-running-jobs-user-limit,max-resources-user-limit &&
	cancel $b && wait_freed_from $c max-running-jobs-user-limit && wait_settled && deps_are $c max-resources-user-limit &&
	is_state DEPEND $c &&
	d=$(mf submit 5002 -q q1) && wait_running $d && wait_settled && is_state DEPEND $c && cancel $a && wait_running $c &&
	mf counts 5002 A run=2 held=0
'
test_expect_success 'example 3: a blocked job reserves headroom within the release scan, and unblocked jobs are released one by one' '
	cancel_all && mf push assoc 5003 A queues=q1 max_sched_jobs=1 && 
	a=$(mf submit 5003 -q q1) && wait_running $a && stop_queues && b=$(mf submit 5003 -q q1) && wait_scheduled $b &&
	c=$(mf submit 5003 -q q1 -d afterany:$a) && wait_held_by $c max-sched-jobs-user-limit &&
	d=$(mf submit 5003 -q q1 -d afterany:$a) && wait_held_by $d max-sched-jobs-user-limit &&
	cancel $b && wait_freed_from $c max-sched-jobs-user-limit && wait_settled &&
	deps_are $c none && deps_are $d max-sched-jobs-user-limit && is_state DEPEND $c $d &&
	cancel $a && wait_scheduled $c && wait_settled && is_state SCHED $c && is_state DEPEND $d && start_queues &&
	wait_running $c && wait_running $d && mf counts 5003 A run=2 sched=0 held=0
'
test_expect_success 'example 4: the cores of one ended job release one job' '
	cancel_all && mf push assoc 5004 A queues=q1 max_cores=2 &&
	a=$(mf submit 5004 -q q1 -n 2) && wait_running $a && b=$(mf submit 5004 -q q1 -n 2) && wait_held_by $b max-resources-user-limit &&
	c=$(mf submit 5004 -q q1 -n 2) && wait_held_by $c max-resources-user-limit &&
	cancel $a && wait_running $b && wait_settled && deps_are $c max-resources-user-limit && mf counts 5004 A cores=2
'
test_expect_success 'example 6: a job that does not fit is skipped, and a later job is released' '
	cancel_all && mf push assoc 5006 A queues=q1 max_nodes=4 assoc 5006 B queues=q1 &&
	a=$(mf submit 5006 -q q1 -N 3) && wait_running $a && x=$(mf submit 5006 -q q1) && wait_running $x &&
	b=$(mf submit 5006 -q q1 -N 4) && wait_held_by $b max-resources-user-limit &&
	c=$(mf submit 5006 -q q1) && wait_held_by $c max-resources-user-limit &&
	cancel $x && wait_running $c && wait_settled && deps_are $b max-resources-user-limit && is_state DEPEND $b
'
test_expect_success 'example 7: a start in a queue releases as many jobs as fit' '
	cancel_all && mf push assoc 5007 A queues=q1 queue q1 max_sched_nodes_per_assoc=4 queue q2 && stop_queues &&
	s=$(mf submit 5007 -q q1 -N 4 -n 16) && wait_scheduled $s &&
	a=$(mf submit 5007 -q q1 -N 2 -n 8) && wait_held_by $a max-sched-nodes-queue-limit &&
	b=$(mf submit 5007 -q q1 -N 2 -n 8) && wait_held_by $b max-sched-nodes-queue-limit &&
	start_queues && wait_running $s && wait_scheduled $a $b && mf counts 5007 A sched=2 q1.sched_nodes=4
'
test_expect_success 'example 8: headroom in another queue releases no job' '
	cancel_all && mf push assoc 5008 A queues=q1,q2 queue q1 max_running_jobs=1 queue q2 &&
	x=$(mf submit 5008 -q q1) && wait_running $x && a=$(mf submit 5008 -q q1) && wait_held_by $a max-run-jobs-queue &&
	b=$(mf submit 5008 -q q2) && wait_running $b && wait_settled && deps_are $a max-run-jobs-queue && cancel $b && wait_ended $b &&
	wait_settled && is_state DEPEND $a
'
test_expect_success 'example 9: a raised limit counts from the next reprioritize' '
	cancel_all && mf push assoc 5010 A queues=q1 max_running_jobs=1 queue q1 queue q2 &&
	a=$(mf submit 5010 -q q1) && wait_running $a && b=$(mf submit 5010 -q q1) && wait_held_by $b max-running-jobs-user-limit &&
	mf data assoc 5010 A queues=q1 max_running_jobs=2 && wait_settled && is_state DEPEND $b &&
	mf push && wait_running $b
'
test_expect_success 'a queue that a push removes holds no job' '
	cancel_all && mf push assoc 5010 A queues=q1 queue q1 max_running_jobs=0 queue q2 && a=$(mf submit 5010 -q q1) && wait_held_by $a max-run-jobs-queue &&
	mf push queue q2 && wait_running $a
'
test_expect_success 'example 10: a cancelled held job leaves the counters and the order of held jobs' '
	cancel_all && mf push assoc 5011 A queues=q1 max_running_jobs=1 queue q1 queue q2 &&
	a=$(mf submit 5011 -q q1) && wait_running $a && b=$(mf submit 5011 -q q1) && wait_held_by $b max-running-jobs-user-limit &&
	c=$(mf submit 5011 -q q1) && wait_held_by $c max-running-jobs-user-limit && mf counts 5011 A active=3 held=2 &&
	cancel $b && wait_ended $b && mf counts 5011 A active=2 run=1 held=1 && wait_settled && is_state DEPEND $c &&
	cancel $a && wait_running $c
'
test_expect_success 'held jobs of one association are released in the order of submission' '
	cancel_all && mf push assoc 5012 A queues=q1 max_running_jobs=1 && set -- $(mf submit 5012 -q q1) && wait_running $1 &&
	set -- $1 $(mf submit 5012 -q q1 -j 4) && wait_held_by $5 max-running-jobs-user-limit &&
	cancel $1 && wait_running $2 && is_state DEPEND $3 $4 $5 && cancel $2 && wait_running $3 && is_state DEPEND $4 $5 &&
	cancel $3 && wait_running $4 && is_state DEPEND $5
'
test_expect_success 'a released job of urgency 0 uses no headroom for running jobs' '
	cancel_all && mf push assoc 5013 A queues=q1 max_running_jobs=1 &&
	a=$(mf submit 5013 -q q1) && wait_running $a && b=$(mf submit 5013 -q q1 -u 0) && wait_held_by $b max-running-jobs-user-limit &&
	c=$(mf submit 5013 -q q1) && wait_held_by $c max-running-jobs-user-limit &&
	cancel $a && wait_running $c && is_state SCHED $b
'
test_expect_success 'held jobs whose urgency rises from 0 are still released one by one' '
	cancel_all && mf push assoc 5014 A queues=q1 max_running_jobs=1 && a=$(mf submit 5014 -q q1) && wait_running $a &&
	set -- $(mf submit 5014 -q q1 -u 0 -j 5) && wait_held_by $5 max-running-jobs-user-limit &&
	for id; do flux job urgency $id 16 || return 1; done && cancel $a && wait_running $1 && wait_settled &&
	is_state DEPEND $2 $3 $4 $5 && mf counts 5014 A run=1 held=4
'
test_expect_success 'a job of urgency 0 uses no headroom of a larger job behind it' '
	cancel_all && mf push assoc 5019 A queues=q1 max_nodes=3 max_sched_jobs=2 &&
	r=$(mf submit 5019 -q q1 -N 3) && wait_running $r &&
	a=$(mf submit 5019 -q q1 -u 0) && wait_held_by $a max-resources-user-limit &&
	b=$(mf submit 5019 -q q1 -N 3) && wait_held_by $b max-resources-user-limit &&
	c=$(mf submit 5019 -q q1 -u 0) && wait_held_by $c max-resources-user-limit &&
	cancel $r && wait_running $b && is_state SCHED $a && wait_settled && is_state DEPEND $c &&
	mf counts 5019 A run=1 sched=1 held=1
'
test_expect_success 'the release scan uses the urgency that a held job has at present' '
	cancel_all && mf push assoc 5020 A queues=q1 max_nodes=3 max_sched_jobs=2 && r=$(mf submit 5020 -q q1 -N 3) && wait_running $r &&
	a=$(mf submit 5020 -q q1) && wait_held_by $a max-resources-user-limit &&
	b=$(mf submit 5020 -q q1 -N 3) && wait_held_by $b max-resources-user-limit &&
	c=$(mf submit 5020 -q q1 -u 0) && wait_held_by $c max-resources-user-limit &&
	flux job urgency $a 0 && flux job urgency $c 16 && cancel $r && wait_running $b && is_state SCHED $a && wait_settled &&
	is_state DEPEND $c
'
test_expect_success 'a blocked job of urgency 0 uses no headroom of another job' '
	cancel_all && mf push assoc 5021 A queues=q1 max_nodes=3 max_sched_jobs=2 && r=$(mf submit 5021 -q q1 -N 3) && wait_running $r &&
	later=begin-time:$(($(date +%s) + 3600)) &&
	a=$(mf submit 5021 -q q1 -u 0 -d $later) && wait_held_by $a max-resources-user-limit &&
	b=$(mf submit 5021 -q q1 -N 3 -d $later) && wait_held_by $b max-resources-user-limit &&
	c=$(mf submit 5021 -q q1 -u 0 -d $later) && wait_held_by $c max-resources-user-limit &&
	cancel $r && wait_freed_from $a max-resources-user-limit && wait_freed_from $b max-resources-user-limit && wait_settled &&
	deps_are $a none && deps_are $b none && deps_are $c max-resources-user-limit && is_state DEPEND $a $b $c
'
test_expect_success 'a blocked job gives way to a job that is not blocked, without an event' '
	cancel_all && mf push assoc 5015 A queues=q1 max_running_jobs=1 && a=$(mf submit 5015 -q q1) && wait_running $a &&
	later=$(mf submit 5015 -q q1 -d begin-time:$(($(date +%s) + 3600))) && wait_held_by $later max-running-jobs-user-limit &&
	next=$(mf submit 5015 -q q1) && wait_held_by $next max-running-jobs-user-limit && cancel $a && wait_running $next &&
	wait_settled && deps_are $later max-running-jobs-user-limit && check_no_event $later dependency-remove &&
	mf counts 5015 A run=1 held=1
'
test_expect_success 'a job with afterany on the running job is released ahead of later jobs' '
	cancel_all && mf push assoc 5016 A queues=q1 max_running_jobs=1 && a=$(mf submit 5016 -q q1) && wait_running $a &&
	chained=$(mf submit 5016 -q q1 -d afterany:$a) && wait_held_by $chained max-running-jobs-user-limit &&
	next=$(mf submit 5016 -q q1) && wait_held_by $next max-running-jobs-user-limit && cancel $a && wait_running $chained &&
	wait_settled && is_state DEPEND $next && cancel $chained && wait_running $next
'
test_expect_success 'a job whose begin-time has passed is released ahead of later jobs as soon as a limit has headroom' '
	cancel_all && mf push assoc 5017 A queues=q1 max_running_jobs=1 assoc 5018 A queues=q1 &&
	a=$(mf submit 5017 -q q1) && wait_running $a && x=$(mf submit 5017 -q q1 -N 1) && wait_held_by $x max-running-jobs-user-limit &&
	other=$(mf submit 5018 -q q1) && wait_running $other &&
	kept=$(mf submit 5017 -q q1 -d begin-time:$(($(date +%s) + 3600))) && wait_held_by $kept max-running-jobs-user-limit &&
	soon=$(mf submit 5017 -q q1 -d begin-time:$(($(date +%s) + 8))) && wait_held_by $soon max-running-jobs-user-limit &&
	cancel $x && cancel $a && wait_for dependency-remove $soon description=max-running-jobs-user-limit && wait_running $soon &&
	deps_are $kept none
'
finish
