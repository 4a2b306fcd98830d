#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='start times and time limits that Flux keeps outside the callbacks of plugins'

. "$(dirname "$0")/lib.sh"
in_sequence

# wait_for_latest_start ID TIME: waits until explain predicts this latest start of the held job.
wait_for_latest_start() {
	local until=$((SECONDS + MF_WAIT))
	until mf rpc --as 5001 explain "{\"jobs\":[$(flux job id --to=dec "$1")]}" | sed "s/^ok //" >out &&
		jq -e ".jobs[0].latest as \$it | \$it != null and (\$it - $2 | fabs) < 0.01" out >/dev/null; do
		test $SECONDS -le $until || { jq .jobs[0] out; echo "not $2"; return 1; }
		sleep 0.1
	done
}
# set_instance_end AT: gives the instance a time limit, as an update of its job in the parent instance does.
set_instance_end() { flux kvs get resource.R | jq -c ".execution.expiration = $1" >R && flux kvs put --raw resource.R=- <R; }
push_data() { mf push assoc 5001 A max_running_jobs="$1" assoc "$(id -u)" O project "*"; }
print_running_since() { mf rpc check {} | sed "s/^ok //" | jq .running.since; }
print_alloc_time() { flux job eventlog -f json "$1" | jq -s 'map(select(.name == "alloc"))[0].timestamp'; }

test_expect_success 'an instance has two running jobs without a time limit and a held job' '
	start_instance && load_plugin && push_data 2 &&
	one=$(mf submit 5001 -t 0) && two=$(mf submit 5001 -t 0) && wait_running $one $two && held=$(mf submit 5001 -t 600) &&
	wait_held_by $held max-running-jobs-user-limit
'
test_expect_success 'the latest start of a held job follows the time limit of the instance' '
	now=$(date +%s) &&
	for end in $((now + 3600)) $((now + 7200)) $((now + 1800)); do set_instance_end $end && wait_for_latest_start $held $end || return 1; done
'
test_expect_success 'the latest start follows the instance after the subscribed job has ended' '
	cancel $one && wait_ended $one && wait_running $held && next=$(mf submit 5001 -t 600) && wait_held_by $next max-running-jobs-user-limit &&
	push_data 1 && cancel $held && wait_ended $held &&
	set_instance_end $((now + 5400)) && wait_for_latest_start $next $((now + 5400)) && cancel_all
'
test_expect_success 'the latest start follows the instance after a reload' '
	push_data 1 &&
	one=$(mf submit 5001 -t 0) && wait_running $one && held=$(mf submit 5001 -t 600) && wait_held_by $held max-running-jobs-user-limit &&
	set_instance_end $((now + 3600)) && wait_for_latest_start $held $((now + 3600)) &&
	reload_plugin && push_data 1 && wait_for_latest_start $held $((now + 3600)) &&
	set_instance_end $((now + 9000)) && wait_for_latest_start $held $((now + 9000)) && cancel_all
'
test_expect_success 'a job that bypasses the scheduler keeps its start time over a reload and a restart' '
	flux jobtap load alloc-bypass.so && jq -nc "{version: 1, execution: {R_lite: [{rank: \"0\", children: {core: \"0\"}}],
		starttime: 0, expiration: 0, nodelist: [\"node0\"]}}" >bypass.R &&
	id=$(flux submit -n1 --setattr=bank=O --setattr=alloc-bypass.R="$(cat bypass.R)" --setattr=exec.test.run_duration=1h true) && wait_running $id &&
	started=$(print_alloc_time $id) && jq -ne "$(print_running_since) - $started | fabs < 1" &&
	sleep 2 && reload_plugin && push_data 1 && wait_settled && jq -ne "$(print_running_since) - $started | fabs < 0.01" &&
	restart_instance && load_plugin && push_data 1 && wait_settled && jq -ne "$(print_running_since) - $started | fabs < 0.01"
'
cancel_all
finish
