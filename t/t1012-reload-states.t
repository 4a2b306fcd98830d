#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='reloads of the plugin, with and without data, while jobs are in every state'
# Rules: P10, R6, R16

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance has jobs in CLEANUP, RUN, SCHED, PRIORITY and DEPEND' '
	write_conf "$(with_queues q) | $(with_linger)" && start_instance &&
	mf doc assoc 5001 A queues=q max_running_jobs=1 assoc 5002 A queues=q assoc 5003 A queues=q assoc 5004 A queues=q \
		queue q project "*" >doc && load_plugin &&
	waiting=$(mf submit 5004 -q q) && wait_for depend $waiting && wait_settled && is_state PRIORITY $waiting &&
	mf push assoc 5001 A queues=q max_running_jobs=1 assoc 5002 A queues=q assoc 5003 A queues=q queue q project "*" &&
	touch linger && cleanup=$(mf submit 5003 -q q) && wait_running $cleanup && cancel $cleanup && wait_for epilog-start $cleanup &&
	run=$(mf submit 5001 -q q -N 2) && wait_running $run && held=$(mf submit 5001 -q q) && wait_held_by $held max-running-jobs-user-limit &&
	stop_queues && sched=$(mf submit 5002 -q q) && wait_scheduled $sched &&
	foreign=$(mf submit 5002 -q q -d afterany:$sched) && wait_for dependency-add $foreign
'
check_states() {
	is_state CLEANUP $cleanup && is_state RUN $run && is_state SCHED $sched && is_state DEPEND $held $foreign
}
check_counts() {
	mf counts 5001 A active=2 run=1 nodes=2 cores=2 held=1 sched=0 q.run=1 q.nodes=2 &&
	mf counts 5002 A active=2 run=0 sched=1 held=0 q.sched=1 &&
	mf counts 5003 A active=1 run=1 nodes=1 cores=1 q.run=1 && deps_are $held max-running-jobs-user-limit
}
test_expect_success 'the counters are exact before the reload' 'check_states && is_state PRIORITY $waiting && check_counts'
test_expect_success 'the counters are exact from the first query after a reload with data' 'clear_log && reload_plugin doc && check_counts && wait_settled && check_counts'
test_expect_success 'a reload with data changes no state of a counted job' 'check_states'
test_expect_success 'a job that waited for data gets its priority after a reload with data' 'wait_scheduled $waiting && is_state SCHED $waiting'
test_expect_success 'a reload posts no dependency-add and no jobspec-update again' '
	mf events $held | grep -c ^dependency-add >n && echo 1 >want && test_cmp want n &&
	mf events $run | grep -c ^jobspec-update >n && test_cmp want n
'
test_expect_success 'a reload without data changes no state' '
	reload_plugin && wait_settled && check_states && is_state SCHED $waiting
'
test_expect_success 'a push after that reload changes no state, and the counters are exact' '
	mf push assoc 5001 A queues=q max_running_jobs=1 assoc 5002 A queues=q \
		assoc 5003 A queues=q assoc 5004 A queues=q queue q project "*" && wait_settled && check_states && check_counts
'
test_expect_success 'a reload with a limit below the running jobs changes no state' '
	jq ".associations[0].max_running_jobs = 0" <doc >lower && reload_plugin lower && wait_settled && check_states && check_counts
'
test_expect_success 'a reload with a raised limit releases the held job' '
	jq ".associations[0].max_running_jobs = 2" <doc >higher && reload_plugin higher && wait_scheduled $held &&
	mf counts 5001 A active=2 run=1 sched=1 held=0
'
test_expect_success 'the reloads logged no error' 'no_errors'
test_expect_success 'a reload without the record of a user leaves the jobs of the user alive' '
	jq "del(.associations[1])" <doc >fewer && reload_plugin fewer && wait_settled && is_state SCHED $sched && is_state DEPEND $foreign &&
	check_no_event $sched exception
'
test_expect_success 'a job in PRIORITY whose user has no record is logged once' '
	mf push && mf push && list_errors >lines && test $(wc -l <lines) -eq 1 && grep -c "uid: 5002" lines
'
test_expect_success 'all jobs end, and all counters are 0' '
	reload_plugin doc && rm linger && wait_ended $cleanup && start_queues && cancel $run && wait_running $sched $held && cancel $sched && wait_running $foreign && cancel_all &&
	for u in 5001 5002 5003 5004; do mf counts $u A active=0 run=0 sched=0 nodes=0 cores=0 held=0 || return 1; done
'
test_expect_success 'a reservation of a released job outlives a reload, also if no job is held' '
	end_linger $cleanup; rm -f linger; flux cancel --all --user=all; start_queues; reload_plugin doc &&
	a=$(mf submit 5001 -q q -N 4 -n 16) && wait_running $a && fill=$(mf submit 5002 -q q -N 4 -n 16) && wait_scheduled $fill &&
	b=$(mf submit 5001 -q q) && wait_held_by $b max-running-jobs-user-limit &&
	cancel $a && wait_ended $a && wait_running $fill && wait_scheduled $b && reload_plugin doc && wait_settled &&
	c=$(mf submit 5001 -q q) && wait_held_by $c max-running-jobs-user-limit && wait_settled && is_state DEPEND $c && cancel $c && wait_ended $c
'
test_expect_success 'a reservation outlives a reload if the limit arrives after the reload' '
	reload_plugin && mf push assoc 5001 A queues=q max_running_jobs=1 queue q project "*" && wait_settled &&
	c=$(mf submit 5001 -q q) && wait_held_by $c max-running-jobs-user-limit && wait_settled && is_state DEPEND $c
'
test_expect_success 'a dependency that was added just before the reload is known after the reload' '
	mf doc assoc 5001 A queues=q max_running_jobs=1 queue q project "*" >doc &&
	gcc -shared -fPIC -o keeper.so "$T_DIR/random/keeper.c" && flux jobtap load "$PWD/keeper.so" &&
	start_queues && cancel_all && reload_plugin doc && a=$(mf submit 5001 -q q) && wait_running $a &&
	kept=$(mf submit 5001 -q q -d keep:x) && wait_held_by $kept max-running-jobs-user-limit && cancel $a && wait_ended $a &&
	wait_settled && deps_are $kept none && taker=$(mf submit 5001 -q q) && wait_running $taker &&
	mf reload doc "$PLUGIN" job-manager.keeper.drop "{\"id\":$(flux job id $kept),\"name\":\"keep=x\"}" &&
	wait_held_by $kept max-running-jobs-user-limit.2 && wait_settled && deps_are $kept max-running-jobs-user-limit.2 &&
	is_state DEPEND $kept && cancel $taker && wait_running $kept && mf counts 5001 A active=1 run=1 held=0
'
finish
