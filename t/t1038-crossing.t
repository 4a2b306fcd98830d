#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='jobs that are held while resources are on their way to them'
# Rules: L16, L18, L24

. "$(dirname "$0")/lib.sh"
in_sequence

# decided ID...: waits until the scheduler has decided on these jobs; it does not answer while the file ./hold exists.
decided() {
	local id until=$((SECONDS + MF_WAIT))
	for id; do
		until grep -q "^$(flux job id --to=dec "$id")$" hold; do
			test $SECONDS -le $until || { cat hold; flux jobs -a; return 1; }
			sleep 0.05
		done
	done
}
goes_on() { id=$(mf submit 5002 --run 0.01s) && ended $id && test "$(flux jobs -no "{status}" $id)" = COMPLETED; }

test_expect_success 'an instance has a scheduler that delays its decisions' '
	write_conf ".fairshare[\"running-limits\"] = \"strict\"" && start_instance && load_plugin &&
	mf push assoc 5001 A assoc 5001 B max_running_jobs=1 assoc 5002 A project "*" &&
	flux module remove sched-simple && flux module load "$T_DIR/scripts/slow-sched.py" hold=hold && goes_on
'
test_expect_success 'a job that moves into a full bank is held, runs when its resources arrive, and counts' '
	touch hold && there=$(mf submit 5001 -B B) && moves=$(mf submit 5001 -B A) && decided $there $moves &&
	mf update $moves bank=B && settled && held_in_sched $moves && mf counts 5001 B active=2 sched=1 held=1 &&
	rm hold && running $there $moves && mf counts 5001 B active=2 run=2
'
test_expect_success 'a new job is held until both running jobs have ended' '
	next=$(mf submit 5001 -B B) && held_by $next max-running-jobs-user-limit && cancel $there && ended $there && settled &&
	is_state DEPEND $next && cancel $moves && running $next && cancel $next && ended $next
'
test_expect_success 'a job that wakes when its headroom is taken is held, and runs when its resources arrive' '
	touch hold && rests=$(mf submit 5001 -B B) && decided $rests && flux job urgency $rests 0 && settled &&
	there=$(mf submit 5001 -B B) && decided $there && flux job urgency $rests 16 && settled && held_in_sched $rests &&
	rm hold && running $there $rests && cancel $there $rests && ended $there $rests
'
test_expect_success 'a job without resources on their way may not move into a full bank' '
	there=$(mf submit 5001 -B B) && running $there && rests=$(mf submit 5001 -B A -u 0) && scheduled $rests &&
	test_must_fail mf update $rests bank=B && cancel $there && ended $there && cancel $rests && ended $rests
'
# crosses ID COMMAND...: checks that a job runs although COMMAND sends it from SCHED to PRIORITY after the decision of the scheduler.
crosses() {
	local job=$1; shift
	"$@" && settled && is_state SCHED $job && rm hold && running $job && goes_on
}
test_expect_success 'an expedited job runs although the limit is full' '
	for urgency in 31 1 30; do
		touch hold && job=$(mf submit 5001 -B B) && decided $job && flux job urgency $job 0 && settled &&
		there=$(mf submit 5001 -B B) && decided $there && crosses $job flux job urgency $job $urgency &&
		running $there && cancel $there $job && ended $there $job || return 1
	done
'
test_expect_success 'an expedited job that was held in SCHED runs' '
	touch hold && job=$(mf submit 5001 -B B) && decided $job && flux job urgency $job 0 && settled &&
	there=$(mf submit 5001 -B B) && decided $there && flux job urgency $job 16 && settled && held_in_sched $job &&
	crosses $job flux job urgency $job 31 && running $there && cancel $there $job && ended $there $job
'
test_expect_success 'an expedited job that moves into a full bank runs' '
	touch hold && there=$(mf submit 5001 -B B) && job=$(mf submit 5001 -B A -u 31) && decided $there $job &&
	crosses $job mf update $job bank=B && running $there && mf counts 5001 B active=2 run=2 &&
	cancel $there $job && ended $there $job
'
test_expect_success 'a job without data returns to SCHED at every urgency, and runs' '
	for change in 31 0 15 31,16 update; do
		mf push assoc 5001 A assoc 5001 B max_running_jobs=1 assoc 5002 A project "*" &&
		touch hold && job=$(mf submit 5001 -B B) && decided $job && reload_plugin && settled &&
		case $change in
		update) mf update $job duration=100 ;;
		*) for urgency in $(echo $change | tr , " "); do flux job urgency $job $urgency || return 1; done ;;
		esac && settled && is_state SCHED $job && rm hold && running $job &&
		mf push assoc 5001 A assoc 5001 B max_running_jobs=1 assoc 5002 A project "*" && goes_on && cancel $job && ended $job ||
		{ echo "change $change"; return 1; }
	done
'
test_expect_success 'the scheduler gets requests as before' 'goes_on && test_must_fail logged "already allocated"'
test_expect_success 'all jobs end' 'cancel_all'
finish
