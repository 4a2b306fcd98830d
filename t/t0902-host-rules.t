#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='facts about Flux that the embedded job manager imitates (t/embedded/walk.rs)'
# Rules: K20, K26

. "$(dirname "$0")/lib.sh"
in_sequence

# load_probe SCRIPT: loads a plugin that runs the steps of SCRIPT in its callbacks. At its load Flux asks for all priorities.
load_probe() {
	flux jobtap remove probe.so 2>/dev/null
	clear_log
	mf rpc job-manager.jobtap "{\"load\":\"$PWD/probe.so\",\"conf\":{\"script\":$1}}"
}
run_step() { mf rpc job-manager.probe.do "{\"step\":$1}" >/dev/null; }
print_id() { flux job id "$1"; }

# list_visited: prints the jobs whose priority Flux asked for since clear_log, in order.
list_visited() { flux dmesg | sed -n 's/.*job\.priority\.get \([0-9]*\) .*/\1/p'; }

# count_events ID: prints how many events the probe receives for one change of the urgency of the job.
count_events() {
	clear_log
	mf rpc job-manager.urgency "{\"id\":$(print_id $1),\"urgency\":$((10 + RANDOM % 5))}" >/dev/null &&
	mf rpc job-manager.urgency "{\"id\":$(print_id $1),\"urgency\":16}" >/dev/null || return 1
	echo $(($(flux dmesg | grep -c "job\.event\.urgency $(print_id $1) ") / 2))
}

test_expect_success 'the probe compiles, and eight jobs of a new instance reach SCHED' '
	cc -shared -fPIC -O1 -o probe.so "$T_DIR/data/probe.c" &&
	write_conf "del(.\"job-manager\")" && start_instance && stop_queues &&
	for i in 1 2 3 4 5 6 7 8; do
		flux submit -n1 true >>ids || return 1
	done &&
	set -- $(cat ids) && wait_scheduled "$@"
'
test_expect_success 'the priority loop visits each job once if the callbacks look up no other job' '
	load_probe "{\"job.priority.get\":[[\"priority\",16],[\"find\",\"\"],[\"memo\",\"x\"]]}" &&
	list_visited >order && sort order >visits &&
	for job in $(cat ids); do print_id $job; done | sort >want &&
	test_cmp want visits
'
# The loop visits job b after job a. In the reverse order, each lookup would move the cursor back, and the loop would never end.
test_expect_success 'a lookup of another job by id moves the priority loop to that job' '
	for at in 1 3 6; do
		a=$(sed -n ${at}p order) && b=$(sed -n $((at + 2))p order) &&
		load_probe "{\"job.priority.get\":[[\"priority\",16],[\"find\",\"\",$b,$a]]}" &&
		list_visited >visits && cat visits &&
		test "$(grep -x -A1 $a visits | sed -n 2p)" = $b || return 1
	done
'
test_expect_success 'a name, a memo, a subscription and a jobspec update of another job move the priority loop as well' '
	a=$(sed -n 2p order) && b=$(sed -n 7p order) &&
	for call in memo,x subscribe,x unsubscribe,x release,x update_id,attributes.system.x; do
		load_probe "{\"job.priority.get\":[[\"priority\",16],[\"${call%,*}\",\"${call#*,}\",$b,$a]]}" &&
		list_visited >visits && cat visits &&
		test "$(grep -x -A1 $a visits | sed -n 2p)" = $b || return 1
	done
'
test_expect_success 'a plugin receives events of subscribed jobs only' '
	load_probe "{}" && job=$(sed -n 1p ids) && other=$(sed -n 2p ids) &&
	test $(count_events $job) -eq 0 &&
	run_step "[\"subscribe\",\"\",$(print_id $job)]" &&
	test $(count_events $job) -eq 1 && test $(count_events $other) -eq 0
'
test_expect_success 'a plugin that subscribes twice receives each event twice' '
	run_step "[\"subscribe\",\"\",$(print_id $job)]" &&
	test $(count_events $job) -eq 2
'
test_expect_success 'one unsubscribe removes one of two subscriptions' '
	run_step "[\"unsubscribe\",\"\",$(print_id $job)]" &&
	test $(count_events $job) -eq 1 &&
	run_step "[\"unsubscribe\",\"\",$(print_id $job)]" &&
	test $(count_events $job) -eq 0
'
test_expect_success 'the broker ends with exit status 0' '
	cancel_all && stop_instance
'
test_done
