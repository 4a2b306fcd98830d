#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flaws of the original plugin: counters, limits, updates and releases'
# Rules: L3, L9, L11, L13, L24, R6

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance has two queues and a user in two banks' '
	write_conf "$(with_queues q1 q2)" &&
	start_instance && load_plugin &&
	mf push assoc 5001 A queues=q1,q2 assoc 5001 B queues=q1,q2 queue q1 queue q2 project "*"
'

test_expect_success 'flaw 2: a job in SCHED counts once after changes of its urgency' '
	stop_queues && id=$(mf submit 5001 -q q1) && wait_scheduled $id &&
	for u in 20 5 17; do flux job urgency $id $u >/dev/null || return 1; done && mf alive &&
	mf counts 5001 A active=1 sched=1 q1.sched=1 q1.sched_nodes=1 q1.sched_cores=1
'
test_expect_success 'flaw 2: a job in SCHED counts once after a jobspec update' '
	mf update $id duration=1800 && mf alive && mf counts 5001 A active=1 sched=1 q1.sched=1
'
test_expect_success 'flaw 4: an update of the queue moves the counts of the job' '
	mf update $id queue=q2 && mf alive &&
	mf counts 5001 A active=1 sched=1 q1.sched=0 q1.sched_nodes=0 q1.sched_cores=0 \
		q2.sched=1 q2.sched_nodes=1 q2.sched_cores=1
'
test_expect_success 'flaw 4: an update of the bank moves the counts of the job' '
	mf update $id bank=B && mf alive &&
	mf counts 5001 A active=0 sched=0 && mf counts 5001 B active=1 sched=1 q2.sched=1
'
test_expect_success 'flaw 4: a moved job runs and ends in the counts of its new bank and queue' '
	start_queues && wait_running $id && mf counts 5001 B run=1 q2.run=1 sched=0 q2.sched=0 &&
	cancel $id && wait_ended $id && mf counts 5001 B active=0 run=0 nodes=0 q2.run=0 q2.nodes=0 &&
	mf counts 5001 A active=0 run=0 sched=0
'

test_expect_success 'flaw 19: 0 means unlimited for active jobs, and holds every job for running jobs' '
	mf push assoc 5003 A queues=q1,q2 max_active_jobs=0 max_running_jobs=0 &&
	one=$(mf submit 5003 -q q1) && two=$(mf submit 5003 -q q1) &&
	wait_held_by $one max-running-jobs-user-limit && wait_held_by $two max-running-jobs-user-limit &&
	mf counts 5003 A active=2 held=2
'
# sched-simple cannot schedule a job whose slot contains nodes. So the test reads the size of the job while the job is held.
slot_over_node="[{\"type\":\"slot\",\"count\":2,\"label\":\"task\",\"with\":
	[{\"type\":\"node\",\"count\":1,\"with\":[{\"type\":\"core\",\"count\":1}]}]}]"
test_expect_success 'flaw 20: a slot above nodes counts the product along the path' '
	id=$(mf submit 5003 -q q1 --resources "$slot_over_node") && wait_held_by $id max-running-jobs-user-limit &&
	dec=$(flux job id $id) &&
	held="q[\"mf_priority_map\"][-1][\"banks\"][0][\"held_jobs\"][\"$dec\"]" &&
	mf query "[$held[\"nnodes\"], $held[\"ncores\"]]" >size && echo "[2, 2]" >want && test_cmp want size
'
two_branches="[{\"type\":\"node\",\"count\":2,\"with\":[{\"type\":\"slot\",\"count\":1,\"label\":\"task\",\"with\":
	[{\"type\":\"core\",\"count\":3}]}]},{\"type\":\"node\",\"count\":1,\"with\":[{\"type\":\"slot\",\"count\":2,
	\"label\":\"more\",\"with\":[{\"type\":\"core\",\"count\":1}]}]}]"
test_expect_success 'flaw 20: a jobspec with two branches counts the sum of both' '
	id=$(mf submit 5003 -q q1 --resources "$two_branches") && wait_held_by $id max-running-jobs-user-limit &&
	dec=$(flux job id $id) &&
	held="q[\"mf_priority_map\"][-1][\"banks\"][0][\"held_jobs\"][\"$dec\"]" &&
	mf query "[$held[\"nnodes\"], $held[\"ncores\"]]" >size && echo "[3, 8]" >want && test_cmp want size
'
test_expect_success 'flaw 21: a running job counts the requested resources, not the resources that it got' '
	cancel_all && id=$(mf submit 5001 -q q1 -n 6) && wait_running $id &&
	mf counts 5001 A run=1 nodes=1 cores=6 && cancel $id && wait_ended $id
'

test_expect_success 'flaw 22: a bank above its limit of running jobs accepts no moved job' '
	mf push assoc 5001 B def_bank=A queues=q1,q2 max_running_jobs=2 &&
	one=$(mf submit 5001 -q q1 -B B) && two=$(mf submit 5001 -q q1 -B B) && wait_running $one $two &&
	mf push assoc 5001 B def_bank=A queues=q1,q2 max_running_jobs=1 &&
	stop_queues && id=$(mf submit 5001 -q q1 -B A) && wait_scheduled $id &&
	check_refused "EINVAL: updating to bank B while it is already at max-run-jobs limit is not allowed; try again later" \
		mf update $id bank=B
'
test_expect_success 'flaw 22: a queue at its limit of jobs in SCHED accepts no moved job' '
	mf push queue q1 queue q2 max_sched_jobs=0 &&
	check_refused "EINVAL: updating to queue q2 while it is already at max-sched-jobs-queue-limit limit is not allowed; try again later" \
		mf update $id queue=q2
'
test_expect_success 'flaw 49: an update of the bank of a running job is refused' '
	check_refused "EINVAL: update of bank for running job not supported" mf update $one bank=A
'
test_expect_success 'flaw 49: a refused update leaves the counts of the running job in place, and they end at 0' '
	cancel $one $two $id && wait_ended $one $two $id &&
	mf counts 5001 A active=0 run=0 sched=0 nodes=0 && mf counts 5001 B active=0 run=0 sched=0 nodes=0
'
test_expect_success 'flaw 50: a held job that moves to a bank with headroom is released' '
	start_queues &&
	mf push assoc 5005 A queues=q1 max_running_jobs=1 assoc 5005 B queues=q1 queue q1 queue q2 &&
	one=$(mf submit 5005 -q q1) && wait_running $one &&
	two=$(mf submit 5005 -q q1) && wait_held_by $two max-running-jobs-user-limit &&
	mf update $two bank=B && wait_running $two &&
	mf counts 5005 B active=1 run=1 held=0 && mf counts 5005 A active=1 run=1 held=0
'
test_expect_success 'flaw 50: a moved job counts in its new bank only, and counts nowhere at its end' '
	cancel $one $two && wait_ended $one $two && mf counts 5005 A active=0 run=0 && mf counts 5005 B active=0 run=0
'
test_expect_success 'flaw 51: an update of another plugin to an unknown bank does not end the job' '
	stop_queues && id=$(mf submit 5001 -q q1) && wait_scheduled $id &&
	post_event $id jobspec-update "{\"attributes.system.bank\":\"nowhere\"}" &&
	wait_settled && is_state SCHED $id && mf counts 5001 A active=1 sched=1 && check_no_event $id exception
'
test_expect_success 'flaw 51: an update of another plugin to an unknown bank is logged' '
	log_has nowhere && cancel $id && wait_ended $id && mf counts 5001 A active=0 sched=0
'
test_expect_success 'flaw 44: the cores of one ended job release one held job' '
	start_queues && mf push assoc 5006 A queues=q1 max_cores=2 &&
	a=$(mf submit 5006 -q q1 -n2) && wait_running $a &&
	b=$(mf submit 5006 -q q1 -n2) && wait_held_by $b max-resources-user-limit &&
	c=$(mf submit 5006 -q q1 -n2) && wait_held_by $c max-resources-user-limit &&
	cancel $a && wait_running $b && wait_settled && deps_are $c max-resources-user-limit &&
	mf counts 5006 A run=1 cores=2 held=1
'
test_expect_success 'flaw 44: the next held job goes when the first has ended' '
	cancel $b && wait_running $c && cancel $c && wait_ended $c && mf counts 5006 A active=0 run=0 cores=0 held=0
'
test_expect_success 'flaw 45: a released job in SCHED keeps its reservation over a reprioritize' '
	cancel_all && mf push assoc 5007 A queues=q1 max_running_jobs=1 assoc 5017 A queues=q1 &&
	a=$(mf submit 5007 -q q1 -N 4 -n 16) && wait_running $a && fill=$(mf submit 5017 -q q1 -N 4 -n 16) && wait_scheduled $fill &&
	b=$(mf submit 5007 -q q1) && wait_held_by $b max-running-jobs-user-limit &&
	c=$(mf submit 5007 -q q1) && wait_held_by $c max-running-jobs-user-limit &&
	cancel $a && wait_running $fill && wait_scheduled $b && mf push && mf push && wait_settled &&
	is_state SCHED $b && deps_are $c max-running-jobs-user-limit
'
test_expect_success 'flaw 45: the released job runs and ends, and the next one goes' '
	cancel $fill && wait_running $b && deps_are $c max-running-jobs-user-limit && cancel $b && wait_running $c
'
test_expect_success 'flaw 28: a raised limit releases two hundred held jobs, each once' '
	cancel_all && stop_queues && mf push assoc 5008 A queues=q1 max_sched_jobs=0 &&
	set -- $(mf submit 5008 -q q1 -j 200) && eval last=\${200} &&
	wait_held_by $last max-sched-jobs-user-limit && mf counts 5008 A active=200 held=200 &&
	mf push assoc 5008 A queues=q1 max_sched_jobs=150 && wait_scheduled $1 &&
	wait_settled && mf counts 5008 A active=200 sched=150 held=50 &&
	mf push assoc 5008 A queues=q1 max_sched_jobs=1000 && wait_scheduled $last &&
	mf counts 5008 A active=200 sched=200 held=0 && mf posted dependency-remove "$@" >times && test $(wc -l <times) = 200 &&
	test "$(sort -u times)" = 1
'
test_expect_success 'flaw 28: two hundred cancelled jobs leave all counters at 0' '
	cancel_all && wait_ended $last && wait_settled && mf counts 5008 A active=0 sched=0 held=0 run=0
'
finish
