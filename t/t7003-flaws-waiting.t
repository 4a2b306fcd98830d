#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flaws of the original plugin: jobs that wait for data'
# Rules: L14, P10, P11, P12

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance has the plugin without data' '
	write_conf "$(with_queues gold silver)" &&
	start_instance && stop_queues && load_plugin && clear_log
'
test_expect_success 'jobs of three users arrive before the data' '
	one=$(mf submit 5001 -q silver) && two=$(mf submit 5001 -q gold) &&
	named=$(mf submit 5002 -q silver -B B) &&
	other=$(mf submit 5004 -q silver) && another=$(mf submit 5004 -q gold) &&
	wait_for depend $one && wait_for depend $two && wait_for depend $another && mf alive
'
test_expect_success 'flaw 48: the second job of a user may name a project before data' '
	project=$(mf submit 5001 -q silver -P p1) && wait_for depend $project && mf alive
'
test_expect_success 'flaw 9: a job that names its bank waits in PRIORITY before data' '
	wait_for depend $named && mf alive && is_state PRIORITY $one $two $named
'
test_expect_success 'flaw 9: jobs that wait for data log no error' '
	no_errors
'
test_expect_success 'flaw 11: the query shows no user before data' '
	test "$(mf query "q[\"mf_priority_map\"]")" = "[]"
'
test_expect_success 'jobs that waited get their priorities when data arrive' '
	mf push assoc 5001 A queues=gold,silver assoc 5002 A queues=gold,silver assoc 5002 B queues=silver \
		assoc 5004 A queues=gold,silver queue gold queue silver project p1 bank B 1 factor bank 7 &&
	wait_scheduled $one $two $other $another
'
test_expect_success 'flaw 11: each job counts once, in its own association, and no other bank appears' '
	mf counts 5004 A active=2 sched=2 silver.sched=1 gold.sched=1 &&
	test "$(mf query "[b[\"bank_name\"] for u in q[\"mf_priority_map\"] for b in u[\"banks\"]]")" = \
		"[\"A\", \"A\", \"B\", \"A\"]"
'
test_expect_success 'flaw 8: a job that waited counts in the bank that it names' '
	mf counts 5002 B active=1 sched=1 && mf counts 5002 A active=0 sched=0
'
test_expect_success 'flaw 8: a job that waited keeps the bank that it names, and gets the priority of this bank' '
	test $(mf spec $named attributes.system.bank) = B && prio_is $named 50007
'
test_expect_success 'flaw 47: a user with a waiting job and without a record is refused' '
	cancel_all && reload_plugin &&
	lost=$(mf submit 5003 -q silver) && wait_for depend $lost &&
	mf push assoc 5001 A queues=silver queue silver project p &&
	check_refused "cannot find user/bank or user/default bank entry for uid: 5003" mf submit 5003 -q silver
'
test_expect_success 'flaw 24: a waiting job in a forbidden queue ends with the reason' '
	cancel_all && reload_plugin &&
	id=$(mf submit 5001 -q gold) && wait_for depend $id && mf alive &&
	mf push assoc 5001 A queues=silver queue gold queue silver project p &&
	wait_for exception $id type=mf_priority && mf events $id >events &&
	grep "note=queue \"gold\" not valid for user; valid queues for user: silver" events
'
test_expect_success 'flaw 53: jobs refused in the middle of a reprioritize delay no other job' '
	cancel_all && reload_plugin && bad= good= &&
	for i in 1 2 3 4 5 6; do
		bad="$bad $(mf submit 5001 -q silver -B none)" && good="$good $(mf submit 5001 -q silver)" || return 1
	done &&
	for id in $bad $good; do wait_for depend $id || return 1; done && mf alive &&
	mf push assoc 5001 A queues=silver queue silver project p &&
	for id in $bad; do wait_for exception $id type=mf_priority || return 1; done &&
	wait_scheduled $good && wait_ended $bad && mf counts 5001 A active=6 sched=6
'
test_expect_success 'an instance has a job in RUN and a job in SCHED' '
	cancel_all && start_queues &&
	run=$(mf submit 5001 -q silver -N2) && wait_running $run && stop_queues &&
	sched=$(mf submit 5001 -q silver) && wait_scheduled $sched
'
test_expect_success 'flaw 55: a reload without data logs no BUG for jobs in SCHED' '
	clear_log && reload_plugin && wait_settled && log_lacks BUG:
'
test_expect_success 'a job in SCHED keeps its priority over a reload without data' '
	is_state SCHED $sched && prio_is $sched 50000
'
test_expect_success 'flaw 10: a running job without data counts when data arrive' '
	clear_log && mf push assoc 5001 A queues=silver queue silver project p &&
	mf counts 5001 A active=2 run=1 nodes=2 cores=2 sched=1 silver.run=1 silver.nodes=2
'
test_expect_success 'flaw 10: a running job that was without data ends without an error, and counts nowhere afterwards' '
	cancel $run && wait_ended $run && mf counts 5001 A active=1 run=0 nodes=0 cores=0 &&
	no_errors
'
test_expect_success 'flaw 10: a running job that ends before data arrive logs no error' '
	start_queues && wait_running $sched && clear_log && reload_plugin && cancel $sched && wait_ended $sched && mf alive &&
	no_errors
'
test_expect_success 'the instance owner has a pending job at a reload' '
	stop_queues && me=$(id -u) &&
	mf push assoc 5001 A queues=silver assoc $me root queues=silver queue silver project p &&
	mine=$(mf submit $me -q silver) && wait_scheduled $mine && reload_plugin
'
test_expect_success 'flaw 57: a reprioritize before the record of the owner ends no job of the owner' '
	mf push assoc 5001 A queues=silver queue silver project p && wait_settled &&
	is_state SCHED $mine && mf push assoc $me root queues=silver && wait_settled &&
	is_state SCHED $mine && mf counts $me root active=1 sched=1
'
# This test is the last, because it may end the broker: Flux's begin-time uses a job after it has freed the job.
test_expect_success 'flaw 53: jobs refused as soon as their begin-time has passed leave the broker alive' '
	cancel_all && reload_plugin && soon=begin-time:$(($(date +%s) + 8)) &&
	bad=$(mf submit 5001 -q silver -B absent -j 8 -d $soon) && mf push assoc 5002 A queues=silver queue silver project p &&
	for id in $bad; do wait_for exception $id type=mf_priority && wait_ended $id || return 1; done && mf alive
'
finish
