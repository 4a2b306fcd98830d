#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare jobs, why, standing, top and metrics, for guests and for the instance owner'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# check_refusal CODE UID COMMAND...: checks for this exit status and an empty output; the message is in ./err.
check_refusal() {
	local code=$1
	shift
	test_expect_code "$code" run_as "$@" >out 2>err && test_must_be_empty out
}
# check_json FILE FILTER: checks that the filter is true for the file.
check_json() { jq -e "$2" "$1" >/dev/null || { echo "not so: $2"; jq . "$1"; return 1; }; }
# print_priority ID: prints the last priority in the eventlog of the job.
print_priority() { mf prio "$1"; }
# push_tree USAGE_OF_5002 [USAGE_OF_5003 SHARES_OF_A SHARES_OF_B]: pushes a tree with users 5001 and 5002 in A and 5003 in B.
push_tree() {
	mf doc assoc 5001 A username=ann shares=1 usage=0 counted_until=0 max_running_jobs=1 queues=q \
		assoc 5002 A username=bob shares=1 usage="$1" counted_until=0 queues=q assoc 5003 B username=cyd shares=1 usage="${2:-0}" counted_until=0 queues=q \
		bank root 0 parent= shares=1 active=1 bank A 0 parent=root shares="${3:-1}" active=1 bank B 2 parent=root shares="${4:-3}" active=1 \
		queue q priority=2 project "*" factor bank 1000 config zero_score=hold >doc.json &&
	jq -c --argjson at "$(date +%s.%N)" '. + {tree: {policy: "fair-tree", at: $at, half_life: 600, node_weight: 1, core_weight: 0,
		gpu_weight: 0}}' doc.json >policy.json &&
	mf rpc policy_update "$(cat policy.json)"
}

test_expect_success 'each command says without a plugin how to load one' '
	write_conf "$(with_queues q q0 q1 q2 q3 q4)" && start_instance &&
	for command in jobs standing "why ƒABC" metrics; do
		check_refusal 2 own $command && cat err &&
		grep "no fair-share plugin is loaded in this instance; its owner can load it with \"flux jobtap load mf_priority.so\"" err &&
		check_refusal 2 5001 $command && cat err && grep "no fair-share plugin is loaded in this instance; ask an administrator of this site$" err || return 1
	done
'
upstream=$(pkg-config --variable=fluxlibdir flux-core)/job-manager/plugins/mf_priority.so
test -e "$upstream" && test_set_prereq UPSTREAM
test_expect_success UPSTREAM 'each command says under the plugin of flux-accounting how to replace it' '
	flux jobtap load "$upstream" &&
	check_refusal 2 own jobs && cat err && grep "does not answer \"jobs\": it is the plugin of flux-accounting, or an older version" err &&
	grep "flux jobtap load -r mf_priority.so mf_priority.so" err &&
	check_refusal 2 5001 jobs && cat err && grep "or an older version; ask an administrator of this site$" err &&
	flux jobtap remove mf_priority.so
'
test_expect_success 'an instance has running, held and pending jobs under a tree' '
	load_plugin && push_tree 5000 && run=$(mf submit 5001 -q q -t 3600) && wait_running $run &&
	one=$(mf submit 5001 -q q -t 3600) && wait_held_by $one max-running-jobs-user-limit &&
	stop_queues && two=$(mf submit 5002 -q q) && three=$(mf submit 5003 -q q) && four=$(mf submit 5002 -q q -u 20) &&
	wait_scheduled $two $three $four
'
test_expect_success 'jobs prints the terms of each priority, exact to the unit' '
	run_as own jobs -A --json >out && check_json out "(.jobs | length) == 4" &&
	check_json out "(.now_time | fromdateiso8601) == (.now | floor) and
		([.jobs[] | (.submitted_time | fromdateiso8601) == (.submitted | floor)] | all)" &&
	check_json out "[.jobs[] | select(.id == \"$(flux job id --to=f58 $two)\") | .id_decimal] == [\"$(flux job id --to=dec $two)\"]" &&
	for id in $two $three $four; do
		check_json out ".jobs[] | select(.id == \"$(flux job id --to=f58 $id)\") | .priority == $(print_priority $id) and (.sum | round) == .priority and
			(.fairshare + .queue_term + .bank_term + .urgency_term + .age + .age_offset + .size - .sum | fabs) < 1e-6" || return 1
	done &&
	check_json out ".jobs[] | select(.userid == 5003) | .bank_term == 2000 and .queue_term == 20000"
'
test_expect_success 'guests see their own jobs, by any form of the job id' '
	run_as 5002 jobs --csv -o id,user,priority >out && cat out && test $(wc -l <out) = 3 && ! grep ",5003," out &&
	run_as own jobs -A --csv -o id,user,priority | grep ",5003," &&
	run_as 5002 jobs -A --csv -o id >out && test $(wc -l <out) = 3 &&
	for form in f58 dec hex dothex kvs words; do
		run_as 5002 jobs -j $(flux job id --to=$form $two) --csv -o id >out && grep -x "$(flux job id --to=f58 $two)" out || return 1
	done &&
	test_expect_code 1 run_as 5002 jobs -j $three 2>err && grep "$(flux job id --to=f58 $three) belongs to 5003, and you see only your own jobs" err &&
	check_refusal 1 5002 jobs -u 5001 && grep "only the instance owner and admins may" err &&
	run_as own jobs -u 5001,5003 --csv -o userid >out && printf "userid\n5003\n5001\n" >expected && test_cmp expected out
'
test_expect_success 'jobs -j of an ended or a running job names its state and the command that explains it' '
	ended=$(mf submit 5002 -q q) && flux cancel $ended && wait_ended $ended && name=$(flux job id --to=f58 $ended) &&
	test_expect_code 1 run_as 5002 jobs -j $ended >out 2>err; cat out err && test ! -s out &&
	grep "^flux-fairshare: $name has ended; \"flux fairshare why $name\" explains how long it waited$" err &&
	test_expect_code 1 run_as 5001 jobs -j $run 2>err && grep "has started; \"flux fairshare why" err &&
	test_expect_code 1 run_as 5002 jobs -j $two,f2345,f2345 >out 2>err; cat out err && grep "[fƒ]2345 is not listed by Flux" err && test $(wc -l <err) = 1
'
test_expect_success 'the owner sees all jobs without -A, and a guest without jobs gets a clear message' '
	run_as own jobs --csv -o id | sort >out && run_as own jobs -A --csv -o id | sort >expected && test_cmp expected out &&
	test $(wc -l <out) = 5 && run_as own jobs -u 5009 >out && grep "^No pending jobs of 5009\.$" out &&
	run_as 5009 jobs >out && grep "^No pending jobs of yours\.$" out
'
test_expect_success 'a shell completes the own names of a guest, and for the owner the users of the tree' '
	printf "5002\nbob\n" >expected && run_as 5002 complete users >out && test_cmp expected out &&
	{ flux job id --to=f58 $two $four; cat out; } | sort >expected && run_as 5002 complete subjects | sort >out && test_cmp expected out &&
	run_as 5002 complete banks >out && cat out && grep -x A out &&
	printf "ann\nbob\ncyd\n" >expected && run_as own complete subjects >out && test_cmp expected out &&
	printf "A\nB\nroot\n" >expected && run_as own complete banks >out && test_cmp expected out
'
test_expect_success 'a table names the columns that did not fit, and warns that the shown terms do not sum' '
	COLUMNS=60 run_as own jobs -l >out && cat out && tr "\n" " " <out >joined && grep "Left out for lack of width: .*Age" joined &&
	grep "the terms that are shown do not sum to the priority\. COLUMNS=[0-9]* shows all" joined &&
	wide=$(sed -n "s/.*COLUMNS=\([0-9]*\) shows all.*/\1/p" joined) && COLUMNS=$wide run_as own jobs -l >out && ! grep "Left out" out &&
	COLUMNS=60 run_as own jobs -o id,user >out && ! grep "Left out" out
'
test_expect_success 'jobs selects, sorts and formats, and prints weights' '
	run_as own jobs -A -q q -b B --csv -o userid >out && printf "userid\n5003\n" >expected && test_cmp expected out &&
	check_refusal 1 own jobs -A -q r --csv -o userid && grep "no queue \"r\" in this instance" err &&
	check_refusal 1 own jobs -A -q q,r && grep "no queue \"r\" in this instance" err && check_refusal 1 own jobs -A -b A,nosuch && grep "no bank \"nosuch\"" err &&
	run_as own jobs -A -b A --csv -o userid,holds -S userid,holds >out &&
	printf "userid,holds\n5001,max-running-jobs-user-limit\n5002,\n5002,\n" >expected && test_cmp expected out &&
	run_as own jobs -w --json -A >out && check_json out ".weights[0] | .fairshare == 100000 and .bank_term == 1000" &&
	run_as own jobs -A --normalized --csv -o %u,%f -S -f --no-header >out && head -1 out | grep "1$" &&
	test_expect_code 2 run_as own jobs -o prio 2>err && grep "unknown column \"prio\"" err
'
test_expect_success 'why names the limit that holds a job, and the time of its release' '
	run_as 5001 why $one --color=never >out && cat out && head -1 out | grep "is held by max-running-jobs-user-limit" &&
	grep "$(flux job id --to=f58 $run)  *run" out && grep "It is released at the latest" out && grep "What would help:" out &&
	run_as own why $one >out2 && test "$(head -1 out)" = "$(head -1 out2)" &&
	run_as own why $(flux job id --to=dec $one) --json >out && check_json out ".jobs[0].holds[0].limit == \"max-running-jobs-user-limit\"" &&
	check_json out ".jobs[0] | .id_f58 == \"$(flux job id --to=f58 $one)\" and .id_decimal == \"$(flux job id --to=dec $one)\" and
		(.submitted_time | fromdateiso8601) == (.submitted | floor) and .holds[0].frees[0].id_f58 == \"$(flux job id --to=f58 $run)\" and
		(.holds[0].frees[0] | (.by_time | fromdateiso8601) == (.by | floor)) and
		(.if_started == null) != has(\"if_started_time\")"
'
test_expect_success 'why refuses the job of another user and a job that does not exist' '
	check_refusal 1 5002 why $one && name=$(flux job id --to=f58 $one) &&
	grep "^flux-fairshare: job $name is not yours: only its owner, the instance owner and admins may ask; \"flux fairshare why YOURS $name\"" err &&
	check_refusal 1 own why ƒ9999999 && grep "no active job has this id" err &&
	check_refusal 2 own why ƒ0OIl && grep "is not a job id" err &&
	check_refusal 2 own why $one bob && grep "is not a job id: name two jobs, or two users" err
'
test_expect_success 'why names the level of the tree that decides between two jobs' '
	run_as own why $three $two --color=never >out && cat out && grep "^Fair-share decides: if the two jobs exchanged this value" out &&
	grep "The siblings right below bank root decide" out && grep "bank B comes before bank A" out &&
	run_as own why $two $three --json >out && check_json out ".verdict | .cause == \"terms\" and .terms == [\"fairshare\"]
		and .ahead == $(flux job id $three) and .level.below == \"root\" and .level.nodes == [\"A\", \"B\"]" &&
	run_as 5002 why $two $four --json >out && check_json out ".verdict | .terms == [\"urgency\"] and .ahead == $(flux job id $four)" &&
	run_as own why $two $one >out && cat out && grep "cannot run now: max-running-jobs-user-limit" out
'
test_expect_success 'the order of the jobs is reversed if the values of these two banks are exchanged' '
	test $(print_priority $three) -gt $(print_priority $two) && push_tree 0 5000 3 1 && test $(print_priority $three) -lt $(print_priority $two) &&
	run_as own why $two $three --json >out && check_json out ".verdict | .terms == [\"fairshare\"] and .ahead == $(flux job id $two)
		and .level.nodes == [\"A\", \"B\"]" &&
	push_tree 5000 && test $(print_priority $three) -gt $(print_priority $two)
'
test_expect_success 'why, jobs and standing show a job that urgency 0 holds' '
	still=$(mf submit 5002 -q q -u 0) && wait_for priority $still priority=0 && run_as 5002 why $still >out && cat out &&
	head -1 out | grep "is held with urgency 0$" && grep "Flux does not pass it to the scheduler at priority 0." out &&
	grep "flux job urgency .* 16 allows" out && run_as 5002 jobs -j $still >out && cat out && grep "urgency 0$" out &&
	grep "1 job is held with urgency 0" out && run_as 5002 standing >out && grep "^Jobs: .*, 1 more blocked (urgency 0" out && cancel $still && wait_ended $still
'
test_expect_success 'standing prints rank, limits as bars and the time until the usage is even' '
	run_as 5002 standing --color=never >out && cat out && head -1 out | grep "^5002 in bank A (the default bank)" &&
	grep "^3rd of 3 associations: 2 are ahead of you" out && grep -e "has used more than its share" -e "falls to its share" out &&
	run_as 5001 standing >out && grep "max-running-jobs-user-limit  *1  *1  *jobs" out && grep "\[==========\]" out &&
	run_as own standing 5001/A --json >out && check_json out ".associations | length == 1 and .[0].userid == 5001 and .[0].user == \"5001\"" &&
	check_json out "(.now_time | fromdateiso8601) == (.now | floor)" &&
	check_refusal 1 5002 standing 5001 && grep "only the instance owner and admins may" err &&
	check_refusal 1 own standing && grep "have no association" err &&
	test_expect_code 2 run_as own standing 5001/A -b B 2>err && grep "USER/BANK names A; name one bank" err &&
	run_as own standing -A --csv >out && test $(wc -l <out) = 4 && head -2 out | tail -1 | grep "^1,"
'
test_expect_success 'names with escape sequences are printed escaped' '
	mf push assoc 5004 "$(printf "ev\033[31mil")" queues=q queue q priority=2 && bad=$(mf submit 5004 -q q) && wait_scheduled $bad &&
	for command in "jobs -A" "why $bad" "standing 5004" "standing -A" "why $bad $two"; do
		run_as own $command --color=always >out && ! grep "$(printf "\033\[31mil")" out && grep -F "ev\\x1b[31mil" out || return 1
	done && COLUMNS=80 run_as own standing -A >out && ! awk "length > 80" out | grep .
'
test_expect_success 'output has colours on a terminal only' '
	run_as own why $two >out && ! grep "$(printf "\033")" out &&
	TERM=xterm script -qec "flux fairshare why $two" /dev/null >out && grep "$(printf "\033")" out &&
	NO_COLOR=1 TERM=xterm script -qec "flux fairshare why $two" /dev/null >out && ! grep "$(printf "\033")" out
'
test_expect_success 'metrics are for the owner, and go to standard output, a file or a loopback port' '
	run_as own metrics >metrics.txt && cat metrics.txt && tail -1 metrics.txt | grep "^# EOF$" &&
	grep "^flux_fairshare_held_jobs{limit=\"max-running-jobs-user-limit\"} 1$" metrics.txt && grep "^flux_fairshare_drift 0$" metrics.txt &&
	! grep -e "\"5001" -e "\"5002" metrics.txt && run_as own metrics --users | grep "flux_fairshare_association_fairshare{user=\"5001\",bank=\"A\"}" &&
	check_refusal 2 5001 metrics && grep "only the instance owner may read metrics" err &&
	echo precious >victim && ln -s victim link.prom && run_as own metrics --textfile link.prom && grep precious victim &&
	! test -h link.prom && tail -1 link.prom | grep "^# EOF$" &&
	test_expect_code 2 run_as own metrics --listen 0.0.0.0:0 2>err && grep "not a loopback address" err
'
test_expect_success 'metrics --textfile renews a file that could not be written for a while' '
	mkdir collected && { flux fairshare metrics --textfile collected/m.prom --every 1s >renewing 2>&1 8>&- 9>&- & renewing_pid=$!; } &&
	for i in $(seq 100); do test -e collected/m.prom && break; sleep 0.1; done && mv collected away &&
	for i in $(seq 100); do grep -q "collected/m.prom: " renewing && break; sleep 0.1; done && cat renewing && mkdir collected &&
	for i in $(seq 100); do test -e collected/m.prom && break; sleep 0.1; done && tail -1 collected/m.prom | grep "^# EOF$" &&
	kill -0 $renewing_pid; rc=$?; kill $renewing_pid; return $rc
'
test_expect_success 'metrics --listen survives a reload of the plugin and reports its absence' '
	flux fairshare metrics --listen 127.0.0.1:0 >served 2>&1 8>&- 9>&- & served_pid=$! &&
	for i in $(seq 100); do grep -q http served && break; sleep 0.1; done &&
	url=$(sed -n "s/.*\(http[^ ]*\).*/\1/p" served) && curl -sSfi $url >out && grep -i "^content-type: application/openmetrics-text" out &&
	grep "^flux_fairshare_up 1$" out && remove_plugin && curl -sSf $url >out && grep "^flux_fairshare_up 0$" out && load_plugin &&
	curl -sSf $url >out && grep "^flux_fairshare_up 1$" out; rc=$?; kill $served_pid; return $rc
'
test_expect_success 'metrics --listen-any serves on all addresses of the machine' '
	flux fairshare metrics --listen 0.0.0.0:0 --listen-any >served 2>&1 8>&- 9>&- & served_pid=$! &&
	for i in $(seq 100); do grep -q http served && break; sleep 0.1; done &&
	port=$(sed -n "s|.*http://0.0.0.0:\([0-9]*\)/.*|\1|p" served) && curl -sSf "http://127.0.0.2:$port/metrics" >out &&
	grep "^flux_fairshare_up 1$" out; rc=$?; kill $served_pid; return $rc
'
test_expect_success 'a parser of OpenMetrics accepts the metrics, and dashboard and alerts use existing metrics' '
	push_tree 5000 && jq -c ".budgets = [{scope: \"user\", name: \"5009\", unit: \"node-hours\", start: 0, end: 100000000000, deposited: 1, spent: 0, rate: 0}]" \
		policy.json >budget.json && mf rpc policy_update "$(cat budget.json)" && run_as own metrics >budgets.txt &&
	{ grep -v "^# EOF$" metrics.txt && grep "flux_fairshare_budget_" budgets.txt && echo "# EOF"; } >all.txt && cat all.txt &&
	python3 "$T_DIR/scripts/openmetrics.py" all.txt "$T_DIR/../etc"
'
python3 "$T_DIR/scripts/top.py" && test_set_prereq PYTE
test_expect_success PYTE 'top prints its screen on a real terminal' '
	push_tree 5000 && mf push assoc 5004 "$(printf "ev\033[31mil")" queues=q queue q priority=2 && python3 "$T_DIR/scripts/top.py" "$T_DIR/golden/screens/top-real.txt"
'
test_expect_success 'the terms that why names reverse the order if they are exchanged' '
	cancel_all; remove_plugin && flux kvs unlink -Rf mf_priority && load_plugin && stop_queues && flux python "$T_DIR/scripts/why-pairs.py" "${WHY_PAIRS:-60}"
'
test_expect_success 'all jobs end' 'cancel_all'
finish
