#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='each sentence of docs/admin.md, "What to know before the first push", on a live instance'
# Rules: L6, L16, R2

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

test_expect_success 'jobs wait in PRIORITY without data' '
	start_instance && load_plugin && a=$(mf submit 5001) && b=$(mf submit 5001) && c=$(mf submit 5002) && wait_settled && is_state PRIORITY $a $b $c
'
# check_no_data STATUS COMMAND...: checks the exit status, and that the message says that there are no data and names the push.
check_no_data() {
	test_expect_code "$1" flux fairshare "${@:2}" >out 2>err || { cat out err; return 1; }
	cat err && test ! -s out && grep "the plugin has no data: nothing was pushed since it was loaded" err && grep "\"flux fairshare push\"" err
}
test_expect_success 'no command prints "none" for a number that is unknown without data' '
	check_no_data 2 migrate && check_no_data 2 migrate --to-upstream && check_no_data 2 migrate --json && check_no_data 1 jobs && check_no_data 1 jobs -A && check_no_data 1 jobs --json &&
	check_no_data 1 standing && check_no_data 1 standing -A && check_no_data 1 standing --json &&
	flux fairshare status >out && cat out && grep "^jobs  *unknown before the first push" out && grep "^held  *unknown before the first push" out && grep "^waiting  *3 jobs" out &&
	flux fairshare status --json >out && jq -e "[.active_jobs, .running_jobs, .nodes, .cores, .held_jobs, .held_by] | all(. == null)" out
'
test_expect_success 'a push lets jobs go on as far as limits have headroom' '
	make_site && flux account edit-user user5001 --max-running-jobs=1 && flux fairshare push -p $DB && wait_running $a $c && wait_settled && is_state PRIORITY $b
'
test_expect_success 'max_active_jobs is checked at submission only' '
	d=$(mf submit 5001) && wait_held_by $d max-running-jobs-user-limit && flux account edit-user user5001 --max-active-jobs=1 && flux fairshare push -p $DB && wait_settled &&
	is_state RUN $a && is_state PRIORITY $b && is_state DEPEND $d && test_must_fail mf submit 5001 2>err && grep "max active jobs" err
'
test_expect_success 'the other limits hold jobs until they have headroom' '
	e=$(mf submit 5002) && wait_running $e && flux account edit-user user5002 --max-running-jobs=2 && flux fairshare push -p $DB && f=$(mf submit 5002) && wait_held_by $f max-running-jobs-user-limit &&
	flux account edit-user user5002 --max-running-jobs=3 && flux fairshare push -p $DB && wait_running $f
'
test_expect_success 'a disabled user can submit no job, and earlier jobs still run, also held ones' '
	flux account edit-user user5001 --max-active-jobs=9 && flux account delete-user user5001 A && flux fairshare push -p $DB &&
	test_must_fail mf submit 5001 2>err && grep disabled err && cancel $a && wait_running $b && cancel $b && wait_running $d
'
test_expect_success 'a dry run of a push changes nothing' '
	flux account delete-user user5002 A && flux fairshare push -p $DB --dry-run >out && cat out && grep "1 changed" out && wait_settled && is_state RUN $c && g=$(mf submit 5002) && wait_held_by $g max-running-jobs-user-limit
'
test_expect_success 'migrate refuses after a reload without data, and lists the held jobs after a push' '
	remove_plugin && flux kvs unlink -Rf mf_priority && load_plugin && wait_settled && check_no_data 2 migrate && check_no_data 2 migrate --to-upstream --all-held &&
	flux fairshare report -p $DB --output report.html && grep -q "The plugin has no data" report.html &&
	flux fairshare push -p $DB && wait_settled && flux fairshare migrate >out; cat out && grep "^$g " out
'
test_expect_success 'the service that edits the database ends' 'cancel_all; stop_service'
finish
