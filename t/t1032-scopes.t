#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='limits over scopes: 16 GPUs for a user, 96 for a bank and 4 for a small bank, over several queues'
# Rules: L7, L19, L20, L23, R12

. "$(dirname "$0")/lib.sh"
in_sequence

# submit_gpu_job UID BANK QUEUE GPUS [OPTION..]: submits a job with one core and GPUS GPUs.
submit_gpu_job() {
	local uid=$1 bank=$2 queue=$3 gpus=$4
	shift 4
	mf submit "$uid" -B "$bank" -q "$queue" "$@" --resources \
		"[{\"type\":\"slot\",\"count\":1,\"label\":\"task\",\"with\":[{\"type\":\"core\",\"count\":1},{\"type\":\"gpu\",\"count\":$gpus}]}]"
}

# push_site LIMITS: pushes a policy with these limits, with the banks large and small below science, and science below root.
users='5001 5002 5003 5004 5005 5006 5007 5009 5010'
push_site() {
	local records= uid
	for uid in $users; do records="$records assoc $uid large fairshare=0.$uid queues=batch,debug"; done
	mf doc $records assoc 5001 small queues=batch,debug assoc 5008 small fairshare=0.9 queues=batch,debug \
		queue batch queue debug project "*" bank root 0 bank science 0 bank large 0 bank small 0 factor fairshare 100000 |
		jq --argjson limits "$1" '.limits = $limits | .banks |= map(. + {shares: 1, active: 1, parent:
			({large: "science", small: "science", science: "root"}[.bank] // "")})' >site.json
	mf rpc policy_update "$(cat site.json)"
}
published='[
	{"scope": "user", "name": "*", "run-sched-gpus": 16},
	{"scope": "bank", "name": "*", "run-sched-gpus": 96},
	{"scope": "bank", "name": "small", "run-sched-gpus": 4}]'

# print_used SCOPE NAME: prints the counter of a limit in the query.
print_used() {
	mf query | jq ".limits[] | select(.scope == \"$1\" and .name == \"$2\") | .used"
}

test_expect_success 'a site has 256 GPUs and three limits over scopes' '
	write_conf "$(with_queues batch debug) | .\"fake-resources\" = {nnodes: 4, \"cores-per-node\": 64, \"gpus-per-node\": 64}" &&
	start_instance && load_plugin && push_site "$published" && mf query | jq -e ".limits | length == 3"
'
test_expect_success 'a job that asks for more GPUs than the user limit is refused' '
	check_refused "job size (17 gpu(s)) is greater than the limit of user 5001 on running and scheduled jobs (16 gpu(s))" \
		submit_gpu_job 5001 large batch 17
'
test_expect_success 'a job that asks for more GPUs than the limit of the small bank is refused' '
	check_refused "job size (5 gpu(s)) is greater than the limit of bank small on running and scheduled jobs (4 gpu(s))" \
		submit_gpu_job 5008 small batch 5
'
test_expect_success 'the user limit counts 16 GPUs over all queues and banks' '
	a=$(submit_gpu_job 5001 large batch 8) && b=$(submit_gpu_job 5001 large debug 6) && c=$(submit_gpu_job 5001 small batch 2) && wait_running $a $b $c &&
	d=$(submit_gpu_job 5001 small debug 1) && wait_held_by $d max-run-sched-gpus-user && deps_are $d max-run-sched-gpus-user
'
test_expect_success 'a job without GPUs does not count under a GPU limit' '
	e=$(mf submit 5001 -B large -q batch) && wait_running $e
'
test_expect_success 'the bank limit counts 4 GPUs over all users and queues' '
	f=$(submit_gpu_job 5008 small debug 3) && wait_held_by $f max-run-sched-gpus-bank && g=$(submit_gpu_job 5008 small batch 2) && wait_running $g &&
	test "$(print_used bank small)" = 4
'
test_expect_success 'six users fill the large bank, and the seventh job is held' '
	big= && for uid in 5002 5003 5004 5005 5006; do big="$big $(submit_gpu_job $uid large batch 16)"; done && wait_running $big &&
	h=$(submit_gpu_job 5007 large debug 16) && wait_held_by $h max-run-sched-gpus-bank &&
	i=$(submit_gpu_job 5007 large batch 2) && wait_running $i
'
test_expect_success 'the held job with the highest priority gets freed headroom, not the oldest job' '
	j=$(submit_gpu_job 5009 large batch 5) && k=$(submit_gpu_job 5010 large debug 5) && wait_held_by $j max-run-sched-gpus-bank &&
	wait_held_by $k max-run-sched-gpus-bank && cancel $i && wait_ended $i && wait_settled && is_state DEPEND $h $j $k &&
	cancel $b && wait_ended $b && wait_running $k && wait_settled && is_state DEPEND $h $j && test "$(print_used user "*")" = null
'
test_expect_success 'a limit below the number of running jobs cancels no job and releases no further job' '
	push_site "$(echo "$published" | jq "map(if .name == \"*\" and .scope == \"bank\" then .\"run-sched-gpus\" = 60 else . end)")" &&
	wait_settled && is_state RUN $a $c $g $k $big &&
	l=$(submit_gpu_job 5009 large batch 1) && wait_held_by $l max-run-sched-gpus-bank &&
	set -- $big && cancel $1 && wait_ended $1 && wait_settled && is_state DEPEND $h $j $l
'
test_expect_success 'a raised limit releases the held jobs that fit' '
	push_site "$published" && wait_running $j $l && wait_settled && is_state DEPEND $h
'
test_expect_success 'a limit on a parent bank counts the jobs of all banks below it' '
	push_site "[{\"scope\": \"bank\", \"name\": \"science\", \"run-sched-gpus\": 5}]" && wait_settled && is_state DEPEND $d $f $h &&
	test "$(print_used bank science)" -gt 80 && m=$(submit_gpu_job 5008 small debug 1) && wait_held_by $m max-run-sched-gpus-bank
'
test_expect_success 'all held jobs are released when the limits are removed' '
	push_site "[]" && wait_running $d $f $h $m && mf query | jq -e ".limits == []"
'
test_expect_success 'a site has running, pending and held jobs under limits over scopes' '
	cancel_all && push_site "$published" && r=$(submit_gpu_job 5001 small batch 2) && wait_running $r && stop_queues &&
	s=$(submit_gpu_job 5001 large batch 4) && wait_scheduled $s && h=$(submit_gpu_job 5008 small debug 3) && wait_held_by $h max-run-sched-gpus-bank &&
	test "$(print_used bank small)" = 2
'
test_expect_success 'a reload with the same data keeps states and counters' '
	jq "{associations, queues, projects, banks, priority_factors, limits}" site.json >load.json && reload_plugin load.json && wait_settled &&
	is_state RUN $r && is_state SCHED $s && is_state DEPEND $h && deps_are $h max-run-sched-gpus-bank &&
	test "$(print_used bank small)" = 2 && t=$(submit_gpu_job 5001 large debug 11) && wait_held_by $t max-run-sched-gpus-user
'
test_expect_success 'a restart restores limits and counters from the snapshot' '
	push_site "$published" && flux jobtap list >/dev/null && write_conf "$(with_queues batch debug) | $(with_plugin) |
		.\"fake-resources\" = {nnodes: 4, \"cores-per-node\": 64, \"gpus-per-node\": 64}" &&
	wait_settled && restart_instance && tries=0 &&
	until mf query | jq -e ".limits | length == 3"; do tries=$((tries + 1)); test $tries -lt 50 || return 1; sleep 0.2; done &&
	wait_settled && is_state RUN $r && is_state DEPEND $h $t && test "$(print_used bank small)" = 2
'
test_expect_success 'held jobs are released by the same rule after the restart' '
	start_queues && wait_running $s && cancel $r && wait_ended $r && wait_running $h && cancel $s && wait_ended $s && wait_running $t &&
	test "$(print_used bank small)" = 3
'
test_expect_success 'a limit of the configuration holds the second job of a user in RUN and SCHED' '
	cancel_all && push_site "[]" && jq ".fairshare.limits = [{scope: \"user\", name: \"*\", \"run-sched-jobs\": 1}]" conf.json >more.json &&
	cp more.json conf.json && flux config load <conf.json &&
	u=$(submit_gpu_job 5001 large batch 0) ; u=$(mf submit 5001 -B large -q batch) && wait_running $u &&
	v=$(mf submit 5001 -B small -q debug) && wait_held_by $v max-run-sched-jobs-user && cancel $u && wait_ended $u && wait_running $v
'
test_expect_success 'a configuration with an invalid limit is refused as a whole' '
	jq ".fairshare.limits = [{scope: \"bank\", name: \"small\", gpus: 1}]" conf.json >bad.json &&
	test_must_fail flux config load <bad.json 2>err && cat err && grep "fairshare.limits\[0\].gpus: unknown key" err &&
	mf query | jq -e ".limits | length == 1" && cancel_all
'

finish
