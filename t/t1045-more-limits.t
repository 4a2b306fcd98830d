#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='limits on queues, active jobs, single jobs and node-hours, in real Flux with several users'
# Rules: L26, L27, L28, L29, L31, L32

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# push_site LIMITS: pushes a policy with these limits. Users 5001 to 5003 are in bank A, and 5001 also in bank B; both banks are below root.
push_site() {
	mf doc assoc 5001 A queues=batch,debug assoc 5002 A queues=batch,debug assoc 5003 A fairshare=0.9 queues=batch,debug \
		assoc 5001 B queues=batch,debug queue batch max_nodes_per_job=3 max_time_per_job=60 queue debug project "*" \
		bank root 0 bank A 0 bank B 0 factor fairshare 100000 |
		jq --argjson limits "$1" '.limits = $limits | .banks |= map(. + {shares: 1, active: 1, parent: ({A: "root", B: "root"}[.bank] // "")})' >site.json
	mf rpc policy_update "$(cat site.json)"
}
why() { flux fairshare why --json "$1"; }
used_of() { mf query | jq ".limits[] | select(.measure == \"$1\") | .used"; }

test_expect_success 'a site has limits on a user in a queue and on all jobs of a queue' '
	write_conf "$(with_queues batch debug)" && start_instance && load_plugin &&
	push_site "[{\"scope\": \"user\", \"name\": \"*\", \"queue\": \"debug\", \"run-sched-jobs\": 1},
		{\"scope\": \"queue\", \"name\": \"*\", \"run-sched-jobs\": 3}]" && mf query | jq -e ".limits | length == 2"
'
test_expect_success 'a user limit with a queue counts the jobs of all banks in that queue' '
	a=$(mf submit 5001 -B A -q debug) && wait_running $a && b=$(mf submit 5001 -B B -q debug) &&
	wait_held_by $b max-run-sched-jobs-user-queue && c=$(mf submit 5001 -B B -q batch) && wait_running $c
'
test_expect_success 'a queue limit counts the jobs of all users' '
	d=$(mf submit 5002 -B A -q batch) && e=$(mf submit 5003 -B A -q batch) && wait_running $d $e &&
	f=$(mf submit 5002 -B A -q batch) && wait_held_by $f max-run-sched-jobs-in-queue && why $f >why.json && cat why.json &&
	jq -e ".jobs[0].holds[0] | .scope == \"queue\" and .name == \"batch\" and .used == 3" why.json &&
	flux fairshare why $f | grep "queue batch"
'
test_expect_success 'a reload keeps the held jobs' '
	jq "{associations, queues, projects, banks, priority_factors, limits}" site.json >load.json && reload_plugin load.json && wait_settled &&
	is_state RUN $a $c $d $e && deps_are $b max-run-sched-jobs-user-queue && deps_are $f max-run-sched-jobs-in-queue
'
test_expect_success 'the held jobs are released when their limits have headroom' '
	cancel $a && wait_ended $a && wait_running $b && is_state DEPEND $f && cancel $c && wait_ended $c && wait_running $f && cancel_all
'
test_expect_success 'limits on active jobs reject the next job of a bank, and name what to wait for' '
	push_site "[{\"scope\": \"bank\", \"name\": \"A\", \"active-jobs\": 2}, {\"scope\": \"queue\", \"name\": \"debug\", \"active-jobs\": 3}]" &&
	a=$(mf submit 5001 -B A -q batch) && b=$(mf submit 5002 -B A -q debug) && wait_running $a $b &&
	check_refused "bank A has max active jobs; 2 of 2: wait until one of them ends" mf submit 5003 -B A -q batch &&
	c=$(mf submit 5001 -B B -q debug) && d=$(mf submit 5001 -B B -q debug) &&
	check_refused "queue debug has max active jobs; 3 of 3: wait until one of them ends" mf submit 5001 -B B -q debug &&
	test "$(mf query | jq -c "[.limits[].used]")" = "[2,3]"
'
test_expect_success 'standing shows the limits on active jobs' '
	flux fairshare standing 5001 --json >standing.json && cat standing.json &&
	jq -e "[.. | objects | select(.limit? == \"max-active-jobs-bank\")] | length > 0" standing.json
'
test_expect_success 'a reload counts active jobs again' '
	jq "{associations, queues, projects, banks, priority_factors, limits}" site.json >load.json && reload_plugin load.json && wait_settled &&
	test "$(mf query | jq -c "[.limits[].used]")" = "[2,3]" &&
	check_refused "bank A has max active jobs; 2 of 2: wait until one of them ends" mf submit 5003 -B A -q batch &&
	cancel $a && wait_ended $a && e=$(mf submit 5003 -B A -q batch) && wait_running $e && cancel_all
'
test_expect_success 'caps on one job reject larger jobs, longer jobs and jobs without a time limit' '
	push_site "[{\"scope\": \"bank\", \"name\": \"A\", \"job-time\": 600, \"job-nodes\": 2},
		{\"scope\": \"user\", \"name\": \"*\", \"queue\": \"debug\", \"job-node-hours\": 1}]" &&
	check_refused "job size (3 node(s)) is greater than the limit of bank A on one job (2 node(s))" mf submit 5001 -B A -q batch -N 3 -t 60 &&
	check_refused "job time limit (601 s) is greater than the limit of bank A on one job (600 s)" mf submit 5002 -B A -q batch -N 1 -t 601 &&
	check_refused "job has no time limit; the limit of bank A on one job is 600 s: set a time limit with -t" mf submit 5003 -B A -q batch -t 0 &&
	check_refused "job size (1.5 node-hours) is greater than the limit of user 5001 in queue debug on one job (1 node-hours)" \
		mf submit 5001 -B B -q debug -N 3 -t 1800 &&
	a=$(mf submit 5001 -B A -q batch -N 2 -t 600) && wait_running $a && cancel_all
'
test_expect_success 'the shape of a queue is enforced only with enforce-queue-shapes' '
	push_site "[]" && a=$(mf submit 5001 -B A -q batch -N 4 -t 7200) && wait_running $a && cancel_all &&
	jq ".fairshare.\"enforce-queue-shapes\" = true" conf.json >more.json && cp more.json conf.json && flux config load <conf.json &&
	check_refused "requested nnodes (4) exceeds policy limit of 3 for queue batch" mf submit 5001 -B A -q batch -N 4 -t 60 &&
	check_refused "requested duration (2h) exceeds policy limit of 1h for queue batch" mf submit 5002 -B A -q batch -t 7200 &&
	check_refused "requested duration (unlimited) exceeds policy limit of 1h for queue batch" mf submit 5002 -B A -q batch -t 0 &&
	a=$(mf submit 5001 -B A -q batch -N 3 -t 3600) && b=$(mf submit 5001 -B A -q debug -N 1) && wait_running $a $b && cancel_all
'
test_expect_success 'a limit on node-hours of running jobs holds a job and explains the hold' '
	jq ".fairshare.refresh = \"1s\" | .fairshare.\"enforce-queue-shapes\" = false" conf.json >more.json && cp more.json conf.json && flux config load <conf.json &&
	push_site "[{\"scope\": \"bank\", \"name\": \"A\", \"run-node-hours\": 4}]" &&
	check_refused "job has no time limit; the limit of bank A on running jobs is 4 node-hours: set a time limit with -t" mf submit 5001 -B A -q batch -t 0 &&
	a=$(mf submit 5001 -B A -q batch -N 2 -t 3600) && wait_running $a && b=$(mf submit 5002 -B A -q debug -N 1 -t 7206) &&
	wait_held_by $b max-run-node-hours-bank && why $b >why.json && cat why.json &&
	jq -e ".jobs[0].holds[0] | .limit_is == 4 and .needed == 3 and .used == 2" why.json && flux fairshare why $b >why.txt && cat why.txt &&
	grep "of 4 running node-hours of bank A" why.txt
'
test_expect_success 'a reload keeps the job held until the running job has less time left' '
	jq "{associations, queues, projects, banks, priority_factors, limits}" site.json >load.json && reload_plugin load.json && wait_settled &&
	wait_running $b && test "$(used_of run-node-hours)" = 4 && is_state RUN $a
'
test_expect_success 'the end of a job returns its node-hours' '
	c=$(mf submit 5003 -B A -q batch -N 1 -t 7200) && wait_held_by $c max-run-node-hours-bank && cancel $a && wait_ended $a && cancel $b &&
	wait_ended $b && wait_running $c && cancel_all
'

finish
