#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='live fair-share: usage accrues while jobs run, and priorities of pending jobs follow without a push'
# Rules: F1, F3, F4, F7, F9, F11, F16

. "$(dirname "$0")/lib.sh"
in_sequence

# push_tree POLICY HALF_LIFE [USAGE_OF_5002]: pushes users 5001 and 5002 in bank A and 5003 in bank B, with usages as of now.
push_tree() {
	local at
	at=$(date +%s.%N)
	at_of_push=$at
	mf doc assoc 5001 A username=ann shares=1 usage=0 counted_until=0 \
		assoc 5002 A username=bob shares=1 usage="${3:-0}" counted_until=0 \
		assoc 5003 B username=cyd shares=1 usage=0 counted_until=0 \
		bank root 0 parent= shares=1 active=1 bank A 0 parent=root shares=1 active=1 bank B 0 parent=root shares=1 active=1 \
		project "*" config zero_score=hold >doc.json &&
	jq -c --arg policy "$1" --argjson at "$at" --argjson half "$2" '. + {tree: {policy: $policy, at: $at,
		half_life: $half, node_weight: 1, core_weight: 0, gpu_weight: 0}}' doc.json >policy.json &&
	mf rpc policy_update "$(cat policy.json)"
}
# call_method METHOD PAYLOAD: prints the answer without "ok".
call_method() { mf rpc "$@" | sed "s/^ok //"; }
query_live() { mf query 'q["live"]' | jq -r "$1"; }
load_settings() { write_conf ".fairshare = $1" && flux config reload; }
# print_usage USERID: prints the time and the usage of a user at that time, as "NOW USAGE".
print_usage() { call_method standing "{\"user\":$1}" | jq -r '"\(.now) \(.associations[0].usage)"'; }
# reload_without_data: reloads the plugin without data.
reload_without_data() { reload_plugin && wait_settled; }
# has_usage USERID: checks that the user has usage.
has_usage() { print_usage "$1" | jq -es ".[1] > 0" >/dev/null; }
# print_start ID: prints the start time of the job in its R. print_end ID: prints the time at which the job became inactive.
print_start() { flux job info "$1" R | jq .execution.starttime; }
# print_listed_start ID: prints the start time that job-list uses: the time of the event alloc. The start time in R is earlier, because the
# scheduler stores R in the KVS before Flux logs the event alloc.
print_listed_start() { mf times "$1" alloc; }
print_end() { mf times "$1" clean; }
# compute_usage HALF_LIFE NODES NOW (START END)...: computes the usage of these runs at NOW. END is null for a running job.
compute_usage() {
	python3 - "$@" <<-'END'
	import math, sys
	h, nodes, now, *runs = [None if a == "null" else float(a) for a in sys.argv[1:]]
	total = 0.0
	for start, end in zip(runs[::2], runs[1::2]):
	    end = now if end is None else min(end, now)
	    total += nodes * h / math.log(2) * (2 ** (-(now - end) / h) - 2 ** (-(now - start) / h))
	print(total)
	END
}
# check_curve AT START_OF_A END_OF_A START END BEGAN: compares ten fair-shares of 5002 and 5003, one second
# apart, with the formula of classic at a half-life of 20 s. User 5002 had a usage of 1000 at AT. User 5001 in
# the same bank ran one job on one node. User 5003 ran a job on two nodes, and now runs another.
check_curve() {
	flux python - "$@" <<-'END'
	import json, math, sys, time
	import flux
	handle, service = flux.Flux(), "job-manager.mf_priority."
	at, began_a, ended_a, first, last, again = map(float, sys.argv[1:])
	def when():
	    return json.loads(handle.rpc("job-manager.jobtap-query", {"name": "mf_priority.so"}).get_str())["live"]["last"]["when"]
	def run(nodes, start, end, now):
	    return nodes * 20 / math.log(2) * (2 ** (-(now - end) / 20) - 2 ** (-(now - start) / 20))
	shown, former = [], 0
	deadline = time.time() + 120
	while len(shown) < 10 and time.time() < deadline:
	    time.sleep(0.05)
	    now = when()
	    used = json.loads(handle.rpc(service + "standing", {"all": True}).get_str())["associations"]
	    if now == former or when() != now:
	        continue
	    former = now
	    a, b = run(1, began_a, ended_a, now), 1000 * 2 ** (-(now - at) / 20)
	    c = run(2, first, last, now) + run(2, again, now, now)
	    bank, own, other = (a + b) / (a + b + c), b / (a + b + c), c / (a + b + c)
	    expected = 2 ** (-(own + (bank - own) / 2) / 0.25), 2 ** (-other / 0.5)
	    have = [next(one["fairshare"] for one in used if one["userid"] == user) for user in (5002, 5003)]
	    print(now - at, expected, have)
	    if any(abs(ours - theirs) > 0.01 * theirs for ours, theirs in zip(have, expected)):
	        sys.exit("not on the curve")
	    shown.append(have[0])
	sys.exit(len(shown) < 10 or shown != sorted(shown) or shown[-1] < shown[0] * 1.02)
	END
}
# is_near A B RELATIVE: checks that A and B differ by at most B * RELATIVE.
is_near() { jq -ne "($1 - $2) | fabs <= ($2 * $3 + 1e-6)" >/dev/null || { echo "$1 is not near $2"; return 1; }; }
# comes_before ID ID: checks that the first job has the higher priority.
comes_before() { test "$(mf prio "$1")" -gt "$(mf prio "$2")"; }
# retry COMMAND...: repeats the command until it succeeds, for a few seconds.
retry() {
	local i
	for i in $(seq 100); do "$@" && return 0; sleep 0.1; done
	return 1
}

test_expect_success 'live fair-share is off without a tree, and the query says so' '
	write_conf ".fairshare = {refresh: 1}" && start_instance && load_plugin && mf push assoc 5001 A assoc 5002 A &&
	query_live "[.on, .policy, .last] | @json" >out && echo "[false,null,null]" >expected && test_cmp expected out
'
test_expect_success 'a tree switches live fair-share on' '
	push_tree fair-tree 600 && query_live "[.on, .policy, .refresh] | @json" >out && echo "[true,\"fair-tree\",1]" >expected && test_cmp expected out
'
test_expect_success 'a pending job of a user with a running job falls behind within one refresh, without a push' '
	one=$(mf submit 5001 -N 1) && wait_running $one && stop_queues &&
	mine=$(mf submit 5001) && other=$(mf submit 5002) && wait_scheduled $mine $other &&
	retry comes_before $other $mine && query_live .generation
'
test_expect_success 'the usage of a running job follows from its R' '
	start=$(print_start $one) && set -- $(print_usage 5001) && echo "$@" && is_near $2 $(compute_usage 600 1 $1 $start null) 1e-9
'
test_expect_success 'posted and current priorities are explained by their terms' '
	call_method priorities "{\"ids\":[$(flux job id $mine),$(flux job id $other)]}" >priorities && cat priorities &&
	jq -e ".jobs | length == 2 and sort_by(-.posted.priority, .id) == sort_by(-.exact.priority, .id)" priorities &&
	jq -e ".jobs | all((.posted.terms | map(.product) | add) == .posted.sum)" priorities &&
	test $(jq ".jobs[0].posted.priority" priorities) = $(mf prio $mine)
'
test_expect_success 'a refresh posts nothing if no order changes' '
	before=$(query_live .last.when) && mf events $mine >before && sleep 3 && mf events $mine >after && test_cmp before after &&
	jq -ne "$(query_live .last.when) > $before"
'
test_expect_success 'the usage of a running job follows from its R after a reload' '
	reload_plugin && push_tree fair-tree 600 && set -- $(print_usage 5001) && is_near $2 $(compute_usage 600 1 $1 $start null) 1e-9
'
test_expect_success 'the usage of a running job follows from its R after a restart' '
	write_conf ".fairshare = {refresh: 1} | $(with_plugin)" && restart_instance && push_tree fair-tree 600 &&
	set -- $(print_usage 5001) && is_near $2 $(compute_usage 600 1 $1 $start null) 1e-9
'
test_expect_success 'the usage of an ended job counts up to its end, until a push covers the job' '
	cancel $one && wait_ended $one && end=$(print_end $one) && sleep 1 && set -- $(print_usage 5001) && echo "$@" "$start" "$end" &&
	is_near $2 $(compute_usage 600 1 $1 $start $end) 1e-9 && push_tree fair-tree 600 && set -- $(print_usage 5001) &&
	is_near $2 $(compute_usage 600 1 $1 $start $end) 1e-9 &&
	jq -c ".associations[0].counted_until = $end | .associations[0].usage = 3" policy.json >covers.json &&
	mf rpc policy_update "$(cat covers.json)" && set -- $(print_usage 5001) &&
	is_near $2 $(jq -n "3 * pow(2; -($1 - $at_of_push) / 600)") 1e-6
'
test_expect_success 'a job that ended while no plugin was loaded is read from job-list once' '
	cancel $mine $other && wait_ended $mine $other && start_queues && away=$(mf submit 5003 -N 2) && wait_running $away && stop_queues && remove_plugin && cancel $away && wait_ended $away &&
	from=$(print_listed_start $away) && to=$(print_end $away) && load_plugin && push_tree fair-tree 600 && retry has_usage 5003 && set -- $(print_usage 5003) &&
	is_near $2 $(compute_usage 600 2 $1 $from $to) 1e-9 && push_tree fair-tree 600 && set -- $(print_usage 5003) &&
	is_near $2 $(compute_usage 600 2 $1 $from $to) 1e-9 && log_lacks "job-list does not answer"
'
test_expect_success 'usages decay by the half-life of 20 s while other usages grow' '
	push_tree classic 20 1000 && start_queues && run=$(mf submit 5003 -N 2) && wait_running $run &&
	start=$(print_start $run) && for i in 1 2 3 4 5; do
		sleep 2 && set -- $(print_usage 5002) && is_near $2 $(jq -n "1000 * pow(2; -($1 - $at_of_push) / 20)") 0.01 || return 1
		set -- $(print_usage 5003) && is_near $2 $(compute_usage 20 2 $1 $start null $from $to) 0.01 || return 1
	done
'
test_expect_success 'fair-shares follow the computed curve' '
	check_curve $at_of_push $(print_start $one) $end $from $to $start
'
test_expect_success 'refreshes change fair-shares again and again' '
	before=$(query_live .generation) && sleep 3 && test $(query_live .generation) -gt $before
'
test_expect_success 'committed accrual charges the whole time limit at the start, without a jump at the end' '
	cancel $run && wait_ended $run && load_settings "{refresh: 1, accrual: \"committed\"}" && push_tree classic 100000 &&
	set -- $(print_usage 5002) && base=$2 &&
	run=$(mf submit 5002 -N 1 -t 8 --run 7.9s) && wait_running $run && set -- $(print_usage 5002) && is_near "($2 - $base)" 8 0.02 &&
	sleep 4 && set -- $(print_usage 5002) && is_near "($2 - $base)" 8 0.02 && wait_ended $run && set -- $(print_usage 5002) &&
	is_near "($2 - $base)" "($(print_end $run) - $(print_start $run))" 0.02
'
test_expect_success 'a refused table keeps the old settings, and the message names the key' '
	for bad in "{refesh: 3}|fairshare.refesh: unknown key" "{refresh: -1}|fairshare.refresh: expected 0 to 36600 days, in seconds or as a duration" \
		"{accrual: \"used\"}|fairshare.accrual: expected \"elapsed\" or \"committed\", got \"used\""; do
		test_must_fail load_settings "${bad%%|*}" 2>err && cat err && grep -F "${bad#*|}" err || return 1
	done && query_live "[.accrual, .refresh] | @json" >out && echo "[\"committed\",1]" >expected && test_cmp expected out
'
test_expect_success 'priorities follow from the pushed fair-shares if live fair-share is off' '
	stop_queues && id=$(mf submit 5001) && wait_scheduled $id && test $(mf prio $id) != 50000 &&
	load_settings "{live: false}" && wait_for priority $id priority=50000 && query_live .on >out && echo false >expected && test_cmp expected out
'
test_expect_success 'priorities follow from live fair-share again after it is switched on' '
	load_settings "{refresh: 1}" && retry eval "test \"\$(query_live .on)\" = true" && retry eval "test \$(mf prio $id) != 50000"
'
test_expect_success 'a policy without a tree switches live fair-share off' '
	mf rpc policy_update "$(jq -c "del(.associations[] | .username, .shares, .usage, .counted_until) |
		del(.banks[] | .parent, .shares, .active)" doc.json)" && prio_is $id 50000 && test $(query_live .on) = false
'

# One job entered SCHED before this plugin was loaded, so it already has a priority. The other jobs wait in PRIORITY for a push.
test_expect_success 'a push gives a priority to each job that has none, and to no other' '
	cancel_all && load_settings "{refresh: 0, remember: false}" && reload_without_data && push_tree fair-tree 600 &&
	old=$(mf submit 5002 -j 3) && wait_scheduled $old && reload_without_data &&
	waits=$(mf submit 5001 -j 2) && unknown=$(mf submit 5009) && stranger=$(mf submit 5009 -B A) && wait_for depend $stranger && wait_settled &&
	is_state PRIORITY $waits $unknown $stranger && push_tree fair-tree 600 && wait_scheduled $waits && wait_ended $stranger && wait_settled &&
	is_state PRIORITY $unknown && test "$(query_live "[.on, .pending, .lagging] | @json")" = "[true,5,0]" && mf check
'

cancel_all
finish
