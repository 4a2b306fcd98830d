#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='place and start of pending jobs, and the history of jobs that ran, compared with flux jobs and eventlogs'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# check_json FILE FILTER: checks that the filter is true for the file.
check_json() { jq -e "$2" "$1" >/dev/null || { echo "not so: $2"; jq . "$1"; return 1; }; }
# print_places QUEUE...: for each pending job in these queues, prints its id, its place in the order of `flux jobs`, and the number of these jobs.
print_places() {
	flux jobs -A --filter=pending --no-header -o "{id.f58plain} {priority} {id.dec} {queue}" |
		awk -v queues=" $* " 'index(queues, " " $4 " ") && $2 > 0' | sort -k2,2nr -k3,3n |
		awk '{ id[NR] = $1 } END { for (i = 1; i <= NR; i++) print id[i], i, NR }'
}
# print_listed_places FILE QUEUE...: prints the columns of print_places from the answer of `jobs` in FILE.
print_listed_places() {
	jq -r --arg queues " ${*:2} " '[.jobs[] | select(.place != null and (" \(.queue) " as $name | $queues | contains($name)))] |
		sort_by(.place)[] | "\(.id) \(.place) \(.place_of)"' "$1" | sed "s/^ƒ/f/"
}
# print_event_time ID EVENT: prints the time of the last such event.
print_event_time() { mf times "$1" "$2" | tail -1; }
# is_near FILE FILTER SECONDS: checks that the number that the filter selects differs from SECONDS by less than a millisecond.
is_near() { check_json "$1" "($2) - ($3) | fabs < 0.001"; }

test_expect_success 'pending jobs have the places that flux jobs shows by priority and id' '
	write_conf "$(with_queues q r) | .queues.v = {parent: \"q\"}" && start_instance && load_plugin &&
	mf push assoc 5001 A queues=q,r,v max_running_jobs=1 assoc 5002 A queues=q,r,v queue q priority=2 queue r queue v priority=2 project "*" &&
	run=$(mf submit 5001 -q q -t 3600) && wait_running $run &&
	held=$(mf submit 5001 -q q -t 3600) && wait_held_by $held max-running-jobs-user-limit &&
	stop_queues &&
	one=$(mf submit 5002 -q q) && two=$(mf submit 5002 -q q) && high=$(mf submit 5002 -q q -u 20) && part=$(mf submit 5002 -q v -u 18) &&
	off=$(mf submit 5002 -q q -u 0) && other=$(mf submit 5002 -q r) && alone=$(mf submit 5002 -q r -u 17) &&
	wait_scheduled $one $two $high $part $off $other $alone &&
	run_as own jobs -A --json >out && print_listed_places out q v >got && print_places q v >expected && cat expected && test_cmp expected got &&
	test $(wc -l <got) = 4 && print_listed_places out r >got && print_places r >expected && test_cmp expected got && test $(wc -l <got) = 2 &&
	check_json out "[.jobs[] | select(.place == null)] | length == 2"
'
test_expect_success 'why prints the same place' '
	run_as own why $one --json >out && check_json out ".jobs[0].place == {place: 3, of: 4}" && run_as 5002 why $one >text && cat text &&
	grep "^By priority, the job is 3rd of 4 pending jobs in queue q\.$" text && grep "^When it starts is unknown: the scheduler" text &&
	run_as 5002 why $part >text && grep "^By priority, the job is 2nd of 4 pending jobs in queue q\.$" text &&
	run_as 5002 why $off >text && ! grep "By priority, the job is" text && run_as 5001 why $held >text && ! grep "By priority, the job is" text
'
test_expect_success 'jobs and top mark stopped queues' '
	run_as 5002 jobs >text && cat text && grep "q (stopped)" text && grep "Queue q is stopped" text && grep "Queue r is stopped" text &&
	run_as 5002 jobs --json >out && check_json out ".jobs | all(.queue_stopped)" && run_as own top --once >text && cat text &&
	grep "; stopped: q, r, v$" text
'
test_expect_success 'why and jobs say that the scheduler gives no estimates' '
	run_as own why $high --json >out && check_json out ".jobs[0].estimated_start == null and .jobs[0].never_fits == null" &&
	run_as own jobs -A >text && grep "the scheduler gives no estimates" text
'
test_expect_success 'why says that a job never fits if it requests more than all nodes of flux resource list have' '
	nodes=$(flux resource list -s all -no "{nnodes}") && large=$(mf submit 5002 -q r -N $((nodes + 1))) && wait_scheduled $large &&
	run_as 5002 why $large >text && cat text && head -1 text | tr "\n" " " | grep "can never run as it is: it requests $((nodes + 1)) nodes" &&
	run_as own why $large --json >out && check_json out ".jobs[0].never_fits == \"it requests $((nodes + 1)) nodes, and the instance has $nodes\"" &&
	exact=$(mf submit 5002 -q r -N $nodes) && wait_scheduled $exact && run_as own why $exact --json >out && check_json out ".jobs[0].never_fits == null"
'
test_expect_success 'why of a running job prints the waits and holds of its eventlog' '
	cancel $run && wait_ended $run && start_queues && wait_running $held && run_as 5001 why $held --json >out &&
	is_near out .jobs[0].history.waited_seconds "$(print_event_time $held alloc) - $(print_event_time $held submit)" &&
	is_near out .jobs[0].history.holds[0].seconds "$(print_event_time $held dependency-remove) - $(print_event_time $held dependency-add)" &&
	check_json out ".jobs[0].history.holds | length == 1 and .[0].name == \"max-running-jobs-user-limit\" and .[0].is_limit" &&
	is_near out ".jobs[0].history.waits | add" "$(print_event_time $held alloc) - $(print_event_time $held submit)" &&
	check_json out ".jobs[0].history.priorities | map(.priority) | last == $(mf prio $held)" &&
	check_json out ".jobs[0].history.priorities[0].code == \"released\"" &&
	run_as 5001 why $held >text && cat text && head -1 text | grep "is running" && grep "^It waited .* until it got its resources" text &&
	grep "max-running-jobs-user-limit" text && tr -d , <text | grep "^Its last priority was $(mf prio $held) set " && test_must_fail grep "no priority" text &&
	quick=$(mf submit 5002 -n1 -q r) && wait_running $quick && run_as 5002 why $quick >text && cat text && grep "^Its last priority was" text &&
	tr "\n" " " <text | grep -E "It waited (less than a second until it got its resources [^:]*:[^:]*:[^:]*\)\. |[0-9]+ seconds? until )" && cancel $quick && wait_ended $quick
'
test_expect_success 'why of an ended job has the same history, without the plugin' '
	cancel $held && wait_ended $held && run_as 5001 why $held --json >ended && check_json ended ".jobs[0].state == \"inactive\"" &&
	jq ".jobs[0].history | {waited_seconds, waits, holds, priorities}" out >before &&
	jq ".jobs[0].history | {waited_seconds, waits, holds, priorities}" ended >after && test_cmp before after &&
	is_near ended .jobs[0].history.ended "$(print_event_time $held clean)" && check_json ended ".jobs[0] | .userid == 5001 and .queue == \"q\" and .refused == null" &&
	run_as 5001 why $held >text && cat text && head -1 text | grep "^$(flux job id --to=f58 $held) of 5001.* ended" && head -2 text | grep "canceled"
'
test_expect_success 'the history names the user who changed the urgency' '
	stop_queues && job=$(mf submit 5002 -q q) && wait_scheduled $job && flux job urgency $job 20 && wait_for priority $job priority=$(mf prio $job) &&
	run_as own jobs -A -j $job --json >jobs && flux job raise -t cancel $job && wait_ended $job && run_as 5002 why $job --json >out &&
	check_json out ".jobs[0].history.priorities | map(.code) == [\"submitted\", \"urgency\"]" &&
	check_json out ".jobs[0].history.priorities | map(.former) == [null, .[0].priority]" &&
	check_json out ".jobs[0].history.priorities[1].text == \"user $(id -u) changed the urgency from 16 to 20\"" &&
	check_json out ".jobs[0].history.priorities | map(.when) == [$(mf times $job priority | paste -sd,)]" &&
	check_json out ".jobs[0].history | .allocated == null and .result == \"canceled\"" &&
	run_as 5002 why $job >text && grep "^It waited .* and never ran" text
'
test_expect_success 'a guest sees no history of another user' '
	test_expect_code 1 run_as 5001 why $job 2>err >out && grep "no active job has this id" err && test_must_be_empty out
'
test_expect_success 'the estimate of a pending job is the one of flux jobs' '
	cancel_all && flux module unload sched-simple && flux module load sched-fifo && start_queues && full=$(mf submit 5002 -q q -N 4 -n 16 -t 3600) &&
	wait_running $full && next=$(mf submit 5002 -q q -N 4 -n 16 -t 600) && wait_scheduled $next &&
	for i in $(seq 100); do
		flux jobs -no "{annotations.sched.t_estimate}" $next >estimate && grep -q "^[0-9]" estimate && break
		sleep 0.1
	done && cat estimate && run_as 5002 why $next --json >out && is_near out .jobs[0].estimated_start "$(cat estimate)" &&
	run_as 5002 jobs --json >out && is_near out ".jobs[] | select(.id | endswith(\"${next#?}\")) | .estimated_start" "$(cat estimate)" &&
	check_json out "[.jobs[] | select(.estimated_start) | (.estimated_start_time | fromdateiso8601) == (.estimated_start | floor)] | length > 0 and all" &&
	run_as 5002 why $next >text && cat text && grep "^The scheduler expects it to start .* (in 60 minutes)\.$" text && run_as 5002 jobs >text && head -1 text | grep Start
'
test_expect_success 'why of a job that waits for resources prints the free nodes of flux resource list, and the number of jobs ahead' '
	last=$(mf submit 5002 -q q -N 1 -n 1 -t 600) && wait_scheduled $last && run_as 5002 why $last >text && cat text &&
	nodes=$(flux resource list -s all -no "{nnodes}") && free=$(flux resource list -s free -no "{nnodes}") && tr -s "\n " " " <text >line && cat line &&
	grep "Why it is waiting: it needs 1 node, and the instance has $free of $nodes nodes\? free ahead of it by priority: 1 pending job" line &&
	run_as 5002 why $last --json >out && check_json out ".jobs[0].free_resources | startswith(\"it needs 1 node, and the instance has $free of $nodes node\")"
'
test_expect_success 'a guest in private mode gets no place, and the owner does' '
	stop_queues && three=$(mf submit 5002 -q q) && wait_scheduled $three && write_conf "$(with_queues q r) | .queues.v = {parent: \"q\"} | .access.\"private-mode\" = true" && flux config reload &&
	run_as 5002 jobs --json >out && check_json out ".jobs | length > 0 and all(.place == null and .place_of == null)" &&
	run_as 5002 why $three --json >out && check_json out ".jobs[0].place == null" && run_as own why $three --json >out && check_json out ".jobs[0].place != null"
'
test_expect_success 'all jobs end' 'cancel_all'
finish
