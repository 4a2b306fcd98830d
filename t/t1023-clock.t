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
# clock OFFSET: sets the difference between the clock of the broker and the real clock.
clock() { echo "$1" >clock.new && mv clock.new clock; }
clock +0

ask() { mf rpc "$@" | sed "s/^ok //"; }
live() { mf query 'q["live"]' | jq -r "$1"; }
# used USERID: prints the time and the usage of a user, as "NOW USAGE".
used() { ask usages "{\"user\":$1}" | jq -r '"\(.now) \(.associations[0].usage)"'; }
is() { jq -ne "$*" >/dev/null || { echo "not so: $*"; return 1; }; }
soon() {
	local i
	for i in $(seq 60); do "$@" >soon.out 2>&1 && return 0; sleep 0.3; done
	cat soon.out
	return 1
}
# refreshed: waits for a refresh.
refreshed() {
	local last
	last=$(live .last.when) && soon eval "test \"\$(live .last.when)\" != $last"
}
# time_is CONDITION: checks the time of the plugin.
time_is() { set -- "$1" $(used 5001) && is "$2 $1"; }
first_of() { test "$(mf prio "$1")" -gt "$(mf prio "$2")"; }

test_expect_success 'an instance has a running job of one user and a pending job of two users' '
	write_conf ".fairshare = {refresh: 1}" && start_instance && load_plugin && at=$(date +%s) &&
	mf doc assoc 5001 A username=ann shares=1 usage=1000 counted_until=0 assoc 5002 A username=bob shares=1 usage=1000 counted_until=0 \
		bank root 0 parent= shares=1 active=1 bank A 0 parent=root shares=1 active=1 project "*" >doc.json &&
	jq -c --argjson at $at ". + {tree: {policy: \"classic\", at: \$at, half_life: 86400, node_weight: 1, core_weight: 0, gpu_weight: 0}}" \
		doc.json >policy.json && mf rpc policy_update "$(cat policy.json)" &&
	run=$(mf submit 5001 -N 2) && running $run && stop_queues && a=$(mf submit 5001) && b=$(mf submit 5002) && scheduled $a $b &&
	soon first_of $b $a
'
test_expect_success 'the usage of a running job grows by two nodes' '
	set -- $(used 5001) && now=$1 && first=$2 && sleep 2 && set -- $(used 5001) &&
	is "($2 - $first) - 2 * ($1 - $now) | fabs < 1"
'
test_expect_success 'the plugin follows a clock that is set back by an hour' '
	cancel $a $b && ended $a $b && set -- $(used 5001) && before=$1 && clock -3600 && soon time_is "< $before - 3000"
'
test_expect_success 'no usage is below 0 before the start time of a running job' '
	for user in 5001 5002; do set -- $(used $user) && echo "$@" && is "$2 > 990 and $2 < 1100" || return 1; done
'
test_expect_success 'refreshes continue after the clock was set back' 'refreshed && refreshed'
test_expect_success 'jobs are submitted, run and end after the clock was set back' '
	start_queues && c=$(mf submit 5002 -N 2 --run 3s) && ended $c && settled && mf counts 5002 A active=0
'
test_expect_success 'the usage of a job before the old time counts once the clock has passed the job' '
	ran=$(jq -n "$(mf times $c finish) - $(mf times $c start)") && is "$ran > 2.5" &&
	set -- $(used 5002) && is "$2 > 990" && clock +0 && soon time_is ">= $before" && set -- $(used 5002) && echo "$@" &&
	is "$2 - 1000 * pow(0.5; ($1 - $at) / 86400) - 2 * $ran | fabs < 2"
'
test_expect_success 'the usages continue as before after the clock is corrected' '
	set -- $(used 5001) && is "$2 - $first - 2 * ($1 - $now) | fabs < 2 + 0.001 * $2" && refreshed
'
test_expect_success 'a clock one year ahead decays ended usage to nothing and keeps the usage of running jobs' '
	clock +365d && soon time_is "> $before + 30000000" && set -- $(used 5002) && is "$2 >= 0 and $2 < 1e-3" && set -- $(used 5001) && echo "$@" &&
	is "$2 > 0 and $2 < 2 * 86400 / 0.693 * 1.01"
'
test_expect_success 'refreshes continue one year ahead' 'refreshed && refreshed'
test_expect_success 'a user with a year of usage falls behind another user' '
	stop_queues && d=$(mf submit 5001) && e=$(mf submit 5002) && scheduled $d $e && soon first_of $e $d
'
test_expect_success 'jobs are submitted, run and end one year ahead' '
	start_queues && f=$(mf submit 5002 --run 0.5s) && ended $f
'
test_expect_success 'usages are finite and not negative after the clock is corrected, with a reload' '
	clock +0 && soon time_is "< $before + 30000000" && reload_plugin && mf rpc policy_update "$(cat policy.json)" && refreshed &&
	for user in 5001 5002; do set -- $(used $user) && echo "$@" && is "$2 >= 0 and $2 < 1e6" || return 1; done
'
test_expect_success 'all jobs are active until they are cancelled' '
	is_state RUN $run && cancel_all && mf counts 5001 A active=0 && mf counts 5002 A active=0
'
finish
