#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='policy_update replaces the whole policy by one document'
# Rules: L15, P7, R2, D3

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'policy_update replies with a generation' '
	write_conf "$(with_queues q)" && start_instance && stop_queues && load_plugin &&
	mf doc assoc 5001 A queues=q max_sched_jobs=1 assoc 5002 A queues=q queue q priority=1 project "*" bank A 1 >doc &&
	mf rpc policy_update "$(cat doc)" >reply && sed "s/^ok //" reply | jq -e ".generation | numbers"
'
test_expect_success 'a job gets its priority, and another is held, by the pushed policy' '
	sched=$(mf submit 5001 -q q) && wait_scheduled $sched && prio_is $sched 60000 &&
	held=$(mf submit 5001 -q q) && wait_held_by $held max-sched-jobs-user-limit && other=$(mf submit 5002 -q q) && wait_scheduled $other
'
test_expect_success 'policy_update reprioritizes pending jobs' '
	jq ".associations[0].max_sched_jobs = 5 | .queues[0].priority = 2" <doc >next && mf rpc policy_update "$(cat next)" &&
	wait_for priority $sched priority=70000
'
test_expect_success 'policy_update releases held jobs that fit' 'wait_scheduled $held && mf counts 5001 A sched=2 held=0'
test_expect_success 'a new job of an association that the policy lacks is refused' '
	jq "del(.associations[1]) | .queues[0].priority = 3" <next >fewer && mf rpc policy_update "$(cat fewer)" &&
	check_refused "cannot find user/bank or user/default bank entry for uid: 5002" mf submit 5002 -q q
'
test_expect_success 'jobs of a removed association stay in SCHED with their fair-share' '
	wait_settled && is_state SCHED $other && prio_is $other 80000
'
test_expect_success 'jobs of a removed association run and end' 'start_queues && wait_running $other && cancel $other && wait_ended $other && mf alive && stop_queues'
test_expect_success 'a removed association returns with its next record' '
	mf push assoc 5002 A queues=q && id=$(mf submit 5002 -q q) && wait_scheduled $id && mf counts 5002 A active=1 sched=1
'
test_expect_success 'weights and config that the policy lacks return to their defaults' '
	mf push factor queue 1 config deny_unknown_queues=true &&
	test "$(mf query "q[\"config\"][\"deny_unknown_queues\"]")" = true && mf rpc policy_update "$(cat next)" &&
	wait_for priority $id priority=70000 && wait_settled && prio_is $id 70000 &&
	mf doc assoc 5001 A queues=q project "*" queue q priority=2 bank A 1 >next2 && mf rpc policy_update "$(cat next2)" &&
	wait_settled && prio_is $id 70000 && test "$(mf query "q[\"config\"][\"deny_unknown_queues\"]")" = false
'
test_expect_success 'a policy_update with dry_run replies and changes nothing' '
	mf query >before && jq ".dry_run = true | .associations = []" <doc >dry && mf rpc policy_update "$(cat dry)" >reply && grep ^ok reply &&
	mf query >after && test_cmp before after
'
test_expect_success 'dry_run counts next to the data and inside the data' '
	jq -c "del(.dry_run)" <dry >bare && for payload in "{\"data\":$(cat bare),\"dry_run\":true}" "{\"data\":$(jq -c . <dry)}"; do
		mf rpc policy_update "$payload" >reply && grep "^ok.*\"dry_run\":true" reply && mf query >after && test_cmp before after || return 1
	done
'
test_expect_success 'a policy_update without one of the five arrays is refused' '
	for key in associations queues projects banks priority_factors; do
		mf rejects policy_update $key "$(jq -c "del(.$key)" <doc)" || return 1
	done
'
# check_refused_policy TEXT FILTER: checks that ./doc, changed by FILTER, is refused with TEXT and changes nothing.
check_refused_policy() { mf rejects policy_update "$1" "$(jq -c "$2" <doc)"; }
test_expect_success 'a policy with an invalid association is refused, and nothing is applied' '
	check_refused_policy "associations[1].max_nodes" ".associations[1].max_nodes = null"
'
test_expect_success 'a policy with an invalid queue is refused, and nothing is applied' 'check_refused_policy "queues[0].priority" ".queues[0].priority = \"1\""'
test_expect_success 'a policy with an invalid project is refused, and nothing is applied' 'check_refused_policy "projects[0].project" ".projects[0] = {}"'
test_expect_success 'a policy with an invalid bank is refused, and nothing is applied' 'check_refused_policy "banks[0].priority" ".banks[0].priority = true"'
test_expect_success 'a policy with an invalid weight is refused, and nothing is applied' '
	check_refused_policy "priority_factors[0].weight" ".priority_factors = [{factor: \"queue\"}]"
'
test_expect_success 'a policy with an invalid config is refused, and nothing is applied' 'check_refused_policy "deny_unknown_queues" ".config.deny_unknown_queues = 7"'
test_expect_success 'a policy with a dry_run that is not a boolean is refused, and nothing is applied' 'check_refused_policy "dry_run" ".dry_run = 1"'
test_expect_success 'a payload that is not a policy is refused, and nothing is applied' 'mf rejects policy_update "" "" "[]" "7" "nix"'
test_expect_success 'every accepted call of a data method raises the generation' '
	push_and_print_generation() { mf rpc policy_update "$(cat next2)" | sed "s/^ok //" | jq .generation; } &&
	a=$(push_and_print_generation) && mf data project "*" && b=$(push_and_print_generation) && test $((b - a)) -eq 2
'
test_expect_success 'a refused call leaves the generation unchanged' '
	test_must_fail mf rpc rec_update "{}" && c=$(push_and_print_generation) && test $((c - b)) -eq 1
'
test_expect_success 'the default bank of the owner outlives the record that the client sends for the owner' '
	me=$(id -u) && mf push assoc $me A queues=q assoc $me B def_bank=A queues=q && mf push assoc $me root def_bank=root queues=q &&
	id=$(mf submit $me -q q) && wait_scheduled $id && test $(mf spec $id attributes.system.bank) = A
'
test_expect_success 'the record that the client sends gives the default bank of an owner without another bank' '
	mf rpc policy_update "$(cat doc)" && mf push assoc $me root def_bank=root queues=q && id=$(mf submit $me -q q) && wait_scheduled $id &&
	test $(mf spec $id attributes.system.bank) = root
'
finish
