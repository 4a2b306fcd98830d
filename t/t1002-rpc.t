#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='the RPC methods change data, and refused payloads change nothing'
# Rules: L3, P7, R2, D2

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance has records, a running job and a held job' '
	start_instance && load_plugin &&
	mf push assoc 5001 A max_running_jobs=1 assoc 5001 B assoc 5002 A queue silver priority=5 \
		project p1 project "*" bank A 2 &&
	run=$(mf submit 5001) && wait_running $run &&
	held=$(mf submit 5001) && wait_held_by $held max-running-jobs-user-limit
'
test_expect_success 'rec_update replaces and adds associations, and removes none' '
	mf data assoc 5002 A fairshare=0.75 assoc 5003 C &&
	test "$(mf query "[[u[\"userid\"], b[\"bank_name\"], b[\"fairshare\"]]
		for u in q[\"mf_priority_map\"] for b in u[\"banks\"]]")" = \
		"[[5001, \"A\", 0.5], [5001, \"B\", 0.5], [5002, \"A\", 0.75], [5003, \"C\", 0.5]]"
'
test_expect_success 'the last record of a user sets the default bank' '
	mf data assoc 5003 C assoc 5003 D def_bank=D && id=$(mf submit 5003) && wait_running $id &&
	test $(mf spec $id attributes.system.bank) = D && mf counts 5003 D active=1
'
test_expect_success 'rec_q_update replaces all queues' '
	mf data queue gold queue bronze && test "$(mf query "sorted(q[\"queues\"])")" = "[\"bronze\", \"gold\"]"
'
test_expect_success 'rec_proj_update replaces all projects and keeps their order' '
	mf data project z project "*" project a && test "$(mf query "q[\"projects\"]")" = "[\"z\", \"*\", \"a\"]"
'
test_expect_success 'the last of two records of an association wins' '
	mf data assoc 5002 A fairshare=0.1 assoc 5002 A fairshare=0.9 queue gold priority=1 queue gold priority=2 &&
	test "$(mf query "q[\"mf_priority_map\"][1][\"banks\"][0][\"fairshare\"]")" = 0.9
'
test_expect_success 'the last of two records of a queue wins' '
	test "$(mf query "q[\"queues\"][\"gold\"][\"priority\"]")" = 2
'
test_expect_success 'each method accepts an empty array' '
	for m in rec_update rec_q_update rec_proj_update rec_bank_update rec_fac_update; do
		mf rpc $m "{\"data\":[]}" || return 1
	done
'
test_expect_success 'an empty array removes all queues and all projects' '
	test "$(mf query "[q[\"queues\"], q[\"projects\"]]")" = "[{}, []]"
'
test_expect_success 'empty arrays leave associations and counters unchanged' '
	mf counts 5001 A active=2 run=1 held=1
'
test_expect_success 'lists of names are split at commas, and blanks around names are dropped' '
	mf data assoc 5004 A queues="a, b,,c " projects=" " &&
	test "$(mf query "[q[\"mf_priority_map\"][-1][\"banks\"][0][k] for k in (\"queues\", \"projects\")]")" = \
		"[[\"a\", \"b\", \"c\"], []]"
'
test_expect_success 'rec_fac_update changes the weights that it lists and no others' '
	mf push assoc 5005 A fairshare=0.5 factor urgency 1 && id=$(mf submit 5005 -u 17) && wait_running $id &&
	prio_is $id 50001 && mf push factor fairshare 10 && id=$(mf submit 5005 -u 17) && wait_running $id && prio_is $id 6 &&
	mf push factor fairshare 100000 factor urgency 1000
'
test_expect_success 'reprioritize accepts a missing payload and any payload' '
	mf rpc reprioritize && mf rpc reprioritize "{}" && mf rpc reprioritize "{\"data\":7}"
'
test_expect_success 'an edited limit releases a held job at the next reprioritize, not earlier' '
	mf data assoc 5001 A max_running_jobs=2 && wait_settled && deps_are $held max-running-jobs-user-limit &&
	mf rpc reprioritize && wait_running $held
'
test_expect_success 'an integer beyond 32 bits is stored unchanged' '
	mf data assoc 5006 A max_nodes=4294967296 &&
	test "$(mf query "q[\"mf_priority_map\"][-1][\"banks\"][0][\"max_nodes\"]")" = 4294967296
'
test_expect_success 'the plugin logs a warning that names a negative limit' '
	clear_log && mf data assoc 5007 A max_nodes=-5 && log_has "associations[0].max_nodes: negative limit -5 admits nothing (user 5007, bank A)"
'
test_expect_success 'a negative max_nodes refuses every job' '
	check_refused "job size (1 node(s), 1 core(s)) is greater than max resources limits configured for association ($(mf query \
		"q[\"mf_priority_map\"][-1][\"banks\"][0][\"max_nodes\"]") node(s), 2147483647 core(s))" mf submit 5007
'
test_expect_success 'the plugin logs a warning that names a negative max_active_jobs' '
	clear_log && mf data assoc 5008 A max_active_jobs=-1 && log_has "associations[0].max_active_jobs: negative limit -1 means unlimited, as 0 does (user 5008, bank A)"
'
test_expect_success 'a negative max_active_jobs means no limit, as 0 does' '
	id=$(mf submit 5008) && wait_for depend $id && cancel $id && wait_ended $id
'

# Each method must refuse each payload below with an error text, and must leave the query document unchanged.
a=$(echo '"userid":1,"bank":"A","def_bank":"A","fairshare":0.5,"max_running_jobs":1,"max_active_jobs":1,
	"max_sched_jobs":1,"max_nodes":1,"max_cores":1,"queues":"","active":1,"projects":"*","def_project":"*"')
q='"queue":"q","priority":1,"min_nodes_per_job":0,"max_nodes_per_job":1,"max_time_per_job":1,"max_running_jobs":1,
	"max_nodes_per_assoc":1,"max_sched_jobs":1,"max_sched_nodes_per_assoc":1,"max_sched_cores_per_assoc":1'
for method in rec_update rec_q_update rec_proj_update rec_bank_update rec_fac_update rec_config_update; do
	array="[]" object="{}"
	test $method = rec_config_update && array="{}" object="[]"
	what=custom_priority.trigger
	test $method = rec_config_update && what="config update"
	test_expect_success "$method refuses a payload that is absent, is not a JSON object or has no data" '
		clear_log && mf rejects $method "" "" nix "[]" "{}" "{\"data\":" "7" "$(printf "{\"data\":\001}")" &&
		log_has "failed to unpack $what msg: Protocol error"
	'
	test_expect_success "$method refuses data of the wrong type" '
		set -- && for data in null 7 0.5 true \"text\" $object; do set -- "$@" "{\"data\":$data}"; done &&
		mf rejects $method "" "$@"
	'
done
for method in rec_update rec_q_update rec_proj_update rec_bank_update rec_fac_update; do
	test_expect_success "$method refuses records that are not records of its table" '
		set -- && for record in null 7 \"text\" [] {} [\"p\"] [\"A\",1] [1,\"A\",\"A\",0.5,1,1,1,1,1,\"\",\"*\",\"*\",1] \
			[\"q\",1,1,1,1,1,1,1,1,1]; do set -- "$@" "{\"data\":[$record]}"; done &&
		mf rejects $method "[0]" "$@"
	'
done
test_expect_success 'rec_q_update replies with and logs the wrong type of queues' '
	clear_log && mf rpc rec_q_update "{\"data\":{}}" >reply; 
	echo "EINVAL: mf_priority unpack: queues data is NULL or not an array" >want && test_cmp want reply &&
	log_has "mf_priority unpack: queues data is NULL or not an array"
'
test_expect_success 'rec_config_update replies with and logs the wrong type of a config' '
	clear_log && mf rpc rec_config_update "{\"data\":[]}" >reply;
	echo "EINVAL: mf_priority: invalid config payload" >want && test_cmp want reply &&
	log_has "mf_priority: invalid config payload"
'

# check_wrong_values KEY VALUE...: checks that rec_update rejects a record with each value of the key (the last of two equal keys wins) and names the key.
check_wrong_values() {
	local key=$1 value n=$#
	shift
	for value; do set -- "$@" "{\"data\":[{$a},{$a,\"$key\":$value}]}"; done
	shift $((n - 1))
	mf rejects rec_update "associations[1].$key" "$@"
}
test_expect_success "association.userid accepts integers only" 'check_wrong_values userid null 1.5 true \"1\" [] {}'
for key in max_running_jobs max_active_jobs max_sched_jobs max_nodes max_cores active; do
	test_expect_success "association.$key accepts integers only" '
		check_wrong_values $key null 1.5 true \"1\" [] {} &&
		mf rejects rec_update "" "{\"data\":[{$a,\"$key\":99999999999999999999}]}"
	'
done
test_expect_success 'a record whose userid is outside 0 to 4294967294 is skipped with a warning (plugin 3.6)' '
	mf query | jq -S .mf_priority_map >before &&
	for userid in -1 -3 4294967295 4294967296 99999999999999999999; do
		mf rpc rec_update "{\"data\":[{$a,\"userid\":$userid}]}" || return 1
	done &&
	mf query | jq -S .mf_priority_map >after && test_cmp before after &&
	log_has "associations[0].userid: 4294967295 is outside 0 to 4294967294: no job can match userid 4294967295 in bank"
'
for key in bank def_bank queues projects def_project; do
	test_expect_success "association.$key accepts strings only" '
		check_wrong_values $key null 1 true [] {}
	'
done
test_expect_success 'association.bank and association.def_bank must not be empty' 'check_wrong_values bank \"\" && check_wrong_values def_bank \"\"'
for key in bank def_bank queues projects def_project; do
	test_expect_success "association.$key must not contain NUL" 'check_wrong_values $key "\"a\\u0000b\""'
done
test_expect_success 'names of queues, projects, banks and factors must not contain NUL' '
	mf rejects rec_q_update "queues[0].queue" "{\"data\":[{$q,\"queue\":\"a\\u0000\"}]}" &&
	mf rejects rec_proj_update "projects[0].project" "{\"data\":[{\"project\":\"a\\u0000\"}]}" &&
	mf rejects rec_bank_update "banks[0].bank" "{\"data\":[{\"bank\":\"a\\u0000\",\"priority\":1}]}" &&
	mf rejects rec_fac_update "priority_factors[0].factor" "{\"data\":[{\"factor\":\"a\\u0000\",\"weight\":1}]}"
'
test_expect_success 'rec_update reports that the key "data" is missing' '
	mf rpc rec_update "{}" >reply; grep "Protocol error: the key \"data\" is missing" reply
'
test_expect_success 'rec_update reports that there is no payload' '
	mf rpc rec_update >reply; grep "Protocol error: there is no payload" reply
'
test_expect_success 'association.fairshare accepts finite numbers only' '
	check_wrong_values fairshare null true \"0.5\" [] &&
	mf rejects rec_update "" "{\"data\":[{$a,\"fairshare\":1e999}]}"
'
test_expect_success 'rec_update names the key that a record lacks' '
	mf rejects rec_update "associations[0].bank" "{\"data\":[{\"userid\":1}]}"
'
test_expect_success 'fields of queue records accept integers only' '
	for key in priority max_running_jobs max_nodes_per_assoc max_sched_jobs max_sched_nodes_per_assoc \
		max_sched_cores_per_assoc min_nodes_per_job max_nodes_per_job max_time_per_job; do
		mf rejects rec_q_update "queues[0].$key" "{\"data\":[{$q,\"$key\":\"1\"}]}" || return 1
	done
'
test_expect_success 'the name in a queue record is a string that is not empty' '
	mf rejects rec_q_update "queues[0].queue" "{\"data\":[{$q,\"queue\":\"\"}]}" "{\"data\":[{$q,\"queue\":1}]}"
'
test_expect_success 'a bank record has a name and a number' '
	mf rejects rec_bank_update "banks[0].priority" "{\"data\":[{\"bank\":\"A\",\"priority\":\"1\"}]}" &&
	mf rejects rec_bank_update "banks[0].bank" "{\"data\":[{\"bank\":1,\"priority\":1}]}"
'
test_expect_success 'the name in a project record is not empty' '
	mf rejects rec_proj_update "projects[0].project" "{\"data\":[{\"project\":\"\"}]}"
'
test_expect_success 'a weight record has a name and an integer' '
	mf rejects rec_fac_update "priority_factors[0].weight" "{\"data\":[{\"factor\":\"queue\",\"weight\":\"1\"}]}" &&
	mf rejects rec_fac_update "priority_factors[0].factor" "{\"data\":[{\"factor\":[],\"weight\":1}]}"
'
test_expect_success 'deny_unknown_queues accepts booleans only' '
	set -- && for value in null 1 0 \"true\" []; do set -- "$@" "{\"data\":{\"deny_unknown_queues\":$value}}"; done &&
	mf rejects rec_config_update deny_unknown_queues "$@"
'
test_expect_success 'zero_score accepts hold and floor only' '
	mf rejects rec_config_update zero_score "{\"data\":{\"zero_score\":\"ceiling\"}}"
'
test_expect_success 'a project name of ten megabytes is stored' '
	flux python - <<-EOF &&
	import flux
	flux.Flux().rpc("job-manager.mf_priority.rec_proj_update", {"data": [{"project": "x" * 10000000}]}).get()
	EOF
	test "$(mf query "len(q[\"projects\"][0])")" = 10000000 && mf data project "*" && mf alive
'
test_expect_success 'a call of an unknown method ends with ENOSYS' 'mf rpc rec_nothing >reply; grep ENOSYS reply'
test_expect_success 'guests may not call any method that changes data' '
	for method in rec_update rec_q_update rec_proj_update rec_bank_update rec_fac_update rec_config_update reprioritize; do
		mf rpc --as 5001 $method "{\"data\":[]}" >reply
		grep "^EPERM: " reply || return 1
	done
'
test_expect_success 'guests may not call policy_update or check' '
	mf rpc --as 5001 policy_update "{}" >reply; grep "^EPERM: " reply &&
	mf rpc --as 5001 check >reply; grep "^EPERM: " reply
'
test_expect_success 'refused calls leave the jobs and counters unchanged' '
	is_state RUN $run $held && mf counts 5001 A active=2 run=2
'
finish
