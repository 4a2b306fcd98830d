#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare check and what-if --submit predict the outcome of submissions'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# check_prediction KIND UID OPTION...: checks a job, submits it, and compares. KIND is rejected, held or free. The job is in $id.
check_prediction() {
	local kind=$1 uid=$2 code=0
	shift 2
	flux submit --dry-run --setattr=system.exec.test.run_duration=1h "$@" true >spec.json &&
	{ run_as "$uid" check --json "$@" >checked.json || code=$?; } &&
	{ run_as "$uid" check --json - <spec.json >from_spec.json; test $? = $code; } &&
	jq -S "del(.now, .now_time, .priority)" checked.json >checked.cmp && jq -S "del(.now, .now_time, .priority)" from_spec.json >from_spec.cmp &&
	test_cmp checked.cmp from_spec.cmp || { echo "the options and the jobspec differ: $*"; return 1; }
	id=$(mf submit "$uid" --spec spec.json 2>submit.err)
	case $kind in
	rejected)
		# Flux cuts a long text.
		test -z "$id" && test $code = 1 && grep -F -- "$(jq -r .rejection checked.json | cut -c1-100)" submit.err ;;
	held)
		test -n "$id" && test $code = 0 && wait_for dependency-add $id &&
		deps_are $id "$(jq -r "[.holds[].limit] | join(\",\")" checked.json)" ;;
	free)
		test -n "$id" && test $code = 0 && wait_scheduled $id && jq -e ".holds == []" checked.json &&
		prio_is $id "$(jq .priority.priority checked.json)" ;;
	esac || { echo "$kind, exit status $code, job $id:"; jq . checked.json; cat submit.err; return 1; }
}

push_site() {
	mf push assoc 5001 A max_running_jobs=1 queues=q,r fairshare=0.3 assoc 5001 B queues=q fairshare=0.6 max_active_jobs=2 \
		assoc 5002 A queues=q fairshare=0.8 max_nodes=2 queue q priority=2 queue r priority=5 project p project "*"
}

test_expect_success 'an instance has users in two banks, with limits' '
	write_conf "$(with_queues q r)" && start_instance && load_plugin && push_site
'
test_expect_success 'jobs of several users and banks have the predicted outcome' '
	check_prediction free 5001 -N1 -q q -t 1h && run=$id && wait_running $run &&
	check_prediction held 5001 -N1 -q q -t 1h &&
	check_prediction rejected 5001 -N1 -q q -B C &&
	check_prediction rejected 5001 -N1 -q r -B B &&
	check_prediction rejected 5009 -N1 -q q &&
	check_prediction rejected 5002 -N3 -q q &&
	check_prediction rejected 5002 -n2 -q q --setattr=system.project=secret &&
	check_prediction free 5002 -n2 -c2 -q q -t 30m
'
test_expect_success 'the predicted place is that of the submitted job' '
	stop_queues &&
	check_prediction free 5001 -N4 -q q -B B && check_prediction free 5002 -n1 -q q && test "$(jq .place checked.json)" = 1 &&
	check_prediction free 5001 -n1 -q q -B B && test "$(jq -c "[.place, .place_of]" checked.json)" = "[3,3]" &&
	check_prediction rejected 5001 -n1 -q q -B B
'
test_expect_success 'the answer is in sentences, and the exit status is 1 for a rejected job' '
	run_as 5001 check -N1 -q q -t 1h >out && cat out && grep "^Accepted" out && grep "Held by max-running-jobs-user-limit: 1 of 1" out &&
	grep "jobs wait until queue q is started" out &&
	test_expect_code 1 run_as 5001 check -N2 -q r -B B >out && cat out && grep "^Rejected: queue \"r\" not valid for user" out &&
	test_expect_code 1 run_as 5001 check -u 5002 -N1 2>err && grep "only the instance owner and admins may" err &&
	run_as own check -u 5002 -N1 -q q >out && grep "The job of 5002 in bank A in queue q" out &&
	test_expect_code 2 run_as 5001 check --exclusive 2>err && grep "unexpected argument" err
'
test_expect_success 'a job that asks for more than any node has is reported before and after its submission' '
	never="can never run as it is: it requests 1 node with 9 cores, and the instance has no such node" &&
	check_prediction held 5001 -N1 -n1 -c9 -q q && run_as 5001 check -N1 -n1 -c9 -q q >out && cat out && head -1 out | grep "^Accepted, but the job $never" &&
	run_as 5001 what-if --submit 3 -N1 -n1 -c9 -q q >out && head -1 out | grep "^3 of 3 jobs are accepted, but each job $never" && grep "^A job that never runs has no place" out &&
	run_as 5001 check -N1 -n1 -c9 -q q --json >out && jq -e ".never_fits | startswith(\"it requests 1 node\")" out && jq -e ".place == null" out &&
	run_as 5001 why $id >out && cat out && tr "\n" " " <out >joined && grep "$never" joined &&
	run_as 5001 check -N1 -n1 -c4 -q q --json >out && jq -e ".never_fits == null" out && flux cancel $id && wait_ended $id
'
test_expect_success 'what-if --submit counts rejected and held jobs' '
	run_as 5001 what-if --submit 5 -N1 -q q -t1h >out && cat out && grep "5 of 5 jobs are accepted" out && grep "Held: at most 5 of the 5" out &&
	test_expect_code 1 run_as 5001 what-if --submit 5 -N1 -q q -B B >out && cat out && grep "^Rejected: user has max active jobs" out
'
test_expect_success 'all reasons for which a job is rejected are named at once' '
	test_expect_code 1 run_as 5001 check -N9 -q nosuch -B C >out && cat out && tr "\n" " " <out >joined &&
	grep "^Rejected by Flux: .nosuch. is not a valid queue (queues: q, r)" out && grep "^Rejected: cannot find user/bank or user/default bank entry for uid: 5001; yours: A, B" out &&
	grep "It can never run as it is: it requests 9 nodes" joined && test_expect_code 1 run_as 5001 check -N3 -q r -B B --setattr=system.project=secret --json >out &&
	jq -e "(.rejection | startswith(\"queue \\\"r\\\" not valid for user\")) and (.further_rejections[0] | startswith(\"project \\\"secret\\\" not valid\")) and (.further_rejections[1] | startswith(\"user has max active jobs\")) and (.further_rejections | length == 2) and .rejection_causes == [\"queue\", \"project\", \"active-jobs\"]" out &&
	run_as 5001 check -N1 -q q --json >out && jq -e ".further_rejections == []" out
'
test_expect_success 'as many submitted jobs are rejected and held as what-if --submit predicted' '
	flux cancel $(flux jobs -An --filter=sched -o "{id}") && wait_settled &&
	test_expect_code 1 run_as 5001 what-if --submit 5 -N1 -q q -t1h -B B --json >predicted && run_as 5001 what-if --submit 3 -N1 -q q -t1h --json >held &&
	flux submit --dry-run -N1 -q q -t1h -B B true >spec.json && for job in 1 2 3 4 5; do mf submit 5001 --spec spec.json; done >ids 2>err
	jq -c "[.jobs, .jobs_rejected]" predicted && test "$(jq -r "5 - .jobs_rejected" predicted)" = $(wc -l <ids) && test $(grep -c "max active jobs" err) = 3 &&
	jq -e ".active_limit == \"max-active-jobs: 0 of 2 jobs of user 5001 in bank B are active now\"" predicted && jq -e ".active_limit == null" held &&
	mf submit 5001 -N1 -q q -j 3 >ids && wait_settled && jq -e ".jobs_held > 0" held && test "$(jq .jobs_held held)" = $(flux jobs -n -o "{dependencies}" $(cat ids) | grep -c max-running)
'
test_expect_success 'what-if --submit names the limit on active jobs of a scope that rejects jobs, with its numbers' '
	flux config get >before.json && jq ".fairshare.limits = [{scope: \"user\", name: \"5002\", \"active-jobs\": 9}]" before.json >more.json && flux config load <more.json &&
	active=$(flux jobs -An -o "{userid}" | grep -c "^5002$") && test_expect_code 1 run_as 5002 what-if --submit 20 -N1 -q q -t1h >out &&
	cat out && tr "\n" " " <out >joined && grep "Rejected: the last $((11 + active)) jobs, by max-active-jobs-user: $active of 9 jobs of user 5002 are active now" joined && flux config load <before.json
'
test_expect_success 'a queue that takes no jobs is reported' '
	flux queue disable -q r -m closed && test_expect_code 1 run_as 5001 check -n1 -q r >out && cat out &&
	grep "Rejected by Flux: queue r takes no new jobs: closed" out && ! mf submit 5001 -n 1 -q r
'
test_expect_success 'limits of durations and sizes in the configuration of Flux are reported with the text of Flux' '
	flux config get >before.json && flux queue enable -q r &&
	jq ".policy.limits.duration = \"3h\" | .queues.r.policy.limits = {duration: \"1h\", \"job-size\": {max: {nnodes: 2}}}" before.json | flux config load &&
	for options in "-n1 -q q" "-n1 -q q -t4h" "-n1 -q r -t2h" "-N3 -q r -t1h"; do
		flux submit --dry-run $options true >spec.json && ! mf submit 5001 --spec spec.json >submit.out 2>&1 &&
		test_expect_code 1 run_as 5001 check $options >out && cat submit.out out && tr "\n" " " <out >joined &&
		grep -F "Rejected by Flux: $(cat submit.out)." joined || return 1
	done && run_as 5001 check -n1 -q r -t1h && run_as 5001 check -N3 -q q -t3h && flux config load <before.json
'
# check_refusal_by_flux OPTION...: checks a job that Flux rejects, and submits this job. The check must print the error text of the
# submission.
check_refusal_by_flux() {
	test_expect_code 1 run_as 5001 check "$@" >out && ! mf submit 5001 "$@" >submit.out 2>&1 && cat submit.out out &&
	grep -F "Rejected by Flux: $(cat submit.out) (" out
}
test_expect_success 'a missing or unknown queue is reported with the text of Flux, with and without queues and frobnicator' '
	check_refusal_by_flux -n1 && check_refusal_by_flux -q nosuch -n1 && write_conf "$(with_plugin) | $(with_frobnicator)" && restart_instance &&
	check_refusal_by_flux -q nosuch -n1 && write_conf "$(with_plugin) | $(with_queues q r) | $(with_frobnicator)" && restart_instance &&
	check_refusal_by_flux -n1 && check_refusal_by_flux -q nosuch -n1
'
test_expect_success 'a job without a queue is told which queues the user may use, and the next command works' '
	push_site && flux queue enable --all && for words in "check" "what-if --submit 100"; do
		test_expect_code 1 run_as 5001 $words -N1 -t 1h -B A >out && cat out && tr "\n" " " <out >joined && grep "Use -q q or -q r\. Accepted with: \"flux submit -q q -B A " joined &&
		test_expect_code 1 run_as 5002 $words -n1 >out && cat out && tr "\n" " " <out >joined && grep "Use -q q\. Accepted with: \"flux submit -q q -n 1 COMMAND\"" joined &&
		code=0 && { bash -c "$(sed "s/.*Accepted with: \"flux submit \([^\"]*\)\".*/FLUX_HANDLE_USERID=5002 FLUX_HANDLE_ROLEMASK=0x2 flux fairshare check \1/" joined)" >out || code=$?; } && cat out && test $code = 0 || return 1
	done
'
test_expect_success 'the commands in the answer name the instance that --uri names' '
	(
		uri=$FLUX_URI && unset FLUX_URI && test_expect_code 1 run_as 5002 check --uri $uri -n1 >out && cat out && tr "\n" " " <out >joined &&
		grep "Accepted with: \"FLUX_URI=$uri flux submit -q q -n 1 COMMAND\"" joined && test_expect_code 1 run_as 5002 check --uri $uri -q q -n1 -B Z >out && cat out &&
		tr "\n" " " <out >joined && grep "Accepted with: \"FLUX_URI=$uri flux submit .*-B A" joined &&
		test_expect_code 1 run_as own jobs -j f1 --uri $uri 2>err && cat err && grep "\"flux fairshare why .*1 --uri $uri\" explains" err
	)
'
# accepted_with TEXT OPTION...: checks a job that is rejected. The answer has TEXT, and the command in the answer is accepted.
accepted_with() {
	local text=$1 code=0
	shift
	test_expect_code 1 run_as 5001 check "$@" >out && cat out && tr "\n" " " <out >joined && grep -F -- "$text" joined &&
	bash -c "$(sed "s/.*Accepted with: \"flux submit \([^\"]*\)\".*/FLUX_HANDLE_USERID=5001 FLUX_HANDLE_ROLEMASK=0x2 flux fairshare check \1/" joined)" >out || code=$?
	cat out && test $code = 0
}
test_expect_success 'a rejected job is told what to change, and the command in the answer is accepted' '
	flux config get >before.json && jq ".queues.r.policy.limits.duration = \"1h\"" before.json | flux config load &&
	accepted_with "You have no account in bank nobank (banks: A, B): use -B A. There is no queue rr: use -q r. Use at most -t 1h in queue r, or a queue without this limit: -q q." -q rr -B nobank -n1 true &&
	accepted_with "Use at most -t 1h in queue r" -q r -t 2h -n1 && accepted_with "Use -B A." -q r -B B -t 1h &&
	test_expect_code 1 run_as 5001 check -q r -t 2h -n1 --json >out && jq -e ".suggestion.options == [\"-t 1h\"] and .suggestion.rejections == []" out &&
	run_as 5001 check -q r -t 1h -n1 --json >out && jq -e ".suggestion == null" out && flux config load <before.json
'
test_expect_success 'check changes nothing' '
	mf query >before && run_as 5001 check -N1 -q q >out && mf query >after && test_cmp before after
'
finish
