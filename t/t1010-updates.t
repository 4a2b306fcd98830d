#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='updates of queue, bank and other keys'

# A sequence: the first test starts the instance, and each works with the jobs and records of those before it.
. "$(dirname "$0")/lib.sh"

test_expect_success 'an instance' '
	write_conf "$(with_queues q1 q2 strange)" && start_instance && stop_queues && load_plugin
'
test_expect_success 'before data the bank cannot be changed, and the text says why' '
	id=$(mf submit 5001 -q q1) && wait_for depend $id && mf alive &&
	refused "EINVAL: update_bank: plugin still waiting on flux-accounting data" mf update $id bank=B
'
test_expect_success 'the queue of a waiting job can' 'mf update $id queue=q2'
test_expect_success 'and is where it counts and what it is priced by when the data come' '
	mf push assoc 5001 A queues=q1,q2 assoc 5001 B queues=q1 max_active_jobs=3 assoc 5001 C active=0 \
		assoc 5002 A queues=q1,q2 queue q1 priority=1 queue q2 priority=2 project "*" bank B 3 factor bank 10 &&
	scheduled $id && prio_is $id 70000 && mf counts 5001 A active=1 sched=1 q2.sched=1 && cancel $id
'
test_expect_success 'a new queue brings its price' '
	id=$(mf submit 5001 -q q1) && scheduled $id && prio_is $id 60000 && mf update $id queue=q2 &&
	wait_for priority $id priority=70000
'
test_expect_success 'and takes the counts' 'mf counts 5001 A sched=1 q1.sched=0 q2.sched=1'
test_expect_success 'a new bank brings its price too' '
	mf update $id queue=q1 && mf update $id bank=B && wait_for priority $id priority=60030 &&
	test $(mf spec $id attributes.system.bank) = B
'
test_expect_success 'and takes the counts along' '
	mf counts 5001 A active=0 sched=0 && mf counts 5001 B active=1 sched=1 q1.sched=1
'
test_expect_success 'the bank that it has already is accepted' 'mf update $id bank=B && mf counts 5001 B active=1 sched=1'
test_expect_success 'a bank that is a number' 'refused "EINVAL: unable to unpack bank arg" mf update $id bank=7'
test_expect_success 'a queue that is a number' '{ mf update $id queue=7 >out; test $? = 1; }'
test_expect_success 'a bank that is null' '{ mf update $id bank=null >out; test $? = 1; }'
test_expect_success 'after which the job counts where it did' 'mf counts 5001 B active=1 sched=1 q1.sched=1'
test_expect_success 'a queue that the bank does not permit' '
	refused "EINVAL: mf_priority: queue not valid for user: q2" mf update $id queue=q2
'
test_expect_success 'a queue that the plugin does not know is open' '
	mf update $id queue=strange && mf alive && mf counts 5001 B sched=1 q1.sched=0 && mf update $id queue=q1
'
test_expect_success 'a bank that the user is not in' '
	refused "EINVAL: update_bank: cannot find flux-accounting entry for uid/bank: 5001/D" mf update $id bank=D
'
test_expect_success 'a bank in which he is disabled is refused by validate' '
	refused "EINVAL: user/bank entry has been disabled from flux-accounting DB" mf update $id bank=C
'
test_expect_success 'a bank with its active jobs full' '
	a=$(mf submit 5001 -q q1 -B B) && b=$(mf submit 5001 -q q1 -B B) && scheduled $a $b &&
	c=$(mf submit 5001 -q q1 -B A) && scheduled $c &&
	refused "EINVAL: new bank is already at max-active-jobs limit" mf update $c bank=B && mf counts 5001 A active=1 sched=1
'
later() { echo "EINVAL: updating to $1 $2 while it is already at $3 limit is not allowed; try again later"; }
test_expect_success 'a bank with its running jobs full' '
	cancel_all && start_queues && mf push assoc 5001 B def_bank=A queues=q1 max_running_jobs=1 &&
	a=$(mf submit 5001 -q q1 -B B) && running $a && stop_queues && b=$(mf submit 5001 -q q1 -B A) && scheduled $b &&
	refused "$(later bank B max-run-jobs)" mf update $b bank=B
'
test_expect_success 'a bank with its jobs in SCHED full' '
	mf push assoc 5001 B def_bank=A queues=q1 max_sched_jobs=0 &&
	refused "$(later bank B max-sched-jobs-user-limit)" mf update $b bank=B
'
test_expect_success 'a bank with its nodes full' '
	mf push assoc 5001 B def_bank=A queues=q1 max_nodes=1 &&
	refused "$(later bank B max-resources-user-limit)" mf update $b bank=B
'
for limit in max_running_jobs:max-run-jobs-queue max_sched_jobs:max-sched-jobs-queue-limit \
	max_sched_nodes_per_assoc:max-sched-nodes-queue-limit max_sched_cores_per_assoc:max-sched-cores-queue-limit; do
	test_expect_success "a queue at its ${limit%:*}" '
		mf push assoc 5001 B def_bank=A queues=q1 queue q1 queue q2 ${limit%:*}=0 &&
		refused "$(later queue q2 ${limit#*:})" mf update $b queue=q2
	'
done
test_expect_success 'a job that may not move counts where it did' 'mf counts 5001 A active=1 sched=1 q1.sched=1'
test_expect_success 'a queue with room again' 'mf push queue q1 queue q2 && mf update $b queue=q2 && mf alive && mf counts 5001 A q2.sched=1 q1.sched=0'
test_expect_success 'the bank of a running job is refused' '
	refused "EINVAL: update of bank for running job not supported" mf update $a bank=A
'
test_expect_success 'so is its queue' '{ mf update $a queue=q2 >out; test $? = 1; }'
test_expect_success 'and it counts where it did' 'mf counts 5001 B run=1 q1.run=1'
test_expect_success 'a held job that moves to a full queue is held there' '
	cancel_all && mf push queue q1 max_sched_jobs=0 queue q2 max_running_jobs=0 &&
	id=$(mf submit 5001 -q q1) && held_by $id max-sched-jobs-queue-limit && mf update $id queue=q2 &&
	held_by $id max-run-jobs-queue && freed_from $id max-sched-jobs-queue-limit && deps_are $id max-run-jobs-queue &&
	is_state DEPEND $id
'
test_expect_success 'and is released there' 'mf push queue q1 queue q2 && scheduled $id && mf counts 5001 A sched=1 held=0 q2.sched=1'
test_expect_success 'a job that leaves makes room for the next one behind it' '
	cancel_all && mf push queue q1 max_sched_jobs=1 queue q2 && a=$(mf submit 5001 -q q1) && scheduled $a &&
	b=$(mf submit 5001 -q q1) && held_by $b max-sched-jobs-queue-limit && mf update $a queue=q2 && scheduled $b &&
	mf counts 5001 A sched=2 q1.sched=1 q2.sched=1 held=0
'
test_expect_success 'other keys change nothing' '
	mf update $b duration=77 && jq -ne "$(mf spec $b attributes.system.duration) == 77" &&
	refused "EINVAL: update of attributes.system.constraints not supported" mf update $b attributes.system.constraints="{}" &&
	mf alive && mf counts 5001 A active=2 sched=2 &&
	test $(mf spec $b attributes.system.bank) = A
'
test_expect_success 'queue and bank in one update' '
	mf update $b queue=q2 bank=A && mf alive && mf counts 5001 A sched=2 q1.sched=0 q2.sched=2
'
test_expect_success 'both at once do not pass a limit that each alone would not' '
	cancel_all && mf push assoc 5001 A queues=q1,q2 assoc 5001 B def_bank=A queues=q1,q2 queue q1 queue q2 max_sched_jobs=1 &&
	a=$(mf submit 5001 -q q2 -B B) && b=$(mf submit 5001 -q q1 -B A) && scheduled $a $b &&
	refused "$(later queue q2 max-sched-jobs-queue-limit)" mf update --as 5001 $b queue=q2 bank=B &&
	mf counts 5001 B sched=1 q2.sched=1 && mf counts 5001 A sched=1 q1.sched=1
'
test_expect_success 'the one that alone would not is accepted alone' '
	mf update --as 5001 $b queue=q2 && mf counts 5001 A sched=1 q2.sched=1
'
test_expect_success 'a text longer than Flux has room for is cut between characters, not lost' '
	long=$(printf "ü%.0s" $(seq 30)) && mf push assoc 5003 A queues=$long,$long$long,$long$long$long queue q1 &&
	mf submit 5003 -q q1 >out 2>&1; grep "queue \"q1\" not valid for user; valid queues for user: üüü" out && grep "ü\.\.\." out
'
test_expect_success 'the project cannot be changed at all: nobody takes such an update, as with upstream' '
	mf push assoc 5002 A queues=q1 projects=p1 def_project=p1 project p1 project p2 && id=$(mf submit 5002 -q q1) && scheduled $id &&
	refused "EINVAL: update of attributes.system.project not supported" mf update $id project=p2 &&
	test $(mf spec $id attributes.system.project) = p1
'
finish
