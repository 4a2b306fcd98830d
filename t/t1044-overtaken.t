#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='limits over scopes: anti-starvation reservations of overtaken jobs, and reservations in stopped queues'
# Rules: R7, R13, R14, R15

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
push_site() {
	local records= uid
	for uid in 5001 5002 5003 5004 5005; do
		records="$records assoc $uid large fairshare=0.5 queues=batch,debug assoc $uid small queues=batch,debug"
	done
	mf doc $records queue batch queue debug project "*" bank root 0 bank science 0 bank large 0 bank small 0 factor fairshare 100000 |
		jq --argjson limits "$1" '.limits = $limits | .banks |= map(. + {shares: 1, active: 1, parent:
			({large: "science", small: "science", science: "root"}[.bank] // "")})' >site.json
	mf rpc policy_update "$(cat site.json)"
}
published='[
	{"scope": "user", "name": "*", "run-sched-gpus": 16},
	{"scope": "bank", "name": "*", "run-sched-gpus": 96},
	{"scope": "bank", "name": "small", "run-sched-gpus": 4}]'

# check_holds JOB JQ: checks with a JQ filter the limits that hold the job in the answer of explain.
check_holds() {
	mf rpc explain "{\"jobs\":[$(flux job id "$1")]}" | sed "s/^ok //" >why.json && jq -e ".jobs[0].holds | $2" why.json
}

test_expect_success 'a site has 256 GPUs and three limits over scopes' '
	write_conf "$(with_queues batch debug) | .\"fake-resources\" = {nnodes: 4, \"cores-per-node\": 64, \"gpus-per-node\": 64}" &&
	start_instance && load_plugin && push_site "$published"
'
# wait_until_overtaken JOB OTHER: waits until the anti-starvation reservation for JOB holds the job OTHER.
wait_until_overtaken() {
	wait_until check_holds "$2" "any(.kept_for == $(flux job id "$1"))" >/dev/null || { cat why.json; return 1; }
}
print_last() { shift $(($# - 1)); echo "$1"; }

test_expect_success 'a job that the limit of its user holds is overtaken a hundred times' '
	big=$(submit_gpu_job 5001 large batch 14) && wait_running $big && wide=$(submit_gpu_job 5001 small batch 4) && wait_held_by $wide max-run-sched-gpus-user &&
	many=$(submit_gpu_job 5001 large batch 1 -j 115 --run 0.01s) && wait_until_overtaken $wide $(print_last $many) && is_state DEPEND $wide
'
test_expect_success 'an overtaken job leaves headroom of its idle bank to other users' '
	others= && for uid in 5002 5003 5004 5005; do others="$others $(submit_gpu_job $uid small batch 1)"; done && wait_running $others
'
test_expect_success 'an overtaken job keeps headroom of its user, and explain names the job' '
	own=$(submit_gpu_job 5001 large debug 1) && wait_held_by $own max-run-sched-gpus-user &&
	check_holds $own ".[0] | .used == 14 and .limit_is == 16 and .kept_for == $(flux job id $wide) and (.frees | length) == 1" &&
	check_holds $own ".[0].frees[0].id == $(flux job id $big)" &&
	check_holds $own ".[0].text | test(\"the remaining 2 are kept for job .*, which 100 jobs have overtaken\")"
'
test_expect_success 'an overtaken job keeps headroom of its bank when its user has headroom' '
	cancel $big && wait_ended $big && wait_running $own && is_state DEPEND $wide && set -- $others && cancel $1 && wait_ended $1 &&
	late=$(submit_gpu_job 5002 small debug 1) && wait_held_by $late max-run-sched-gpus-bank && wait_until_overtaken $wide $late
'
test_expect_success 'a reservation ends at urgency 0, and another job is released at once' '
	mf rpc job-manager.urgency "{\"id\":$(flux job id $wide),\"urgency\":0}" && wait_running $late && is_state DEPEND $wide
'
test_expect_success 'a full small bank holds no job outside the bank' '
	cancel_all && push_site "[{\"scope\": \"bank\", \"name\": \"root\", \"run-jobs\": 40}, {\"scope\": \"bank\", \"name\": \"small\", \"run-cores\": 4}]" &&
	one=$(mf submit 5001 -B small -q batch) && wait_running $one && wide=$(mf submit 5002 -B small -q batch -c 4) &&
	wait_held_by $wide max-run-cores-bank && for round in 1 2 3 4 5 6 7 8 9 10; do
		many=$(mf submit 5003 -B small -q batch -j 9 --run 0.01s) && wait_ended $many || return 1
	done && for round in $(seq 25); do late=$(mf submit 5003 -B small -q batch --run 0.01s) && wait_settled || return 1; done &&
	wait_until_overtaken $wide $late && outside=$(mf submit 5004 -B large -q batch -j 39) && wait_running $outside && is_state DEPEND $wide
'
test_expect_success 'an overtaken job is released ahead of later jobs of its bank' '
	cancel $one && wait_ended $one && wait_running $wide && is_state DEPEND $late && cancel_all
'
test_expect_success 'a released job without resources keeps its reservation, and explain shows reserved headroom apart' '
	push_site "[{\"scope\": \"bank\", \"name\": \"small\", \"run-cores\": 4}]" &&
	fill=$(mf submit 5001 -B large -q batch -N 4 -n 1 -c 63) && wait_running $fill &&
	a=$(mf submit 5001 -B small -q batch -N 4 -n 1 -c 1) && wait_running $a && b=$(mf submit 5002 -B small -q batch -c 4) &&
	wait_held_by $b max-run-cores-bank && cancel $a && wait_ended $a && wait_scheduled $b && wait_settled && is_state SCHED $b &&
	c=$(mf submit 5003 -B small -q debug) && wait_held_by $c max-run-cores-bank &&
	check_holds $c ".[0] | .used == 4 and .reserved == 4 and (.frees | map(.state)) == [\"sched\"]" &&
	check_holds $c ".[0].text == \"0 of 4 running cores of bank small and the banks below it are in use, 4 are reserved for released jobs; this job takes 1\""
'
test_expect_success 'a reservation ends when the queue of the job stops, and the next job is released' '
	flux queue stop --quiet batch && wait_running $c && is_state SCHED $b
'
test_expect_success 'a reservation returns when the queue starts' '
	cancel $c && wait_ended $c && flux queue start --quiet batch && sleep 1 && d=$(mf submit 5003 -B small -q debug) &&
	wait_held_by $d max-run-cores-bank
'
test_expect_success 'a plugin that is loaded while the queue is stopped makes no reservation' '
	jq "{associations, queues, projects, banks, priority_factors, limits}" site.json >load.json && flux queue stop --quiet batch &&
	reload_plugin load.json && wait_running $d && is_state SCHED $b
'
# Flux does not schedule a job in a named queue that was in SCHED at a restart (K40). So the plugin is removed before the queue stops, and the
# job is still held at the restart.
test_expect_success 'a plugin that is loaded by a restart while the queue is stopped makes no reservation' '
	cancel $d && wait_ended $d && flux queue start --quiet batch && sleep 1 && e=$(mf submit 5003 -B small -q debug) &&
	wait_held_by $e max-run-cores-bank && write_conf "$(with_queues batch debug) | $(with_plugin load.json) |
		.\"fake-resources\" = {nnodes: 4, \"cores-per-node\": 64, \"gpus-per-node\": 64}" &&
	remove_plugin && flux queue stop --quiet batch && is_state DEPEND $e && restart_instance && wait_running $e && is_state SCHED $b
'
test_expect_success 'a limit of an association ends its reservation when the queue stops, too' '
	cancel_all && flux queue start --quiet --all && push_site "[]" &&
	jq ".limits = [] | .associations |= map(if .userid == 5002 then .max_running_jobs = 1 else . end)" site.json >own.json &&
	mf rpc policy_update "$(cat own.json)" && fill=$(mf submit 5001 -B large -q batch -N 4 -n 1 -c 63) && wait_running $fill &&
	a=$(mf submit 5002 -B small -q batch) && wait_running $a && b=$(mf submit 5002 -B small -q batch -c 4) &&
	wait_held_by $b max-running-jobs-user-limit && cancel $a && wait_ended $a && wait_scheduled $b && wait_settled && is_state SCHED $b &&
	c=$(mf submit 5002 -B small -q debug) && wait_held_by $c max-running-jobs-user-limit && flux queue stop --quiet batch && wait_running $c &&
	flux queue start --quiet --all && cancel_all
'
# Flux keeps the jobs of the removed queue, and asks the scheduler for none of them (K41).
test_expect_success 'a reservation ends when the queue of the job is removed from the configuration' '
	fill=$(mf submit 5001 -B large -q debug -N 4 -n 1 -c 63) && wait_running $fill && a=$(mf submit 5002 -B small -q debug) && wait_running $a &&
	b=$(mf submit 5002 -B small -q batch) && c=$(mf submit 5002 -B small -q debug) && wait_held_by $c max-running-jobs-user-limit &&
	jq "del(.queues.batch)" conf.json >removed.json && cp conf.json kept.json && cp removed.json conf.json && flux config reload &&
	cancel $a && wait_ended $a && wait_scheduled $b && wait_running $c && is_state SCHED $b && mf check
'
test_expect_success 'explain names the removed queue as the reason' '
	mf rpc explain "{\"jobs\":[$(flux job id $b)]}" | sed "s/^ok //" >why.json && jq -e ".jobs[0].others | map(.cause) == [\"queue-stopped\"] and
		(.[0].text | test(\"^queue batch is not in Flux.s configuration: \"))" why.json
'
test_expect_success 'the reservation returns when the queue is configured and started again' '
	cancel $c && wait_ended $c && cp kept.json conf.json && flux config reload && flux queue start --quiet batch && wait_running $b &&
	d=$(mf submit 5002 -B small -q debug) && wait_held_by $d max-running-jobs-user-limit && cancel $b && wait_running $d && cancel_all
'

finish
