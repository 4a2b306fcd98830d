#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flaws of the original plugin: records, payloads and configuration at load'
# Rules: L15

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance has three associations' '
	start_instance && load_plugin &&
	mf push assoc 5001 A assoc 5001 B assoc 5002 A queue silver priority=5 \
		project p1 project p2 bank A 2
'

# check_refused_call TEXT METHOD PAYLOAD: checks that the call fails with TEXT and leaves the query unchanged.
check_refused_call() {
	mf query >before && { mf rpc "$2" "$3" >reply; test $? = 1; } && mf query >after &&
	test_cmp before after && { grep -F -- "$1" reply || { cat reply; false; }; }
}
record='"userid":5009,"bank":"Z","def_bank":"Z","fairshare":0.5,"max_running_jobs":1,"max_active_jobs":1,
	"max_sched_jobs":1,"max_cores":1,"queues":"","active":1,"projects":"*","def_project":"*"'

test_expect_success 'flaw 13: a payload with one invalid association changes nothing' '
	check_refused_call EINVAL rec_update \
		"{\"data\":[{$record,\"max_nodes\":1},{$record,\"max_nodes\":\"1\"}]}"
'
test_expect_success 'flaw 13: a payload with one invalid queue leaves the old queues in place' '
	check_refused_call EINVAL rec_q_update "{\"data\":[{\"queue\":\"q\"}]}"
'
test_expect_success 'flaw 13: a payload with one invalid project leaves the old projects in place' '
	check_refused_call EINVAL rec_proj_update "{\"data\":[{\"project\":\"new\"},{\"project\":7}]}"
'
test_expect_success 'flaw 13: a payload with one invalid weight leaves the old weights in place' '
	id=$(mf submit 5002) && wait_scheduled $id && prio_is $id 50000 && wait_for start $id && cancel $id && wait_ended $id &&
	check_refused_call EINVAL rec_fac_update "{\"data\":[{\"factor\":\"fairshare\",\"weight\":2},{\"factor\":\"queue\"}]}" &&
	id=$(mf submit 5002) && wait_scheduled $id && prio_is $id 50000
'
test_expect_success 'flaw 15: the reply names array, index, key and reason' '
	check_refused_call "EINVAL: mf_priority unpack: associations[1].max_nodes: expected integer, got string" rec_update \
		"{\"data\":[{$record,\"max_nodes\":1},{$record,\"max_nodes\":\"1\"}]}"
'
test_expect_success 'flaw 15: the reply to data of the wrong type has a text' '
	check_refused_call "EINVAL: mf_priority unpack: associations data is NULL or not an array" rec_update "{\"data\":{}}"
'
test_expect_success 'flaw 12: policy_update removes an association that its document lacks' '
	mf doc assoc 5001 A assoc 5001 B queue silver priority=5 project p1 project p2 bank A 2 >doc &&
	mf rpc policy_update "$(cat doc)" &&
	test "$(mf query "[u[\"userid\"] for u in q[\"mf_priority_map\"]]")" = "[5001]" &&
	check_refused "cannot find user/bank or user/default bank entry for uid: 5002" mf submit 5002
'
test_expect_success 'rec_update removes no association (as upstream has it)' '
	mf push factor fairshare 100000 factor queue 10000 factor urgency 1000 project p1 project p2 &&
	mf data assoc 5003 A && mf counts 5001 A active=0 && mf counts 5003 A active=0
'
test_expect_success 'flaw 14: each accepted document raises the generation' '
	mf rpc policy_update "$(cat doc)" >first && mf rpc policy_update "$(cat doc)" >second &&
	a=$(sed "s/^ok //" first | jq -e .generation) && b=$(sed "s/^ok //" second | jq -e .generation) &&
	test $b -gt $a
'
test_expect_success 'flaw 14: the record that the client sends for the owner keeps the default bank of the owner' '
	me=$(id -u) &&
	mf push assoc $me A && mf push assoc $me root def_bank=root &&
	id=$(mf submit $me) && wait_scheduled $id && test $(mf spec $id attributes.system.bank) = A
'
test_expect_success 'flaw 23: the default project of an association is always valid for it' '
	mf push assoc 5004 A def_project=p1 projects=p2 project p1 project p2 &&
	id=$(mf submit 5004 -P p1) && wait_scheduled $id
'
test_expect_success 'flaw 56: a user id beyond 2^31 is stored unchanged' '
	mf data assoc 3000000000 A &&
	test "$(mf query "[u[\"userid\"] for u in q[\"mf_priority_map\"]][-1]")" = 3000000000
'
test_expect_success 'flaw 56: a job of a user id beyond 2^31 counts in its association' '
	id=$(mf submit 3000000000) && wait_scheduled $id && mf counts 3000000000 A active=1
'
test_expect_success 'flaw 16: weights given at load time are used' '
	cancel_all && mf doc assoc 5001 A project p factor fairshare 10 factor urgency 0 >doc &&
	reload_plugin doc && id=$(mf submit 5001) && wait_scheduled $id && prio_is $id 5
'
test_expect_success 'flaw 52: an invalid inner config fails the load' '
	cancel_all && mf doc assoc 5001 A config deny_unknown_queues=1 >bad &&
	remove_plugin && clear_log && test_must_fail load_plugin bad
'
test_expect_success 'flaw 52: the log names the invalid key, not ": Success"' '
	log_has "error initializing plugin with JSON object: " >line &&
	grep deny_unknown_queues line && ! grep Success line
'
test_expect_success 'flaw 52: a load fails with an invalid record, and succeeds with a valid document afterwards' '
	{ flux jobtap remove mf_priority.so; true; } &&
	jq "del(.config) | .queues=[{queue:\"q\"}]" <bad >worse && test_must_fail load_plugin worse &&
	load_plugin doc && id=$(mf submit 5001) && wait_scheduled $id
'
finish
