#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='jobs of a queue and of its virtual queue are in one order'
# Rules: F19, K31, L5

. "$(dirname "$0")/lib.sh"
in_sequence

# push_tree USAGE_OF_5001 USAGE_OF_5002: pushes users 5001 and 5002 with these usages.
push_tree() {
	mf doc assoc 5001 A username=ann shares=1 usage="$1" counted_until=0 queues=batch,fast,other \
		assoc 5002 A username=bob shares=1 usage="$2" counted_until=0 queues=batch,fast,other \
		bank root 0 parent= shares=1 active=1 bank A 0 parent=root shares=1 active=1 \
		queue batch queue fast queue other project "*" config zero_score=hold >doc.json &&
	jq -c --argjson at "$(date +%s.%N)" '. + {tree: {policy: "classic", at: $at, half_life: 0, node_weight: 1,
		core_weight: 0, gpu_weight: 0}}' doc.json >policy.json &&
	mf rpc policy_update "$(cat policy.json)"
}
call_method() { mf rpc "$@" | sed "s/^ok //"; }
# print_first_users N: prints the users of the first N jobs in the order of their posted priorities.
print_first_users() { flux jobs -a -A -c 0 -f pending -no "{priority} {id.dec} {userid}" | sort -k1,1nr -k2,2n | head -"$1" | cut -d" " -f3 | sort | uniq -c | sed "s/^ *//"; }

test_expect_success 'an instance has a queue with a virtual queue, another queue and 30 pending jobs of each user' '
	write_conf "$(with_queues batch other) | .queues.fast = {parent: \"batch\"} | .fairshare = {refresh: \"300ms\"}" &&
	start_instance && load_plugin && push_tree 10 1000 && stop_queues &&
	mine=$(mf submit 5001 -q batch -j 30) && others=$(mf submit 5002 -q fast -j 30) && wait_scheduled $mine $others && print_first_users 20 >out && echo "20 5001" >expected && test_cmp expected out
'
test_expect_success 'a push that reverses the order of users reverses the order of the scheduler queue' '
	push_tree 1000 10 && i=0 && until print_first_users 20 >out && test "$(cat out)" = "20 5002"; do test $((i += 1)) -lt 100 || { cat out; return 1; }; sleep 0.1; done
'
test_expect_success 'explain names the queue and its parent queue' '
	one=$(echo $mine | cut -d" " -f1) && other=$(echo $others | cut -d" " -f1) &&
	call_method explain "{\"jobs\":[$(flux job id $other)]}" >out && jq -c ".jobs[0] | [.queue, .parent_queue, .one_queue_list]" out >got &&
	echo "[\"fast\",\"batch\",true]" >expected && test_cmp expected got
'
cancel_all
test_expect_success 'limits of a queue count the jobs of its virtual queue, and limits of a virtual queue only its own jobs' '
	mf push assoc 5001 A fairshare=0.5 queues=batch,fast,other assoc 5002 A fairshare=0.5 queues=batch,fast,other \
		queue batch max_running_jobs=1 queue fast queue other project "*" && start_queues &&
	run=$(mf submit 5001 -q fast) && wait_running $run && held=$(mf submit 5001 -q batch) && wait_held_by $held max-run-jobs-queue &&
	virtual=$(mf submit 5001 -q fast) && wait_held_by $virtual max-run-jobs-queue && free=$(mf submit 5001 -q other) && wait_running $free &&
	call_method explain "{\"jobs\":[$(flux job id $held)]}" >out && jq -c ".jobs[0].holds[0] | [.limit, .used, .frees[0].id]" out >got &&
	echo "[\"max-run-jobs-queue\",1,$(flux job id $run)]" >expected && test_cmp expected got && flux cancel $run && wait_running $held && flux cancel $held && wait_running $virtual
'
cancel_all
finish
