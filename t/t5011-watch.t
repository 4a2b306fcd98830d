#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare sync --watch brings changes to the plugin, whatever happens to Flux and the database'
# Rules: U12

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# eventually COMMAND...: repeats the command until it succeeds, for MF_WAIT seconds.
eventually() {
	local i
	for i in $(seq $((MF_WAIT * 5))); do
		"$@" >/dev/null 2>&1 && return 0
		sleep 0.2
	done
	"$@"
}

# said TEXT [N]: checks that N lines of the log of sync --watch have TEXT, or at least one.
said() {
	if test $# -gt 1; then test "$(grep -cF -- "$1" watch.log)" = "$2"; else grep -F -- "$1" watch.log; fi
}

# plugin_has USERID KEY VALUE: checks a value of an association in the plugin.
plugin_has() {
	mf query | jq -e ".mf_priority_map[] | select(.userid == $1) | .banks[0].$2 == $3"
}

# counted USERID: checks that the database has a job of the user.
counted() {
	test "$(sql "SELECT count(*) FROM jobs WHERE userid = $1")" = 1
}

# here: points here.sock to the broker, whose socket moves at a restart.
here() {
	ln -sfn "${FLUX_URI#local://}" here.sock
}

test_expect_success 'an instance has the plugin, a site and a listener for notices to systemd' '
	write_conf "$(with_plugin)" && start_instance && make_site && here &&
	{ python3 "$T_DIR/scripts/notices.py" notices.sock notices 8>&- 9>&- & listener=$!; } &&
	eventually test -S notices.sock
'
test_expect_success 'sync --watch reports that it is ready' '
	{ NOTIFY_SOCKET=$PWD/notices.sock "$FAIRSHARE_UNDER_TEST" sync --watch 1 --wait 0.5 -p "$PWD/$DB" \
		--uri "local://$PWD/here.sock" >watch.out 2>watch.log 8>&- 9>&- & watch=$!; } &&
	eventually grep READY=1 notices
'
test_expect_success 'sync --watch pushes the data at its start' '
	eventually said "(start)" && plugin_has 5004 max_active_jobs 3
'
test_expect_success 'an edit by flux account reaches the plugin within seconds' '
	flux account edit-user user5004 --max-active-jobs=77 &&
	MF_WAIT=10 eventually plugin_has 5004 max_active_jobs 77 && eventually said "the database changed"
'
test_expect_success 'sync --watch reports an ended job and its effects in one line' '
	id=$(mf submit 5001 --run 0.5s) && ended $id && eventually said "1 job ended; 1 usage changed; 2 fair-shares changed; sent generation"
'
test_expect_success 'the ended job is in the database' 'test "$(sql "SELECT bank FROM jobs")" = A'
test_expect_success 'the ended job counts as usage' '
	test "$(sql "SELECT job_usage > 0 FROM association_table WHERE userid = 5001")" = 1
'
test_expect_success 'the plugin gets the new fair-shares' '
	value=$(sql "SELECT fairshare FROM association_table WHERE userid = 5002") &&
	eventually plugin_has 5002 fairshare $value
'
test_expect_success 'sync --watch prints and writes nothing if there is nothing to do' '
	sleep 3 && cp watch.log before.log && cp $DB before.db && sleep 4 && test_cmp before.log watch.log && cmp before.db $DB &&
	grep WATCHDOG=1 notices
'
test_expect_success 'a recount as of a later time prints nothing' '
	cp watch.log before.log && sql "UPDATE fairshare_usage_marks SET ran = ran - 700" &&
	sleep 4 && test $(sql "SELECT ran > unixepoch() - 60 FROM fairshare_usage_marks") = 1 && test_cmp before.log watch.log
'

test_expect_success 'a locked database is reported once, and sync --watch recovers' '
	hold_lock && touch $DB && eventually said "locked by another process" &&
	sleep 4 && said "locked by another process" 1 && release_lock && eventually said "recovered" 1
'
test_expect_success 'a clock behind the last count is reported once, and edits still reach the plugin' '
	sql "UPDATE fairshare_usage_marks SET ran = ran + 100000" && eventually said "the clock went back" &&
	flux account edit-user user5004 --max-active-jobs=78 && MF_WAIT=10 eventually plugin_has 5004 max_active_jobs 78 &&
	sleep 4 && said "the clock went back" 1 && sql "UPDATE fairshare_usage_marks SET ran = ran - 100000" &&
	eventually said "recovered" 2
'
test_expect_success 'a line break in a name adds no field to the status for systemd' '
	sql "UPDATE association_table SET shares = -1, username = username || char(10) || char(77, 65, 73, 78, 80, 73, 68, 61, 49) WHERE userid = 5001" &&
	eventually said "shares is -1" && eventually grep "STATUS=.*shares is -1" notices && ! grep "^MAINPID" notices &&
	sql "UPDATE association_table SET shares = 1, username = substr(username, 1, 8) WHERE userid = 5001" && eventually said "recovered" 3
'
test_expect_success 'a database that replaces the old one is read' '
	cp $DB other.db && flux python -c "import sqlite3
with sqlite3.connect(\"other.db\") as db:
    db.execute(\"UPDATE association_table SET max_active_jobs = 99 WHERE userid = 5003\")" &&
	mv other.db $DB && eventually plugin_has 5003 max_active_jobs 99
'
test_expect_success 'a missing database is reported, and sync --watch recovers when it returns' '
	mv $DB away.db && eventually said "No such file" && mv away.db $DB && eventually said "recovered" 4
'
test_expect_success 'SIGHUP pushes the data although nothing has changed' '
	remove_plugin && flux kvs unlink -Rf mf_priority && load_plugin && test_must_fail plugin_has 5003 max_active_jobs 99 &&
	kill -HUP $watch && eventually plugin_has 5003 max_active_jobs 99
'
test_expect_success 'sync --watch survives a restart of Flux and pushes to the new plugin' '
	stop_service && remove_plugin && flux kvs unlink -Rf mf_priority && restart_instance && eventually said "Flux" && here &&
	eventually plugin_has 5003 max_active_jobs 99 && kill -0 $watch && eventually said "Flux is back"
'
test_expect_success 'a job of the restarted instance counts' '
	id=$(mf submit 5002 --run 0.3s) && ended $id &&
	eventually counted 5002
'
test_expect_success 'SIGTERM ends sync --watch in order' '
	kill $watch && wait $watch && eventually grep STOPPING=1 notices && cat watch.log && test_must_be_empty watch.out
'
test_expect_success 'sync --watch refuses a database that does not exist at its start' '
	test_expect_code 2 flux fairshare sync --watch -p nowhere.db 2>err && grep "nowhere.db: No such file" err
'
test_expect_success 'sync --watch refuses to fetch only' '
	test_expect_code 2 flux fairshare sync --watch --only fetch -p $DB 2>err && grep "cannot be used with" err
'
kill $listener 2>/dev/null
finish
