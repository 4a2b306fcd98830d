#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='staged pushes, pages of associations, and the messages of load, push and removal'
# Rules: L15, P4, D5, D6, D10, D11, D13, D15

. "$(dirname "$0")/lib.sh"
in_sequence

# call_method METHOD PAYLOAD: prints the answer as JSON, or fails and prints the refusal.
call_method() {
	mf rpc "$1" "$2" >answer || { cat answer; return 1; }
	sed "s/^ok //" answer
}
# begin_push [PAYLOAD]: opens a push; its number is in $push.
begin_push() { push=$(call_method policy_begin "${1:-"{}"}" | jq -e .push); }
# send_push_part FILTER: sends a part of ./doc.
send_push_part() { call_method policy_part "$(jq -c "$1 + {push: $push}" <doc)"; }
commit_push() { call_method policy_commit "{\"push\":$push}"; }
rest='{queues, projects, banks, priority_factors, config}'

test_expect_success 'an instance has a pending, a held and another pending job' '
	write_conf "$(with_queues q)" && start_instance && stop_queues && load_plugin &&
	mf doc assoc 5001 A queues=q max_sched_jobs=1 assoc 5002 A queues=q assoc 5003 A queues=q queue q priority=1 \
		project "*" bank A 1 factor queue 10000 config deny_unknown_queues=false >doc &&
	mf rpc policy_update "$(cat doc)" && sched=$(mf submit 5001 -q q) && wait_scheduled $sched && prio_is $sched 60000 &&
	held=$(mf submit 5001 -q q) && wait_held_by $held max-sched-jobs-user-limit && other=$(mf submit 5003 -q q) && wait_scheduled $other
'
test_expect_success 'a staged push changes no query, dependency and priority' '
	jq ".associations |= (.[:2] | .[0].max_sched_jobs = 5) | .queues[0].priority = 2" <doc >next && mv next doc &&
	mf query >before && begin_push && send_push_part "{associations: .associations[:1]}" && send_push_part "{associations: .associations[1:]} + $rest" &&
	wait_settled && mf query >after && test_cmp before after && deps_are $held max-sched-jobs-user-limit && prio_is $sched 60000
'
test_expect_success 'the reply to the commit counts the changes' '
	commit_push >reply && jq -e "[.added, .changed, .removed, .unchanged, .dry_run] == [0, 1, 1, 1, false]" <reply
'
test_expect_success 'the commit reprioritizes pending jobs and releases held jobs that fit' '
	wait_scheduled $held && wait_for priority $sched priority=70000 && mf counts 5001 A sched=2 held=0
'
test_expect_success 'a new job of a removed association is refused' '
	check_refused "cannot find user/bank or user/default bank entry for uid: 5003" mf submit 5003 -q q
'
test_expect_success 'a removed association stays in the query, marked, while its jobs live' '
	mf query "q[\"removed_associations\"]" | jq -e ".[0] | [.userid, .bank_name, .removed, .cur_sched_jobs] == [5003, \"A\", true, 1]"
'
test_expect_success 'a removed association leaves the query when its jobs have ended' '
	cancel $other && wait_ended $other && test "$(mf query "q[\"removed_associations\"]")" = "[]"
'
test_expect_success 'a part of a committed push is refused' '
	mf rpc policy_part "{\"push\":$push}" >reply; grep "^ENOENT: mf_priority: push $push: it was committed" reply
'
test_expect_success 'a commit is refused, and ends its push, if its tree is invalid' '
	begin_push && send_push_part "{associations: .associations} + $rest + {banks: [{bank: \"A\", priority: 0, parent: \"A\", shares: 1, active: 1}],
		tree: {policy: \"fair-tree\", at: 0, half_life: 1, node_weight: 1, core_weight: 0, gpu_weight: 0}}" &&
	mf rejects policy_commit "tree: " "{\"push\":$push}" &&
	mf rpc policy_commit "{\"push\":$push}" >reply; grep "its commit was refused" reply
'
test_expect_success 'an aborted push changes nothing' '
	mf query >before && begin_push && send_push_part "{associations: []} + $rest" && call_method policy_abort "{\"push\":$push}" &&
	mf query >after && test_cmp before after
'
test_expect_success 'an aborted push cannot be committed' '
	mf rpc policy_commit "{\"push\":$push}" >reply; grep "it was aborted" reply
'
test_expect_success 'a refused part names user, bank and key' '
	begin_push && send_push_part "{associations: .associations[:1]}" &&
	mf rejects policy_part "associations[1].max_nodes: expected integer, got string (user 5002, bank A)" \
		"$(jq -c "{push: $push, associations: [.associations[1] | .max_nodes = \"7\"]}" <doc)"
'
test_expect_success 'a refused part ends its push' '
	mf rpc policy_commit "{\"push\":$push}" >reply; grep "a part of the push was refused: .*user 5002, bank A" reply
'
test_expect_success 'a push that lacks an array cannot be committed' '
	begin_push && send_push_part "{associations, queues, projects, banks}" &&
	mf rejects policy_commit "policy.priority_factors: key is missing in all parts" "{\"push\":$push}"
'
test_expect_success 'a new push replaces an open one' '
	begin_push && first=$push && begin_push && mf rpc policy_part "{\"push\":$first}" >reply;
	grep "push $first: push $push replaced it" reply
'
test_expect_success 'a policy_update in one message replaces an open push' '
	begin_push && mf rpc policy_update "$(cat doc)" && { mf rpc policy_commit "{\"push\":$push}" >reply;
	grep "push $push: a policy_update in one message replaced it" reply; }
'
test_expect_success 'a push without parts for the time limit expires' '
	begin_push "{\"expires\":1}" && sleep 1.5 &&
	mf rejects policy_commit "it expired, because no part arrived in time" "{\"push\":$push}"
'
test_expect_success 'a dry run replies with the changes that a commit would make' '
	mf query >before && begin_push "{\"dry_run\":true}" && send_push_part "{associations: []} + $rest" && commit_push >reply &&
	jq -e ".dry_run and .removed == 2" <reply
'
test_expect_success 'a dry run changes nothing' '
	mf query >after && test_cmp before after
'
test_expect_success 'a part with more than 1,000 records is refused' '
	begin_push && jq -c "{push: $push, projects: [range(1001) | {project: \"p\\(.)\"}]}" <doc >large &&
	mf rejects policy_part "a part of a push has at most 1000 records; this part has 1001" "$(cat large)"
'
test_expect_success 'guests may not call the methods of a staged push' '
	for method in policy_begin policy_part policy_commit policy_abort associations; do
		mf rpc --as 5001 $method "{}" >reply
		grep "^EPERM: " reply || return 1
	done
'

# print_associations: reads documents or pages from standard input and prints one line for each association.
print_associations() { jq -S -c '.mf_priority_map[] | .userid as $user | .banks[] | [$user, .]'; }
test_expect_success 'pages of associations together equal the query' '
	mf push assoc 5001 B queues=q assoc 5004 A assoc 5005 A && mf query | print_associations >want && : >have && after=null &&
	for page in 1 2 3; do
		call_method associations "{\"after\":$after,\"limit\":2}" >page && print_associations <page >>have && after=$(jq -c .next <page) || return 1
	done && test $after = null && test_cmp want have && test $(wc -l <have) = 5
'
test_expect_success 'a page may be limited to one user' '
	call_method associations "{\"user\":5001}" >page && jq -e ".next == null and ([.mf_priority_map[].banks[].bank_name] == [\"A\", \"B\"])" <page
'

test_expect_success 'zero_score=floor given at load outlives a rec_config_update without zero_score' '
	cancel_all && jq ".config = {zero_score: \"floor\"} | .associations[0].fairshare = 0 | .queues[0].priority = 0 | .banks = []" <doc >floor &&
	reload_plugin floor && id=$(mf submit 5001 -q q) && wait_scheduled $id && prio_is $id 1 &&
	mf push config deny_unknown_queues=false && mf alive && prio_is $id 1 &&
	test "$(mf query "q[\"config\"][\"zero_score\"]")" = floor
'
test_expect_success 'a policy without zero_score resets it' '
	mf rpc policy_update "$(jq -c ".config = {}" <floor)" && mf alive && prio_is $id 0
'
test_expect_success 'a staged push with keep_config keeps switches that no part names' '
	cp floor doc && begin_push "{\"keep_config\":true}" && send_push_part "{associations} + $rest" && commit_push && wait_for priority $id priority=1 &&
	jq ".config = {}" <floor >doc && begin_push "{\"keep_config\":true}" && send_push_part "{associations} + $rest" && commit_push && mf alive && prio_is $id 1
'

# check_failed_load FILTER TEXT: changes the document ./floor with the jq filter FILTER. Checks that the plugin does not load with the
# changed document, and that the command prints TEXT.
check_failed_load() {
	jq "$1" <floor >bad && test_must_fail flux jobtap load -r mf_priority.so "$PLUGIN" "config=$(cat bad)" 2>err
	grep -F -- "$2" err || { cat err; return 1; }
	! flux jobtap list | grep mf_priority && load_plugin floor
}
test_expect_success 'a failed load names the key, user and bank' '
	check_failed_load ".associations[1].max_nodes = \"many\"" \
		"error initializing plugin with JSON object: associations[1].max_nodes: expected integer, got string (user 5002, bank A)"
'
test_expect_success 'a load with an unknown switch in its config names the switch' '
	check_failed_load ".config.zero_scor = \"floor\"" "config.config: unknown switch \"zero_scor\""
'
test_expect_success 'a load with an unknown option names the option' '
	remove_plugin && test_must_fail flux jobtap load "$PLUGIN" zero_score=floor 2>err && grep "unknown option \"zero_score\"" err && load_plugin floor
'
test_expect_success 'a job and its counters are unchanged after failed loads' '
	is_state SCHED $id && prio_is $id 1 && mf counts 5001 A sched=1
'
test_expect_success 'load, push, reload and removal log one line each' '
	clear_log && cp floor doc && begin_push && send_push_part "{associations} + $rest" && commit_push && reload_plugin floor && wait_settled && remove_plugin &&
	flux dmesg | grep "job-manager.info.*mf_priority:" | sed "s/.*mf_priority: //; s/version [^)]*/version X/" >have &&
	cat >want <<-EOF &&
	policy: generation 2, associations: 0 added, 0 changed, 0 removed, 2 unchanged
	removed; 1 live job left unchanged
	loaded (version X): 2 associations, 1 queue
	took over 1 live job
	removed; 1 live job left unchanged
	EOF
	test_cmp want have && load_plugin floor
'
finish
