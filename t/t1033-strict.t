#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='strict limits on running jobs, and jobs past DEPEND that a limit holds'
# Rules: L16, L18, R7

. "$(dirname "$0")/lib.sh"
in_sequence

queues='with_queues batch debug'
# load_rules JQ: loads the configuration with this table [fairshare].
load_rules() {
	jq --argjson fairshare "$1" '.fairshare = $fairshare' base.json >conf.json && flux config load <conf.json
}
# check_refused_rules TEXT JQ: checks that this table [fairshare] is refused with TEXT.
check_refused_rules() {
	jq --argjson fairshare "$2" '.fairshare = $fairshare' base.json >bad.json
	test_must_fail flux config load <bad.json 2>err
	grep -F -- "$1" err || { cat err; return 1; }
}
print_rules() { mf query | jq -c .running_limits; }
submit_five_jobs() { local u=$1; shift; for _ in 1 2 3 4 5; do mf submit "$u" -q batch "$@"; done; }
# count_in_state UID STATE: prints how many jobs of a user are in a state.
count_in_state() { mf jobs "$1" | grep -c " $2 "; }
check_count_in_state() {
	local n
	n=$(count_in_state "$1" "$2")
	test "$n" = "$3" || { echo "$n of $1 are in $2, not $3"; mf jobs "$1"; return 1; }
}
records="assoc 5001 A max_running_jobs=2 queues=batch,debug assoc 5002 A max_running_jobs=2 queues=batch,debug
	assoc 5003 A max_nodes=2 queues=batch,debug assoc 5004 A queues=batch,debug
	assoc 5005 A max_running_jobs=2 queues=batch,debug"
site="$records queue batch queue debug project *"

test_expect_success 'an instance has running limits of 2 and stopped queues' '
	write_conf "$($queues)" && cp conf.json base.json && start_instance && load_plugin && set -f && mf push $site && set +f &&
	print_rules >out && test "$(cat out)" = "{\"default\":\"upstream\",\"queues\":{}}" && stop_queues
'
test_expect_success 'all five jobs reach SCHED under the rule of flux-accounting' '
	ids=$(submit_five_jobs 5001) && wait_scheduled $ids && wait_settled && check_count_in_state 5001 SCHED 5
'
test_expect_success 'all five jobs run at once under the rule of flux-accounting' '
	start_queues && wait_running $ids && check_count_in_state 5001 RUN 5 && cancel_all && test "$(mf most_ran 5001)" = 5
'
test_expect_success 'flux config load switches to strict running limits' '
	load_rules "{\"running-limits\": \"strict\"}" && print_rules >out && test "$(cat out)" = "{\"default\":\"strict\",\"queues\":{}}"
'
test_expect_success 'two of five jobs reach SCHED under strict limits' '
	stop_queues && ids=$(submit_five_jobs 5002 -t 3600) && set -- $ids && wait_scheduled $1 $2 && wait_held_by $3 max-running-jobs-user-limit &&
	wait_held_by $5 max-running-jobs-user-limit && wait_settled && check_count_in_state 5002 SCHED 2 && check_count_in_state 5002 DEPEND 3
'
test_expect_success 'two jobs run at once, and the others follow one by one in order' '
	set -- $ids && start_queues && wait_running $1 $2 && wait_settled && is_state DEPEND $3 $4 $5 && cancel $2 && wait_running $3 && wait_settled &&
	is_state DEPEND $4 $5 && cancel $1 && wait_running $4 && wait_settled && is_state DEPEND $5 && cancel $3 && wait_running $5 && cancel_all &&
	test "$(mf most_ran 5002)" = 2
'
test_expect_success 'strict limits count nodes by the size of jobs' '
	stop_queues && a=$(mf submit 5003 -q batch -N 2) && wait_scheduled $a && b=$(mf submit 5003 -q batch -N 1) &&
	wait_held_by $b max-resources-user-limit && start_queues && wait_running $a && wait_settled && is_state DEPEND $b && cancel $a && wait_running $b &&
	cancel_all
'
test_expect_success 'a job of urgency 0 gives its headroom to the next job, and is held in SCHED if its urgency rises too late' '
	stop_queues && ids=$(submit_five_jobs 5002) && set -- $ids && wait_scheduled $1 $2 && flux job urgency $1 0 && wait_scheduled $3 && wait_settled &&
	is_state SCHED $1 $2 $3 && is_state DEPEND $4 && flux job urgency $1 16 && wait_settled && held_in_sched $1 &&
	mf counts 5002 A sched=2 && start_queues && wait_running $2 $3 && wait_settled && held_in_sched $1 && cancel $2 && wait_running $1 &&
	wait_settled && is_state DEPEND $4 $5 && cancel_all && test "$(mf most_ran 5002)" = 2
'
test_expect_success 'jobs in SCHED stay there at the switch to strict limits, and count from then on' '
	load_rules "{}" && stop_queues && ids=$(submit_five_jobs 5001) && wait_scheduled $ids && load_rules "{\"running-limits\": \"strict\"}" && wait_settled &&
	check_count_in_state 5001 SCHED 5 && f=$(mf submit 5001 -q batch) && wait_held_by $f max-running-jobs-user-limit && set -- $ids &&
	cancel $1 $2 $3 && wait_ended $1 $2 $3 && wait_settled && is_state DEPEND $f
'
test_expect_success 'the switch back releases held jobs at once' 'set -- $ids && load_rules "{}" && wait_scheduled $f && wait_settled && is_state SCHED $4 $5 $f && cancel_all'
test_expect_success 'one queue may have strict limits while the other queues have the default rule' '
	load_rules "{\"queues\": {\"batch\": {\"running-limits\": \"strict\"}}}" && stop_queues &&
	ids=$(for _ in 1 2 3; do mf submit 5001 -q debug; done) && wait_scheduled $ids && a=$(mf submit 5001 -q batch) &&
	b=$(mf submit 5001 -q batch) && wait_scheduled $a $b && c=$(mf submit 5001 -q batch) &&
	wait_held_by $c max-running-jobs-user-limit && cancel_all
'
test_expect_success 'a table that is invalid is refused and changes nothing' '
	check_refused_rules "fairshare.running-limits: expected \"upstream\" or \"strict\", got \"hard\"" "{\"running-limits\": \"hard\"}" &&
	check_refused_rules "queues.pdebug: no such queue; known are batch, debug" \
		"{\"running-limits\": \"upstream\", \"queues\": {\"pdebug\": {\"running-limits\": \"strict\"}}}" &&
	check_refused_rules "fairshare.queues.batch.limits: unknown key; known are running-limits, charge" "{\"queues\": {\"batch\": {\"limits\": 1}}}" &&
	print_rules >out && test "$(cat out)" = "{\"default\":\"upstream\",\"queues\":{\"batch\":\"strict\"}}"
'
# Flux notifies its plugins of a new configuration before it checks the keys of its own tables.
test_expect_success 'a table that Flux refuses for another reason is in force until the next table' '
	jq ".fairshare = {\"running-limits\": \"strict\"} | .\"job-manager\".\"inactive-age-limit\" = \"soon\"" base.json >bad.json &&
	test_must_fail flux config load <bad.json 2>err && grep "invalid FSD" err && flux config get >flux.json &&
	jq -e ".fairshare.\"running-limits\" != \"strict\"" flux.json &&
	print_rules >out && test "$(cat out)" = "{\"default\":\"strict\",\"queues\":{}}" &&
	flux config load <conf.json && print_rules >out && test "$(cat out)" = "{\"default\":\"strict\",\"queues\":{}}" &&
	load_rules "{}" && print_rules >out && test "$(cat out)" = "{\"default\":\"upstream\",\"queues\":{}}"
'
test_expect_success 'an instance has running, pending and held jobs under strict limits' '
	load_rules "{\"running-limits\": \"strict\"}" && start_queues && r=$(mf submit 5001 -q batch) && wait_running $r && stop_queues &&
	s=$(mf submit 5001 -q batch) && wait_scheduled $s && h=$(mf submit 5001 -q batch) && wait_held_by $h max-running-jobs-user-limit
'
test_expect_success 'a reload keeps all states under strict limits' '
	set -f && mf doc $site >doc && set +f && reload_plugin doc && wait_settled && is_state RUN $r && is_state SCHED $s && is_state DEPEND $h &&
	t=$(mf submit 5001 -q batch) && wait_held_by $t max-running-jobs-user-limit
'
test_expect_success 'a restart keeps all states under strict limits' '
	jq "$(with_plugin doc)" --arg so "$PLUGIN" conf.json >more.json && cp more.json conf.json && cp more.json base.json &&
	restart_instance && wait_settled && is_state RUN $r && is_state DEPEND $h $t && start_queues && wait_running $s && wait_settled &&
	is_state DEPEND $h $t && cancel $r && wait_running $h && wait_settled && is_state DEPEND $t && cancel_all
'
test_expect_success 'jobs from before the first push wait in PRIORITY if the limit is full' '
	reload_plugin && ids=$(submit_five_jobs 5005) && set -- $ids && wait_for depend $5 && wait_settled && check_count_in_state 5005 PRIORITY 5 &&
	set -f && mf push $site && set +f && wait_running $1 $2 && wait_settled && is_state PRIORITY $3 $4 $5
'
test_expect_success 'the query and explain show jobs in PRIORITY as held' '
	set -- $ids && mf query | jq -e ".mf_priority_map[] | select(.userid == 5005).banks[0].held_jobs | length == 3" &&
	mf rpc explain "{\"jobs\":[$(flux job id $3)]}" | sed "s/^ok //" >why.json &&
	jq -e ".jobs[0].held and .jobs[0].holds[0].limit == \"max-running-jobs-user-limit\"" why.json &&
	mf counts 5005 A active=5 run=2 sched=0 held=3
'
test_expect_success 'a new job is held behind the jobs in PRIORITY' '
	set -- $ids && l=$(mf submit 5005 -q batch) && wait_held_by $l max-running-jobs-user-limit && cancel $1 && wait_running $3 && wait_settled &&
	is_state PRIORITY $4 $5 && is_state DEPEND $l
'
test_expect_success 'a reload and a restart keep jobs in PRIORITY, and their order' '
	set -- $ids && reload_plugin doc && wait_settled && is_state RUN $2 $3 && is_state PRIORITY $4 $5 && is_state DEPEND $l &&
	restart_instance && wait_settled && is_state RUN $2 $3 && is_state PRIORITY $4 $5 && is_state DEPEND $l && cancel $2 && wait_running $4 &&
	wait_settled && is_state PRIORITY $5 && is_state DEPEND $l && cancel $3 && wait_running $5 && wait_settled && is_state DEPEND $l &&
	cancel $4 && wait_running $l
'
test_expect_success 'no more than two jobs ran at once' 'cancel_all && test "$(mf most_ran 5005)" = 2'
test_expect_success 'a held job in PRIORITY can be cancelled' '
	reload_plugin && ids=$(submit_five_jobs 5002) && set -- $ids && wait_for depend $5 && set -f && mf push $site && set +f && wait_running $1 $2 &&
	wait_settled && is_state PRIORITY $3 && cancel $3 && wait_ended $3 && cancel $1 && wait_running $4 && wait_settled && is_state PRIORITY $5 &&
	mf counts 5002 A active=3 held=1 && cancel_all
'
test_expect_success 'a job that moves into a full queue without validation is held in SCHED' '
	set -f && mf push $records queue batch queue debug max_sched_jobs=1 project "*" && set +f && stop_queues &&
	a=$(mf submit 5004 -q debug) && b=$(mf submit 5004 -q batch) && wait_scheduled $a $b &&
	check_refused "EINVAL: updating to queue debug while it is already at max-sched-jobs-queue-limit limit is not allowed; try again later" \
		mf update $b queue=debug &&
	post_event $b jobspec-update "{\"attributes.system.queue\": \"debug\"}" && wait_settled && held_in_sched $b && is_state SCHED $a &&
	mf counts 5004 A sched=1 held=1
'
test_expect_success 'a job that is held in SCHED runs when the queue has headroom' 'cancel $a && wait_ended $a && wait_settled && is_state SCHED $b && test_must_fail held_in_sched $b && start_queues && wait_running $b'
test_expect_success 'an instance with an invalid table does not start, and the log says why' '
	cancel_all && cp conf.json good.json && flux dmesg >>dmesg.log && stop_instance &&
	jq ".fairshare = {queues: {pdebug: {\"running-limits\": \"strict\"}}}" good.json >conf.json && : >broker.log &&
	test_must_fail start_instance && { wait $broker_pid; rc=$?; exec 8>&-; broker_pid= && test $rc != 0; } &&
	grep "queues.pdebug: no such queue; known are batch, debug" broker.log &&
	cp good.json conf.json && start_instance && mf alive
'

finish
