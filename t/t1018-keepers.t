#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='jobs that other plugins block are checked against the limits when they are unblocked'
# Rules: L17, P12, R7, R9, R10

. "$(dirname "$0")/lib.sh"

add_dependency() { mf rpc job-manager.keeper.add "{\"id\":$(flux job id "$1"),\"name\":\"$2\"}"; }
drop_dependency() { mf rpc job-manager.keeper.drop "{\"id\":$(flux job id "$1"),\"name\":\"$2\"}"; }
# count_our_events ID: prints how many times the plugin added or removed a dependency of the job.
count_our_events() { mf events "$1" | grep -c "dependency-.*max-"; }

test_expect_success 'an instance has a plugin that blocks jobs' '
	gcc -shared -fPIC -o keeper.so "$T_DIR/random/keeper.c" &&
	write_conf "$(with_queues q1 q2)" && start_instance && flux jobtap load "$PWD/keeper.so" && load_plugin &&
	mf push queue q1 max_nodes_per_assoc=1 queue q2 project "*"
'
test_expect_success 'four dependents of one job pass the node limit of their queue one by one' '
	mf push assoc 5001 A queues=q1,q2 && k=$(mf submit 5001 -q q2) && wait_running $k &&
	set -- $(for i in 1 2 3 4; do mf submit 5001 -q q1 -d afterany:$k; done) && wait_for dependency-add $4 && wait_settled &&
	cancel $k && wait_running $1 && wait_held_by $2 max-resources-queue && wait_held_by $4 max-resources-queue && wait_settled &&
	is_state DEPEND $2 $3 $4 && cancel $1 && wait_running $2 && is_state DEPEND $3 $4 && cancel $2 && wait_running $3 &&
	cancel $3 && wait_running $4
'
test_expect_success 'a job that was never held is held if the limit is full when it is unblocked' '
	cancel_all && mf push assoc 5002 A queues=q2 max_nodes=1 && kept=$(mf submit 5002 -q q2 -d keep:x) &&
	wait_for dependency-add $kept && a=$(mf submit 5002 -q q2) && wait_running $a && drop_dependency $kept keep=x &&
	wait_held_by $kept max-resources-user-limit && is_state DEPEND $kept && cancel $a && wait_running $kept
'
test_expect_success 'a job with a dependency that its jobspec lacks is held if the limit is full when it is unblocked' '
	cancel_all && mf push assoc 5003 A queues=q2 max_nodes=1 &&
	first=$(mf submit 5003 -q q2 -d keep:x) && wait_for dependency-add $first && add_dependency $first license && drop_dependency $first keep=x &&
	a=$(mf submit 5003 -q q2) && wait_running $a && drop_dependency $first license && wait_held_by $first max-resources-user-limit &&
	is_state DEPEND $first && cancel $a && wait_running $first
'
test_expect_success 'a held job with an undeclared dependency lets later jobs start, and is released next after it is unblocked' '
	cancel_all && mf push assoc 5004 A queues=q2 max_running_jobs=1 && a=$(mf submit 5004 -q q2) && wait_running $a &&
	kept=$(mf submit 5004 -q q2) && wait_held_by $kept max-running-jobs-user-limit && add_dependency $kept license &&
	for i in 1 2 3 4; do
		next=$(mf submit 5004 -q q2) && cancel $a && wait_running $next && a=$next || return 1
	done && wait_settled && deps_are $kept none && test $(count_our_events $kept) -eq 2 &&
	drop_dependency $kept license && wait_held_by $kept max-running-jobs-user-limit.2 && cancel $a && wait_running $kept
'
test_expect_success 'after a reload a job with an undeclared dependency gives way, and is released next after it is unblocked' '
	cancel_all && mf push assoc 5005 A queues=q2 max_running_jobs=1 && mf doc assoc 5005 A queues=q2 max_running_jobs=1 \
		queue q1 max_nodes_per_assoc=1 queue q2 project "*" >doc && a=$(mf submit 5005 -q q2) && wait_running $a &&
	kept=$(mf submit 5005 -q q2) && wait_held_by $kept max-running-jobs-user-limit && add_dependency $kept license &&
	reload_plugin doc && wait_settled && next=$(mf submit 5005 -q q2) && wait_held_by $next max-running-jobs-user-limit &&
	cancel $a && wait_running $next && later=$(mf submit 5005 -q q2) && wait_held_by $later max-running-jobs-user-limit &&
	drop_dependency $kept license && wait_settled && cancel $next && wait_running $kept && is_state DEPEND $later
'
test_expect_success 'a reservation goes to the next job if an update gives its job a score of 0' '
	cancel_all && mf push assoc 5006 A queues=q1,q2 max_running_jobs=1 fairshare=0 assoc 5016 A queues=q1,q2 \
		queue q1 priority=1 queue q2 &&
	a=$(mf submit 5006 -q q1 -N 4 -n 16) && wait_running $a && fill=$(mf submit 5016 -q q1 -N 4 -n 16) && wait_scheduled $fill && b=$(mf submit 5006 -q q1) &&
	wait_held_by $b max-running-jobs-user-limit && c=$(mf submit 5006 -q q1) && wait_held_by $c max-running-jobs-user-limit &&
	cancel $a && wait_running $fill && wait_scheduled $b && wait_settled && is_state DEPEND $c && mf update $b queue=q2 && wait_scheduled $c && prio_is $b 0 &&
	cancel $fill && wait_running $c
'
test_expect_success 'a reservation goes to the next job if a push gives its job a score of 0' '
	cancel_all && mf push assoc 5007 A queues=q2 max_running_jobs=1 assoc 5016 A queues=q1,q2 queue q1 queue q2 && a=$(mf submit 5007 -q q2 -N 4 -n 16) &&
	wait_running $a && fill=$(mf submit 5016 -q q2 -N 4 -n 16) && wait_scheduled $fill && b=$(mf submit 5007 -q q2) && wait_held_by $b max-running-jobs-user-limit &&
	c=$(mf submit 5007 -q q2) && wait_held_by $c max-running-jobs-user-limit && cancel $a && wait_running $fill && wait_scheduled $b && wait_settled &&
	is_state DEPEND $c && mf push assoc 5007 A queues=q2 max_running_jobs=1 fairshare=0 && prio_is $b 0 && wait_scheduled $c &&
	cancel $fill && mf push assoc 5007 A queues=q2 max_running_jobs=1 fairshare=0.5
'
test_expect_success 'the project of a job that waited for data is checked when data arrive' '
	cancel_all && reload_plugin && a=$(mf submit 5008 -q q2 -P secret) && b=$(mf submit 5008 -q q2 -P "*") && wait_for depend $b &&
	mf push queue q1 queue q2 project secret project "*" assoc 5008 A queues=q2 && wait_scheduled $b &&
	wait_for exception $a type=mf_priority &&
	mf events $a | grep "note=project \"secret\" not valid for user; valid projects for user: \*" && wait_ended $a
'
test_expect_success 'jobs of the instance owner get their priority with the record of the owner, in any bank and queue' '
	cancel_all && reload_plugin && owner=$(id -u) && name=$(id -un) &&
	a=$(mf submit $owner -q q1) && b=$(mf submit $owner -q q1 -B $name) && wait_for depend $b &&
	mf push queue q1 queue q2 project "*" assoc 5009 A && wait_settled && is_state PRIORITY $a $b &&
	mf data assoc $owner $name def_bank=$name queues= && wait_scheduled $a $b && check_no_event $b exception &&
	c=$(mf submit $(id -u) -q q2) && wait_scheduled $c
'
finish
