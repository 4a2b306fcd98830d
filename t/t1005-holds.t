#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='the eight limits that hold a job, their names and their order'
# Rules: L1, L2, L3, L4, L7, R5

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance has two queues' '
	write_conf "$(with_queues q other)" && start_instance && load_plugin && mf push project "*"
'
# The next tests use one limit each: one job takes the headroom, and the limit holds another job.
test_expect_success 'max-run-jobs-queue holds a job at the limit of running jobs in its queue' '
	mf push assoc 5001 A queues=q,other queue q max_running_jobs=1 queue other &&
	a=$(mf submit 5001 -q q) && wait_running $a && b=$(mf submit 5001 -q q) && wait_held_by $b max-run-jobs-queue &&
	deps_are $b max-run-jobs-queue
'
test_expect_success 'a job in another queue is not held by max-run-jobs-queue' '
	c=$(mf submit 5001 -q other) && wait_running $c && deps_are $b max-run-jobs-queue
'
test_expect_success 'a job of another association is not held by max-run-jobs-queue' '
	mf push assoc 5002 A queues=q && c=$(mf submit 5002 -q q) && wait_running $c
'
test_expect_success 'max-sched-jobs-queue-limit holds a job at the limit of jobs in SCHED in its queue' '
	cancel_all && stop_queues && mf push queue q max_sched_jobs=1 queue other &&
	a=$(mf submit 5001 -q q) && wait_scheduled $a && b=$(mf submit 5001 -q q) && wait_held_by $b max-sched-jobs-queue-limit &&
	deps_are $b max-sched-jobs-queue-limit
'
test_expect_success 'max-sched-nodes-queue-limit holds a job whose nodes exceed the limit for SCHED in its queue' '
	cancel_all && mf push queue q max_sched_nodes_per_assoc=3 queue other &&
	a=$(mf submit 5001 -q q -N 2) && wait_scheduled $a && b=$(mf submit 5001 -q q -N 2) &&
	wait_held_by $b max-sched-nodes-queue-limit && deps_are $b max-sched-nodes-queue-limit
'
test_expect_success 'a job whose nodes fit into max-sched-nodes-queue-limit is not held' 'c=$(mf submit 5001 -q q -N 1) && wait_scheduled $c'
test_expect_success 'max-sched-cores-queue-limit holds a job whose cores exceed the limit for SCHED in its queue' '
	cancel_all && mf push queue q max_sched_cores_per_assoc=3 queue other &&
	a=$(mf submit 5001 -q q -n 2) && wait_scheduled $a && b=$(mf submit 5001 -q q -n 2) &&
	wait_held_by $b max-sched-cores-queue-limit && deps_are $b max-sched-cores-queue-limit
'
test_expect_success 'a job whose cores fit into max-sched-cores-queue-limit is not held' 'c=$(mf submit 5001 -q q) && wait_scheduled $c'
test_expect_success 'a job larger than the SCHED limits of its queue is held, not refused' '
	cancel_all && mf push queue q max_sched_nodes_per_assoc=1 max_sched_cores_per_assoc=1 queue other &&
	a=$(mf submit 5001 -q q -N 2 -n 2) && wait_held_by $a max-sched-cores-queue-limit &&
	deps_are $a max-sched-nodes-queue-limit,max-sched-cores-queue-limit
'
test_expect_success 'max-resources-queue holds a job by the nodes in RUN and SCHED together' '
	cancel_all && start_queues && mf push queue q max_nodes_per_assoc=3 queue other &&
	a=$(mf submit 5001 -q q -N 1) && wait_running $a && stop_queues && b=$(mf submit 5001 -q q -N 1) && wait_scheduled $b &&
	c=$(mf submit 5001 -q q -N 2) && wait_held_by $c max-resources-queue && deps_are $c max-resources-queue
'
test_expect_success 'a job whose nodes fit into max-resources-queue is not held' 'd=$(mf submit 5001 -q q -N 1) && wait_scheduled $d'
test_expect_success 'max-running-jobs-user-limit holds a job at the limit of running jobs in all queues' '
	cancel_all && start_queues && mf push assoc 5001 A queues=q,other max_running_jobs=1 queue q queue other &&
	a=$(mf submit 5001 -q q) && wait_running $a && b=$(mf submit 5001 -q other) && wait_held_by $b max-running-jobs-user-limit &&
	deps_are $b max-running-jobs-user-limit
'
test_expect_success 'jobs in SCHED that were never held do not count for max-running-jobs-user-limit (as upstream has it)' '
	cancel_all && stop_queues && a=$(mf submit 5001 -q q) && wait_scheduled $a && b=$(mf submit 5001 -q q) && wait_scheduled $b
'
test_expect_success 'max-sched-jobs-user-limit holds a job at the limit of jobs in SCHED in all queues' '
	cancel_all && mf push assoc 5001 A queues=q,other max_sched_jobs=1 &&
	a=$(mf submit 5001 -q q) && wait_scheduled $a && b=$(mf submit 5001 -q other) && wait_held_by $b max-sched-jobs-user-limit &&
	deps_are $b max-sched-jobs-user-limit
'
test_expect_success 'max-resources-user-limit holds a job whose nodes exceed the limit for running jobs' '
	cancel_all && start_queues && mf push assoc 5001 A queues=q,other max_nodes=3 &&
	a=$(mf submit 5001 -q q -N 2) && wait_running $a && b=$(mf submit 5001 -q other -N 2) &&
	wait_held_by $b max-resources-user-limit && deps_are $b max-resources-user-limit
'
test_expect_success 'a job whose nodes fit into max-resources-user-limit runs' 'c=$(mf submit 5001 -q q -N 1) && wait_running $c'
test_expect_success 'max-resources-user-limit holds a job whose cores exceed the limit for running jobs' '
	cancel_all && mf push assoc 5001 A queues=q,other max_cores=3 &&
	a=$(mf submit 5001 -q q -n 2) && wait_running $a && b=$(mf submit 5001 -q other -n 2) &&
	wait_held_by $b max-resources-user-limit
'
test_expect_success 'a job whose cores fit into max-resources-user-limit runs' 'c=$(mf submit 5001 -q q -n 1) && wait_running $c'
test_expect_success 'limits of 0 for running jobs, jobs in SCHED and a queue hold every job' '
	cancel_all && mf push assoc 5001 A queues=q max_running_jobs=0 max_sched_jobs=0 \
		queue q max_running_jobs=0 max_sched_jobs=0 queue other &&
	a=$(mf submit 5001 -q q) && wait_held_by $a max-sched-jobs-user-limit &&
	deps_are $a max-run-jobs-queue,max-sched-jobs-queue-limit,max-running-jobs-user-limit,max-sched-jobs-user-limit
'
all=max-run-jobs-queue,max-sched-jobs-queue-limit,max-sched-nodes-queue-limit,max-sched-cores-queue-limit
all=$all,max-resources-queue,max-running-jobs-user-limit,max-sched-jobs-user-limit,max-resources-user-limit
test_expect_success 'a job that all eight limits hold shows them in the order of the query' '
	cancel_all && mf push assoc 5001 A queues=q queue q &&
	run=$(mf submit 5001 -q q -N 1 -n 2) && wait_running $run && stop_queues &&
	sched=$(mf submit 5001 -q q -N 1 -n 2) && wait_scheduled $sched &&
	mf push assoc 5001 A queues=q max_running_jobs=1 max_sched_jobs=1 max_cores=2 \
		queue q max_running_jobs=1 max_sched_jobs=1 max_sched_nodes_per_assoc=1 \
		max_sched_cores_per_assoc=2 max_nodes_per_assoc=2 queue other &&
	held=$(mf submit 5001 -q q -N 1 -n 2) && wait_held_by $held max-resources-user-limit && deps_are $held $all
'
test_expect_success 'the dependency-add events have the order of the query' '
	mf events $held | sed -n "s/^dependency-add description=//p" | paste -sd, >order && echo $all >want && test_cmp want order
'
test_expect_success 'the query shows the size and the queue of a held job' '
	dec=$(flux job id $held) && mf query "q[\"mf_priority_map\"][0][\"banks\"][0][\"held_jobs\"][\"$dec\"]" | jq -S . >job &&
	echo "{\"nnodes\":1,\"ncores\":2,\"queue\":\"q\",\"deps\":\"$all\"}" | jq -S ".deps |= split(\",\")" >want &&
	test_cmp want job
'
test_expect_success 'a limit that has headroom again releases its name, and the other limits still hold the job' '
	mf push assoc 5001 A queues=q max_running_jobs=1 max_sched_jobs=1 max_cores=2 queue q queue other &&
	wait_freed_from $held max-resources-queue &&
	deps_are $held max-running-jobs-user-limit,max-sched-jobs-user-limit,max-resources-user-limit && is_state DEPEND $held
'
test_expect_success 'a held job is released with its last name' '
	mf push assoc 5001 A queues=q && wait_scheduled $held && deps_are $held none
'
test_expect_success 'limits of a queue that the plugin does not know hold no job' '
	cancel_all && mf push assoc 5001 A queues=q queue other max_running_jobs=0 && a=$(mf submit 5001 -q q) && wait_scheduled $a
'
finish
