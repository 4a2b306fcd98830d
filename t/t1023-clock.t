#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='a clock that is set back by an hour or runs a year ahead: no negative usage, no stopped refresh, no lost job'
# Rules: F4, F5

. "$(dirname "$0")/lib.sh"
in_sequence

# The broker reads its clock from a file through libfaketime. Its timers use the monotonic clock, as on a machine whose clock is set.
# Without FLUX_LOAD_WITH_DEEPBIND=0 modules would read the real time of the C library.
faketime=$(find /usr/lib -name libfaketimeMT.so.1 2>/dev/null | head -1)
if test -z "$faketime" || test -n "$MF_WRAP"; then
	skip_all='libfaketime is not installed, or the broker runs under another program'
	test_done
fi
MF_WRAP="env,FLUX_LOAD_WITH_DEEPBIND=0,LD_PRELOAD=$faketime,FAKETIME_TIMESTAMP_FILE=$PWD/clock"
MF_WRAP="$MF_WRAP,FAKETIME_NO_CACHE=1,FAKETIME_DONT_FAKE_MONOTONIC=1"
# set_clock OFFSET: sets the difference between the clock of the broker and the real clock.
set_clock() { echo "$1" >clock.new && mv clock.new clock; }
set_clock +0

call_method() { mf rpc "$@" | sed "s/^ok //"; }
query_live() { mf query 'q["live"]' | jq -r "$1"; }
# print_usage USERID: prints the time and the usage of a user, as "NOW USAGE".
print_usage() { call_method standing "{\"user\":$1}" | jq -r '"\(.now) \(.associations[0].usage)"'; }
check_condition() { jq -ne "$*" >/dev/null || { echo "not so: $*"; return 1; }; }
retry() {
	local i
	for i in $(seq 60); do "$@" >soon.out 2>&1 && return 0; sleep 0.3; done
	cat soon.out
	return 1
}
# wait_for_refresh: waits for a refresh.
wait_for_refresh() {
	local last
	last=$(query_live .last.when) && retry eval "test \"\$(query_live .last.when)\" != $last"
}
# check_time CONDITION: checks a condition about the present time of the plugin.
check_time() { set -- "$1" $(print_usage 5001) && check_condition "$2 $1"; }
comes_before() { test "$(mf prio "$1")" -gt "$(mf prio "$2")"; }

test_expect_success 'an instance has a running job of one user and a pending job of two users' '
	write_conf ".fairshare = {refresh: 1}" && start_instance && load_plugin && at=$(date +%s) &&
	mf doc assoc 5001 A username=ann shares=1 usage=1000 counted_until=0 assoc 5002 A username=bob shares=1 usage=1000 counted_until=0 \
		bank root 0 parent= shares=1 active=1 bank A 0 parent=root shares=1 active=1 project "*" >doc.json &&
	jq -c --argjson at $at ". + {tree: {policy: \"classic\", at: \$at, half_life: 86400, node_weight: 1, core_weight: 0, gpu_weight: 0}}" \
		doc.json >policy.json && mf rpc policy_update "$(cat policy.json)" &&
	run=$(mf submit 5001 -N 2) && wait_running $run && stop_queues && a=$(mf submit 5001) && b=$(mf submit 5002) && wait_scheduled $a $b &&
	retry comes_before $b $a
'
test_expect_success 'the usage of a running job grows by two nodes' '
	set -- $(print_usage 5001) && now=$1 && first=$2 && sleep 2 && set -- $(print_usage 5001) &&
	check_condition "($2 - $first) - 2 * ($1 - $now) | fabs < 1"
'
test_expect_success 'the plugin follows a clock that is set back by an hour' '
	cancel $a $b && wait_ended $a $b && set -- $(print_usage 5001) && before=$1 && set_clock -3600 && retry check_time "< $before - 3000"
'
test_expect_success 'no usage is below 0 before the start time of a running job' '
	for user in 5001 5002; do set -- $(print_usage $user) && echo "$@" && check_condition "$2 > 990 and $2 < 1100" || return 1; done
'
test_expect_success 'refreshes continue after the clock was set back' 'wait_for_refresh && wait_for_refresh'
test_expect_success 'jobs are submitted, run and end after the clock was set back' '
	start_queues && c=$(mf submit 5002 -N 2 --run 3s) && wait_ended $c && wait_settled && mf counts 5002 A active=0
'
test_expect_success 'the usage of a job before the old time counts once the clock has passed the job' '
	ran=$(jq -n "$(mf times $c finish) - $(mf times $c start)") && check_condition "$ran > 2.5" &&
	set -- $(print_usage 5002) && check_condition "$2 > 990" && set_clock +0 && retry check_time ">= $before" && set -- $(print_usage 5002) && echo "$@" &&
	check_condition "$2 - 1000 * pow(0.5; ($1 - $at) / 86400) - 2 * $ran | fabs < 2"
'
test_expect_success 'the usages continue as before after the clock is corrected' '
	set -- $(print_usage 5001) && check_condition "$2 - $first - 2 * ($1 - $now) | fabs < 2 + 0.001 * $2" && wait_for_refresh
'
test_expect_success 'a clock one year ahead decays ended usage to nothing and keeps the usage of running jobs' '
	set_clock +365d && retry check_time "> $before + 30000000" && set -- $(print_usage 5002) && check_condition "$2 >= 0 and $2 < 1e-3" && set -- $(print_usage 5001) && echo "$@" &&
	check_condition "$2 > 0 and $2 < 2 * 86400 / 0.693 * 1.01"
'
test_expect_success 'refreshes continue one year ahead' 'wait_for_refresh && wait_for_refresh'
test_expect_success 'a user with a year of usage falls behind another user' '
	stop_queues && d=$(mf submit 5001) && e=$(mf submit 5002) && wait_scheduled $d $e && retry comes_before $e $d
'
test_expect_success 'jobs are submitted, run and end one year ahead' '
	start_queues && f=$(mf submit 5002 --run 0.5s) && wait_ended $f
'
test_expect_success 'usages are finite and not negative after the clock is corrected, with a reload' '
	set_clock +0 && retry check_time "< $before + 30000000" && reload_plugin && mf rpc policy_update "$(cat policy.json)" && wait_for_refresh &&
	for user in 5001 5002; do set -- $(print_usage $user) && echo "$@" && check_condition "$2 >= 0 and $2 < 1e6" || return 1; done
'
test_expect_success 'all jobs are active until they are cancelled' '
	is_state RUN $run && cancel_all && mf counts 5001 A active=0 && mf counts 5002 A active=0
'
finish
