#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='a job-list that is missing, slow, silent or wrong changes no count'
# Rules: F11, R16

. "$(dirname "$0")/lib.sh"
in_sequence

# start_stand_in HOW: starts a replacement for job-list. end_stand_in: ends it.
start_stand_in() {
	rm -f asked
	flux python "$T_DIR/scripts/job-list.py" $1 asked >>stand-in.log 2>&1 &
	stand_in=$!
	local until=$((SECONDS + MF_WAIT))
	while ! grep -q ready asked 2>/dev/null; do
		kill -0 $stand_in && test $SECONDS -le $until || { tail stand-in.log; return 1; }
		sleep 0.05
	done
}
end_stand_in() {
	test -z "$stand_in" || { kill $stand_in; wait $stand_in; }
	stand_in=
}
cleanup end_stand_in

# check_counts: checks that user 5001 has one running and four held jobs, and that user 5002 has two active jobs.
check_counts() { mf counts 5001 A active=5 run=1 held=4 && mf counts 5002 A active=2 && mf check; }
wait_for_counts() {
	local until=$((SECONDS + MF_WAIT))
	until check_counts >counted.out 2>&1; do
		test $SECONDS -le $until || { cat counted.out; return 1; }
		sleep 0.1
	done
}

test_expect_success 'an instance has running jobs, held jobs and a blocked job' '
	write_conf ".fairshare[\"running-limits\"] = \"strict\"" && start_instance && load_plugin &&
	mf doc assoc 5001 A max_running_jobs=1 assoc 5002 A project "*" bank A 1 >doc &&
	jq ".banks += [{bank: \"root\", parent: \"\", priority: 0, shares: 1, active: 1}] |
		.banks[0] += {parent: \"root\", shares: 1, active: 1} |
		.associations |= [.[] | . + {username: \"u\(.userid)\", shares: 1, usage: 100, counted_until: 1}] |
		.tree = {policy: \"fair-tree\", at: 1, half_life: 604800, node_weight: 1, core_weight: 0, gpu_weight: 0}" doc >tree &&
	mf rpc policy_update "$(cat tree)" &&
	run=$(mf submit 5001) && wait_running $run && mf submit 5001 -j 4 >held && wait_held_by $(tail -1 held) max-running-jobs-user-limit &&
	first=$(mf submit 5002) && wait_running $first && waits=$(mf submit 5002 -d afterany:$first) && wait_for dependency-add $waits && wait_for_counts
'
test_expect_success 'a reload without job-list finds the same counts' '
	flux module remove job-list && reload_plugin && mf rpc policy_update "$(cat tree)" && wait_for_counts
'
for how in slow silent refuses lies raves; do
	test_expect_success "a reload finds the same counts if job-list $how" '
		start_stand_in $how && reload_plugin && mf rpc policy_update "$(cat tree)" && wait_for_counts && wait_settled && check_counts &&
		grep job-list asked
	'
	test_expect_success 'a job runs and ends while job-list is replaced' '
		id=$(mf submit 5002 --run 0.01s) && wait_ended $id && check_counts
	'
	test_expect_success 'all usages are numbers and none is negative' '
		mf rpc standing "{\"all\":true}" >usages && sed "s/^ok //" usages |
			jq -e "[.associations[].usage] | length == 2 and all(type == \"number\" and . >= 0 and . < 1e9)" ||
			{ cut -c1-600 usages; return 1; }
	'
	test_expect_success 'the counts stay the same after the answers of job-list end' 'end_stand_in && check_counts && mf check'
done
test_expect_success 'all jobs end after job-list is loaded again' '
	flux module load job-list && cancel $run $first && wait_running $(head -1 held) $waits &&
	cancel_all && mf check >left && cat left && jq -e ".jobs == 0" left
'
finish
