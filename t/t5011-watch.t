#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare sync --watch brings changes to the plugin, whatever happens to Flux and the database'
# Rules: U12

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# retry COMMAND...: repeats the command until it succeeds, for MF_WAIT seconds.
retry() {
	local i
	for i in $(seq $((MF_WAIT * 5))); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.2
	done
	"$@"
}

# check_log TEXT [N]: checks that exactly N lines in the log of sync --watch contain TEXT. Without N, checks that at least one line contains
# TEXT.
check_log() {
	if test $# -gt 1; then test "$(grep -cF -- "$1" watch.log)" = "$2"; else grep -F -- "$1" watch.log; fi
}

# check_plugin USERID KEY VALUE: checks a value of an association in the plugin.
check_plugin() {
	mf query | jq -e ".mf_priority_map[] | select(.userid == $1) | .banks[0].$2 == $3"
}

# has_job USERID: checks that the database has a job of the user.
has_job() {
	test "$(run_sql "SELECT count(*) FROM jobs WHERE userid = $1")" = 1
}

# link_socket: points here.sock to the broker, whose socket moves at a restart.
link_socket() {
	ln -sfn "${FLUX_URI#local://}" here.sock
}

test_expect_success 'an instance has the plugin, a site and a listener for notices to systemd' '
	write_conf "$(with_plugin)" && start_instance && make_site && link_socket &&
	{ python3 "$T_DIR/scripts/notices.py" notices.sock notices 8>&- 9>&- & listener=$!; } &&
	retry test -S notices.sock
'
test_expect_success 'sync --watch reports that it is ready' '
	{ NOTIFY_SOCKET=$PWD/notices.sock "$FAIRSHARE_UNDER_TEST" sync --watch 1 --wait 0.5 -p "$PWD/$DB" \
		--uri "local://$PWD/here.sock" >watch.out 2>watch.log 8>&- 9>&- & watch=$!; } &&
	retry grep READY=1 notices
'
test_expect_success 'sync --watch pushes the data at its start' '
	retry check_log "(start)" && check_plugin 5004 max_active_jobs 3
'
test_expect_success 'an edit by flux account reaches the plugin within seconds' '
	flux account edit-user user5004 --max-active-jobs=77 &&
	MF_WAIT=10 retry check_plugin 5004 max_active_jobs 77 && retry check_log "the database changed"
'
test_expect_success 'sync --watch reports an ended job and its effects in one line' '
	id=$(mf submit 5001 --run 0.5s) && wait_ended $id && retry check_log "1 job ended; 1 usage changed; 2 fair-shares changed; sent generation"
'
test_expect_success 'the ended job is in the database' 'test "$(run_sql "SELECT bank FROM jobs")" = A'
test_expect_success 'the ended job counts as usage' '
	test "$(run_sql "SELECT job_usage > 0 FROM association_table WHERE userid = 5001")" = 1
'
test_expect_success 'the plugin gets the new fair-shares' '
	value=$(run_sql "SELECT fairshare FROM association_table WHERE userid = 5002") &&
	retry check_plugin 5002 fairshare $value
'
test_expect_success 'sync --watch prints and writes nothing if there is nothing to do' '
	sleep 3 && cp watch.log before.log && cp $DB before.db && sleep 4 && test_cmp before.log watch.log && cmp before.db $DB &&
	grep WATCHDOG=1 notices
'
test_expect_success 'a recount as of a later time prints nothing' '
	cp watch.log before.log && run_sql "UPDATE fairshare_usage_marks SET ran = ran - 700" &&
	sleep 4 && test $(run_sql "SELECT ran > unixepoch() - 60 FROM fairshare_usage_marks") = 1 && test_cmp before.log watch.log
'

test_expect_success 'sync --watch reports a limit of a missing user once' '
	flux fairshare limit set user user5004 run-gpus=9 -p $DB && run_sql "UPDATE fairshare_limit_table SET name = \"gone\"" &&
	retry check_log "the limits of user gone are not sent" && flux account edit-user user5004 --max-active-jobs=76 &&
	MF_WAIT=10 retry check_plugin 5004 max_active_jobs 76 && check_log "the limits of user gone are not sent" 1 &&
	run_sql "DELETE FROM fairshare_limit_table"
'
test_expect_success 'sync --watch reports a locked database once, and recovers' '
	hold_lock && touch $DB && retry check_log "locked by another process" &&
	sleep 4 && check_log "locked by another process" 1 && release_lock && retry check_log "recovered" 1
'
test_expect_success 'sync --watch reports a clock behind the last count once, and edits still reach the plugin' '
	run_sql "UPDATE fairshare_usage_marks SET ran = ran + 100000" && retry check_log "the clock went back" &&
	flux account edit-user user5004 --max-active-jobs=78 && MF_WAIT=10 retry check_plugin 5004 max_active_jobs 78 &&
	sleep 4 && check_log "the clock went back" 1 && run_sql "UPDATE fairshare_usage_marks SET ran = ran - 100000" &&
	retry check_log "recovered" 2
'
test_expect_success 'a line break in a name adds no field to the status for systemd' '
	run_sql "UPDATE association_table SET shares = -1, username = username || char(10) || char(77, 65, 73, 78, 80, 73, 68, 61, 49) WHERE userid = 5001" &&
	retry check_log "shares is -1" && retry grep "STATUS=.*shares is -1" notices && ! grep "^MAINPID" notices &&
	run_sql "UPDATE association_table SET shares = 1, username = substr(username, 1, 8) WHERE userid = 5001" && retry check_log "recovered" 3
'
test_expect_success 'sync --watch reads a database that replaces the old one' '
	cp $DB other.db && flux python -c "import sqlite3
with sqlite3.connect(\"other.db\") as db:
    db.execute(\"UPDATE association_table SET max_active_jobs = 99 WHERE userid = 5003\")" &&
	mv other.db $DB && retry check_plugin 5003 max_active_jobs 99
'
test_expect_success 'sync --watch reports a missing database, and recovers when the database returns' '
	mv $DB away.db && retry check_log "No such file" && mv away.db $DB && retry check_log "recovered" 4
'
test_expect_success 'SIGHUP pushes the data although nothing has changed' '
	remove_plugin && flux kvs unlink -Rf mf_priority && load_plugin && test_must_fail check_plugin 5003 max_active_jobs 99 &&
	kill -HUP $watch && retry check_plugin 5003 max_active_jobs 99
'
test_expect_success 'sync --watch survives a restart of Flux and pushes to the new plugin' '
	stop_service && remove_plugin && flux kvs unlink -Rf mf_priority && restart_instance && retry check_log "Flux" && link_socket &&
	retry check_plugin 5003 max_active_jobs 99 && kill -0 $watch && retry check_log "Flux is back"
'
test_expect_success 'a job of the restarted instance counts' '
	id=$(mf submit 5002 --run 0.3s) && wait_ended $id &&
	retry has_job 5002
'
test_expect_success 'SIGTERM ends sync --watch with exit status 0' '
	kill $watch && wait $watch && retry grep STOPPING=1 notices && cat watch.log && test_must_be_empty watch.out
'
test_expect_success 'sync --watch refuses a database that does not exist at its start' '
	test_expect_code 2 flux fairshare sync --watch -p nowhere.db 2>err && grep "nowhere.db: no such file; -p FILE" err
'
test_expect_success 'sync --watch refuses to fetch only' '
	test_expect_code 2 flux fairshare sync --watch --only fetch -p $DB 2>err && grep "cannot be used with" err
'
kill $listener 2>/dev/null
finish
