#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='jobs that are held while resources are on their way to them'
# Rules: L16, L18, L24

. "$(dirname "$0")/lib.sh"
in_sequence

# wait_for_decisions ID...: waits until the scheduler has decided on these jobs. The scheduler does not answer
# while the file ./hold exists.
wait_for_decisions() {
	local id until=$((SECONDS + MF_WAIT))
	for id; do
		until grep -q "^$(flux job id --to=dec "$id")$" hold; do
			test $SECONDS -le $until || { cat hold; flux jobs -a; return 1; }
			sleep 0.05
		done
	done
}
check_new_job() { id=$(mf submit 5002 --run 0.01s) && wait_ended $id && test "$(flux jobs -no "{status}" $id)" = COMPLETED; }

test_expect_success 'an instance has a scheduler that delays its decisions' '
	write_conf ".fairshare[\"running-limits\"] = \"strict\"" && start_instance && load_plugin &&
	mf push assoc 5001 A assoc 5001 B max_running_jobs=1 assoc 5002 A project "*" &&
	flux module remove sched-simple && flux module load "$T_DIR/scripts/slow-sched.py" hold=hold && check_new_job
'
test_expect_success 'a job that moves into a full bank is held, runs when its resources arrive, and counts' '
	touch hold && there=$(mf submit 5001 -B B) && moves=$(mf submit 5001 -B A) && wait_for_decisions $there $moves &&
	mf update $moves bank=B && wait_settled && held_in_sched $moves && mf counts 5001 B active=2 sched=1 held=1 &&
	rm hold && wait_running $there $moves && mf counts 5001 B active=2 run=2
'
test_expect_success 'a new job is held until both running jobs have ended' '
	next=$(mf submit 5001 -B B) && wait_held_by $next max-running-jobs-user-limit && cancel $there && wait_ended $there && wait_settled &&
	is_state DEPEND $next && cancel $moves && wait_running $next && cancel $next && wait_ended $next
'
test_expect_success 'a job whose urgency rises when its headroom is taken is held, and runs when its resources arrive' '
	touch hold && rests=$(mf submit 5001 -B B) && wait_for_decisions $rests && flux job urgency $rests 0 && wait_settled &&
	there=$(mf submit 5001 -B B) && wait_for_decisions $there && flux job urgency $rests 16 && wait_settled && held_in_sched $rests &&
	rm hold && wait_running $there $rests && cancel $there $rests && wait_ended $there $rests
'
test_expect_success 'a job without resources on their way may not move into a full bank' '
	there=$(mf submit 5001 -B B) && wait_running $there && rests=$(mf submit 5001 -B A -u 0) && wait_scheduled $rests &&
	test_must_fail mf update $rests bank=B && cancel $there && wait_ended $there && cancel $rests && wait_ended $rests
'
# check_crossing ID COMMAND...: checks that a job runs although COMMAND sends it from SCHED to PRIORITY after the decision of the scheduler.
check_crossing() {
	local job=$1; shift
	"$@" && wait_settled && is_state SCHED $job && rm hold && wait_running $job && check_new_job
}
test_expect_success 'an expedited job runs although the limit is full' '
	for urgency in 31 1 30; do
		touch hold && job=$(mf submit 5001 -B B) && wait_for_decisions $job && flux job urgency $job 0 && wait_settled &&
		there=$(mf submit 5001 -B B) && wait_for_decisions $there && check_crossing $job flux job urgency $job $urgency &&
		wait_running $there && cancel $there $job && wait_ended $there $job || return 1
	done
'
test_expect_success 'an expedited job that was held in SCHED runs' '
	touch hold && job=$(mf submit 5001 -B B) && wait_for_decisions $job && flux job urgency $job 0 && wait_settled &&
	there=$(mf submit 5001 -B B) && wait_for_decisions $there && flux job urgency $job 16 && wait_settled && held_in_sched $job &&
	check_crossing $job flux job urgency $job 31 && wait_running $there && cancel $there $job && wait_ended $there $job
'
test_expect_success 'an expedited job that moves into a full bank runs' '
	touch hold && there=$(mf submit 5001 -B B) && job=$(mf submit 5001 -B A -u 31) && wait_for_decisions $there $job &&
	check_crossing $job mf update $job bank=B && wait_running $there && mf counts 5001 B active=2 run=2 &&
	cancel $there $job && wait_ended $there $job
'
test_expect_success 'a job without data returns to SCHED at every urgency, and runs' '
	for change in 31 0 15 31,16 update; do
		mf push assoc 5001 A assoc 5001 B max_running_jobs=1 assoc 5002 A project "*" &&
		touch hold && job=$(mf submit 5001 -B B) && wait_for_decisions $job && reload_plugin && wait_settled &&
		case $change in
		update) mf update $job duration=100 ;;
		*) for urgency in $(echo $change | tr , " "); do flux job urgency $job $urgency || return 1; done ;;
		esac && wait_settled && is_state SCHED $job && rm hold && wait_running $job &&
		mf push assoc 5001 A assoc 5001 B max_running_jobs=1 assoc 5002 A project "*" && check_new_job && cancel $job && wait_ended $job ||
		{ echo "change $change"; return 1; }
	done
'
test_expect_success 'the scheduler gets requests as before' 'check_new_job && test_must_fail log_has "already allocated"'
test_expect_success 'all jobs end' 'cancel_all'
finish
