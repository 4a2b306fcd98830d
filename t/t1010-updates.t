#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='updates of queue, bank and other keys'
# Rules: L24, P6

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance has stopped queues and the plugin without data' '
	write_conf "$(with_queues q1 q2 strange)" && start_instance && stop_queues && load_plugin
'
test_expect_success 'an update of the bank is refused before data, with the reason' '
	id=$(mf submit 5001 -q q1) && wait_for depend $id && mf alive &&
	check_refused "EINVAL: update_bank: plugin still waiting on flux-accounting data" mf update $id bank=B
'
test_expect_success 'an update of the queue is accepted before data' 'mf update $id queue=q2'
test_expect_success 'a job counts in its updated queue and gets its priority when data arrive' '
	mf push assoc 5001 A queues=q1,q2 assoc 5001 B queues=q1 max_active_jobs=3 assoc 5001 C active=0 \
		assoc 5002 A queues=q1,q2 queue q1 priority=1 queue q2 priority=2 project "*" bank B 3 factor bank 10 &&
	wait_scheduled $id && prio_is $id 70000 && mf counts 5001 A active=1 sched=1 q2.sched=1 && cancel $id
'
test_expect_success 'an update of the queue posts the priority of the new queue' '
	id=$(mf submit 5001 -q q1) && wait_scheduled $id && prio_is $id 60000 && mf update $id queue=q2 &&
	wait_for priority $id priority=70000
'
test_expect_success 'an update of the queue moves the counts of the job' 'mf counts 5001 A sched=1 q1.sched=0 q2.sched=1'
test_expect_success 'an update of the bank posts the priority of the new bank' '
	mf update $id queue=q1 && mf update $id bank=B && wait_for priority $id priority=60030 &&
	test $(mf spec $id attributes.system.bank) = B
'
test_expect_success 'an update of the bank moves the counts of the job' '
	mf counts 5001 A active=0 sched=0 && mf counts 5001 B active=1 sched=1 q1.sched=1
'
test_expect_success 'an update to the present bank is accepted and changes no counter' 'mf update $id bank=B && mf counts 5001 B active=1 sched=1'
test_expect_success 'an update to a bank that is a number is refused' 'check_refused "EINVAL: unable to unpack bank arg" mf update $id bank=7'
test_expect_success 'an update to a queue that is a number is refused' '{ mf update $id queue=7 >out; test $? = 1; }'
test_expect_success 'an update to a bank that is null is refused' '{ mf update $id bank=null >out; test $? = 1; }'
test_expect_success 'refused updates leave the counts of the job in place' 'mf counts 5001 B active=1 sched=1 q1.sched=1'
test_expect_success 'an update to a queue that the bank may not use is refused' '
	check_refused "EINVAL: mf_priority: queue not valid for user: q2" mf update $id queue=q2
'
test_expect_success 'an update to a queue that the plugin does not know is accepted' '
	mf update $id queue=strange && mf alive && mf counts 5001 B sched=1 q1.sched=0 && mf update $id queue=q1
'
test_expect_success 'an update to a bank of which the user is not a member is refused' '
	check_refused "EINVAL: update_bank: cannot find flux-accounting entry for uid/bank: 5001/D" mf update $id bank=D
'
test_expect_success 'an update to a bank in which the user is disabled is refused by validate' '
	check_refused "EINVAL: user/bank entry has been disabled from flux-accounting DB" mf update $id bank=C
'
test_expect_success 'an update to a bank at max_active_jobs is refused' '
	a=$(mf submit 5001 -q q1 -B B) && b=$(mf submit 5001 -q q1 -B B) && wait_scheduled $a $b &&
	c=$(mf submit 5001 -q q1 -B A) && wait_scheduled $c &&
	check_refused "EINVAL: new bank is already at max-active-jobs limit" mf update $c bank=B && mf counts 5001 A active=1 sched=1
'
format_limit_error() { echo "EINVAL: updating to $1 $2 while it is already at $3 limit is not allowed; try again later"; }
test_expect_success 'an update to a bank at max_running_jobs is refused' '
	cancel_all && start_queues && mf push assoc 5001 B def_bank=A queues=q1 max_running_jobs=1 &&
	a=$(mf submit 5001 -q q1 -B B) && wait_running $a && stop_queues && b=$(mf submit 5001 -q q1 -B A) && wait_scheduled $b &&
	check_refused "$(format_limit_error bank B max-run-jobs)" mf update $b bank=B
'
test_expect_success 'an update to a bank at max_sched_jobs is refused' '
	mf push assoc 5001 B def_bank=A queues=q1 max_sched_jobs=0 &&
	check_refused "$(format_limit_error bank B max-sched-jobs-user-limit)" mf update $b bank=B
'
test_expect_success 'an update to a bank without headroom for the nodes is refused' '
	mf push assoc 5001 B def_bank=A queues=q1 max_nodes=1 &&
	check_refused "$(format_limit_error bank B max-resources-user-limit)" mf update $b bank=B
'
for limit in max_running_jobs:max-run-jobs-queue max_sched_jobs:max-sched-jobs-queue-limit \
	max_sched_nodes_per_assoc:max-sched-nodes-queue-limit max_sched_cores_per_assoc:max-sched-cores-queue-limit; do
	test_expect_success "an update to a queue at its ${limit%:*} is refused" '
		mf push assoc 5001 B def_bank=A queues=q1 queue q1 queue q2 ${limit%:*}=0 &&
		check_refused "$(format_limit_error queue q2 ${limit#*:})" mf update $b queue=q2
	'
done
test_expect_success 'a job whose updates were refused counts in its old bank and queue' 'mf counts 5001 A active=1 sched=1 q1.sched=1'
test_expect_success 'an update to a queue that has headroom again is accepted' 'mf push queue q1 queue q2 && mf update $b queue=q2 && mf alive && mf counts 5001 A q2.sched=1 q1.sched=0'
test_expect_success 'an update of the bank of a running job is refused' '
	check_refused "EINVAL: update of bank for running job not supported" mf update $a bank=A
'
test_expect_success 'an update of the queue of a running job is refused' '{ mf update $a queue=q2 >out; test $? = 1; }'
test_expect_success 'a running job whose updates were refused counts in its bank and queue' 'mf counts 5001 B run=1 q1.run=1'
test_expect_success 'a held job that moves to a full queue is held by the limit of that queue' '
	cancel_all && mf push queue q1 max_sched_jobs=0 queue q2 max_running_jobs=0 &&
	id=$(mf submit 5001 -q q1) && wait_held_by $id max-sched-jobs-queue-limit && mf update $id queue=q2 &&
	wait_held_by $id max-run-jobs-queue && wait_freed_from $id max-sched-jobs-queue-limit && deps_are $id max-run-jobs-queue &&
	is_state DEPEND $id
'
test_expect_success 'a held job that moved is released by the limit of its new queue' 'mf push queue q1 queue q2 && wait_scheduled $id && mf counts 5001 A sched=1 held=0 q2.sched=1'
test_expect_success 'a job that leaves a queue releases the next held job of that queue' '
	cancel_all && mf push queue q1 max_sched_jobs=1 queue q2 && a=$(mf submit 5001 -q q1) && wait_scheduled $a &&
	b=$(mf submit 5001 -q q1) && wait_held_by $b max-sched-jobs-queue-limit && mf update $a queue=q2 && wait_scheduled $b &&
	mf counts 5001 A sched=2 q1.sched=1 q2.sched=1 held=0
'
test_expect_success 'updates of other keys change no counter' '
	mf update $b duration=77 && wait_for jobspec-update $b attributes.system.duration=77 &&
	jq -ne "$(mf spec $b attributes.system.duration) == 77" &&
	check_refused "EINVAL: update of attributes.system.constraints not supported" mf update $b attributes.system.constraints="{}" &&
	mf alive && mf counts 5001 A active=2 sched=2 &&
	test $(mf spec $b attributes.system.bank) = A
'
test_expect_success 'one update may change queue and bank' '
	mf update $b queue=q2 bank=A && mf alive && mf counts 5001 A sched=2 q1.sched=0 q2.sched=2
'
test_expect_success 'a job in SCHED keeps its priority after an update of its duration, although its queue is at a limit' '
	cancel_all && start_queues && mf push queue q1 queue q2 && a=$(mf submit 5001 -q q1) && wait_running $a && stop_queues &&
	b=$(mf submit 5001 -q q1) && wait_scheduled $b && mf push queue q1 max_running_jobs=1 && before=$(mf prio $b) &&
	mf update $b duration=99 && mf alive && test "$before" -gt 0 && prio_is $b $before && mf counts 5001 A run=1 sched=1 held=0
'
test_expect_success 'one update of queue and bank is refused if only both changes together exceed a limit' '
	cancel_all && mf push assoc 5001 A queues=q1,q2 assoc 5001 B def_bank=A queues=q1,q2 queue q1 queue q2 max_sched_jobs=1 &&
	a=$(mf submit 5001 -q q2 -B B) && b=$(mf submit 5001 -q q1 -B A) && wait_scheduled $a $b &&
	check_refused "$(format_limit_error queue q2 max-sched-jobs-queue-limit)" mf update --as 5001 $b queue=q2 bank=B &&
	mf counts 5001 B sched=1 q2.sched=1 && mf counts 5001 A sched=1 q1.sched=1
'
test_expect_success 'an update of the queue alone is accepted if the old bank has headroom there' '
	mf update --as 5001 $b queue=q2 && mf counts 5001 A sched=1 q2.sched=1
'
test_expect_success 'a message longer than the space that Flux has is cut between characters' '
	long=$(printf "ü%.0s" $(seq 30)) && mf push assoc 5003 A queues=$long,$long$long,$long$long$long queue q1 &&
	mf submit 5003 -q q1 >out 2>&1; grep "queue \"q1\" not valid for user; valid queues for user: üüü" out && grep "ü\.\.\." out
'
test_expect_success 'an update of the project is refused by Flux, as with flux-accounting' '
	mf push assoc 5002 A queues=q1 projects=p1 def_project=p1 project p1 project p2 && id=$(mf submit 5002 -q q1) && wait_scheduled $id &&
	check_refused "EINVAL: update of attributes.system.project not supported" mf update $id project=p2 &&
	test $(mf spec $id attributes.system.project) = p1
'
finish
