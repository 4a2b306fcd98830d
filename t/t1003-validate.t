#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='each reason to refuse a job at submission, its message, and the order of the checks'
# Rules: L6, L7, L8, L13

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance has queues that the plugin knows and one that it does not know' '
	write_conf "$(with_queues gold silver strange) | $(with_frobnicator)" && start_instance && stop_queues && load_plugin
'
bank_text="unable to unpack bank arg"
test_expect_success 'a bank or project that is not a string is refused, also before data' '
	for key in bank project; do
		for value in 7 null [] {} true; do
			check_refused "$bank_text" mf submit 5001 -q gold --set "attributes.system.$key=$value" || return 1
		done
	done
'
test_expect_success 'a job of any user, bank and project is accepted before data' '
	id=$(mf submit 5999 -q gold -B none -P none) && wait_for depend $id && mf alive && is_state PRIORITY $id
'
test_expect_success 'the first push ends the time without data' '
	cancel $id && wait_ended $id &&
	mf push assoc 5001 A queues=gold,silver projects=p1,p2 def_project=p1 \
		assoc 5002 A active=0 queues=gold \
		assoc 5003 A queues=gold max_nodes=2 max_cores=4 \
		assoc 5004 A queues=gold max_active_jobs=1 max_nodes=1 \
		assoc 5005 A def_bank=Z queues=gold assoc 5006 A \
		queue gold max_nodes_per_assoc=3 queue silver project p1 project p2 project p3 project "*"
'
format_no_association() { echo "cannot find user/bank or user/default bank entry for uid: $1"; }
test_expect_success 'a job of an unknown user is refused' 'check_refused "$(format_no_association 5999)" mf submit 5999 -q gold'
test_expect_success 'a bank of which the user is not a member is refused' 'check_refused "$(format_no_association 5001)" mf submit 5001 -q gold -B B'
test_expect_success 'a default bank of which the user is not a member is refused' 'check_refused "$(format_no_association 5005)" mf submit 5005 -q gold'
test_expect_success 'a job of such a user is accepted if it names the right bank' 'mf submit 5005 -q gold -B A'
test_expect_success 'a job of a disabled association is refused before its queue and project are checked' '
	check_refused "user/bank entry has been disabled from flux-accounting DB" mf submit 5002 -q silver -P nix
'
test_expect_success 'a queue that the association may not use is refused' '
	check_refused "queue \"silver\" not valid for user; valid queues for user: gold" mf submit 5003 -q silver
'
test_expect_success 'the message joins the valid queues with commas, and the queue is checked before the project' '
	mf push queue gold max_nodes_per_assoc=3 queue silver queue strange &&
	check_refused "queue \"strange\" not valid for user; valid queues for user: gold,silver" mf submit 5001 -q strange -P nix &&
	mf push queue gold max_nodes_per_assoc=3 queue silver
'
test_expect_success 'a job of an association without queues is refused in a known queue' '
	check_refused "queue \"gold\" not valid for user; valid queues for user: " mf submit 5006 -q gold
'
test_expect_success 'a queue that the plugin does not know is open to all' 'mf submit 5006 -q strange'
test_expect_success 'a queue that the plugin does not know is refused if deny_unknown_queues is set' '
	mf push config deny_unknown_queues=true &&
	check_refused "queue \"strange\" is unknown to flux-accounting and deny-unknown-queues is enabled" \
		mf submit 5006 -q strange -P nix
'
test_expect_success 'a known queue that the association may not use keeps its own message under deny_unknown_queues' '
	check_refused "queue \"gold\" not valid for user; valid queues for user: " mf submit 5006 -q gold
'
test_expect_success 'a config without deny_unknown_queues leaves it unchanged' '
	mf rpc rec_config_update "{\"data\":{}}" &&
	check_refused "queue \"strange\" is unknown to flux-accounting and deny-unknown-queues is enabled" mf submit 5006 -q strange
'
test_expect_success 'deny_unknown_queues false opens unknown queues again' '
	mf rpc rec_config_update "{\"data\":{\"deny_unknown_queues\":false}}" && mf submit 5006 -q strange
'
test_expect_success 'a project that does not exist is refused' '
	check_refused "project \"nix\" not valid for user; valid projects for user: p1,p2" mf submit 5001 -q gold -P nix
'
test_expect_success 'a project of other associations is refused' '
	check_refused "project \"p3\" not valid for user; valid projects for user: p1,p2" mf submit 5001 -q gold -P p3
'
test_expect_success 'a project of the association is accepted' 'mf submit 5001 -q gold -P p2'
test_expect_success 'a job above max_active_jobs is refused before its size is checked' '
	mf submit 5004 -q gold && check_refused "user has max active jobs" mf submit 5004 -q gold -N 2
'
test_expect_success 'a job with more nodes than max_nodes_per_assoc of its queue is refused' '
	check_refused "job size (4 node(s)) is greater than max resources limit configured for queue (3 node(s))" \
		mf submit 5003 -q gold -N 4
'
test_expect_success 'a job with more nodes than max_nodes of its association is refused' '
	check_refused "job size (3 node(s), 3 core(s)) is greater than max resources limits configured for association (2 node(s), 4 core(s))" \
		mf submit 5003 -q gold -N 3 -n 3
'
test_expect_success 'a job with more cores than max_cores of its association is refused' '
	check_refused "job size (1 node(s), 5 core(s)) is greater than max resources limits configured for association (2 node(s), 4 core(s))" \
		mf submit 5003 -q gold -n 5
'
test_expect_success 'a job with exactly max_nodes and max_cores is accepted' 'mf submit 5003 -q gold -N 2 -n 4'
test_expect_success 'refused jobs count in no association' '
	mf counts 5002 A active=0 && mf counts 5003 A active=1 && mf counts 5004 A active=1
'
test_expect_success 'the cores of a job are its slots times the cores per slot' '
	mf push assoc 5007 A queues=gold max_nodes=2 max_cores=23 &&
	check_refused "job size (2 node(s), 24 core(s)) is greater than max resources limits configured for association (2 node(s), 23 core(s))" \
		mf submit 5007 -q gold -N 2 -n 6 -c 4
'
test_expect_success 'the cores of a job on one node are its slots times the cores per slot' '
	check_refused "job size (1 node(s), 24 core(s)) is greater than max resources limits configured for association (2 node(s), 23 core(s))" \
		mf submit 5007 -q gold -n 6 -c 4
'
# With 64-bit numbers, the product of tasks and cores would wrap to a few cores. Flux reads the counts as 32-bit numbers and checks them
# too, so the error may come from Flux or from the plugin.
test_expect_success 'counts whose product exceeds 64 bits are refused and do not wrap' '
	for size in "-n 4611686018427387905 -c 4" "-n 2305843009213693953 -c 8"; do
		{ mf submit 5007 -q gold $size >out 2>&1; test $? = 1; } || return 1
		grep -e "^unable to count resources for job" -e "^job size (" out || { cat out; return 1; }
	done && mf counts 5007 A active=0
'
test_expect_success 'a jobspec with 1,500 nested resources leaves the job manager alive' '
	flux python - >deep.json <<-EOF &&
	import json, sys
	sys.setrecursionlimit(100000)
	r = {"type": "core", "count": 1}
	for _ in range(1500):
	    r = {"type": "box", "count": 1, "with": [r]}
	spec = {"version": 1, "resources": [{"type": "slot", "label": "task", "count": 1, "with": [r]}],
	    "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
	    "attributes": {"system": {"duration": 60, "queue": "gold"}}}
	print(json.dumps(spec))
	EOF
	{ mf submit 5001 --spec deep.json >out 2>&1 || cat out; } && mf alive
'
test_expect_success 'a bank name of one megabyte is refused with a readable message' '
	flux python - >long.json <<-EOF &&
	import json
	print(json.dumps({"version": 1, "resources": [{"type": "slot", "label": "task", "count": 1,
	    "with": [{"type": "core", "count": 1}]}], "tasks": [], "attributes": {"system": {"duration": 60,
	    "queue": "gold", "bank": "%s%n" * 250000}}}))
	EOF
	{ mf submit 5001 --spec long.json >out 2>&1; test $? = 1; } && cut -c1-300 out &&
	grep "^cannot find user/bank or user/default bank entry for uid: 5001" out >found && mf alive
'
finish
