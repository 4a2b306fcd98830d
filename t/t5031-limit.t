#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare limit stores limits in the database of flux-accounting'
# Rules: L19

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

run_limit() { flux fairshare limit "$@" -p "$DB"; }
print_limits() { flux fairshare limit -p "${1:-$DB}" --json | jq -c '[.limits[] | [.scope, .name, .queue, .measure, .value, .counts]]'; }

test_expect_success 'a new database has no limits and no table of this project' '
	start_instance && make_site && test "$(print_limits)" = "[]" &&
	test -z "$(run_sql "SELECT name FROM sqlite_master WHERE name LIKE \"fairshare%\"")"
'
test_expect_success 'limit set stores limits, and replaces an earlier value' '
	run_limit set user "*" run-gpus=16 && run_limit set bank A run-gpus=32 run-jobs=9 && run_limit set bank A run-gpus=96 &&
	run_limit set bank B --queue silver --given run-nodes=4 && run_limit set association user5001/A run-sched-gpus=2 &&
	run_limit set user user5002 run-gpus=1 && run_limit set queue silver job-time=600 run-node-hours=40 &&
	run_limit set user user5003 -q silver active-jobs=3 && print_limits >found &&
	echo "[[\"association\",\"user5001/A\",\"\",\"run-sched-gpus\",2,\"asked\"],[\"bank\",\"A\",\"\",\"run-gpus\",96,\"asked\"],[\"bank\",\"A\",\"\",\"run-jobs\",9,\"asked\"],[\"bank\",\"B\",\"silver\",\"run-nodes\",4,\"given\"],[\"queue\",\"silver\",\"\",\"job-time\",600,\"asked\"],[\"queue\",\"silver\",\"\",\"run-node-hours\",40,\"asked\"],[\"user\",\"*\",\"\",\"run-gpus\",16,\"asked\"],[\"user\",\"user5002\",\"\",\"run-gpus\",1,\"asked\"],[\"user\",\"user5003\",\"silver\",\"active-jobs\",3,\"asked\"]]" >wanted &&
	test_cmp wanted found
'
test_expect_success 'limit set refuses invalid limits, names the cause and changes nothing' '
	print_limits >before &&
	for row in "bank A|MEASURE=VALUE is missing" "bank C run-gpus=1|there is no bank C in the database" \
		"user nobody5 run-gpus=1|there is no user nobody5 in the database" \
		"association user5001/B run-gpus=1|there is no association user5001/B in the database" \
		"association user5001 run-gpus=1|expected USER/BANK, got \"user5001\"" "bank A gpus=1|unknown measure \"gpus\"" \
		"bank A run-gpus|expected MEASURE=VALUE, got \"run-gpus\"" "bank A run-gpus=-1|run-gpus: expected an integer from 0, got \"-1\"" \
		"bank A run-gpus=x|run-gpus: expected an integer from 0, got \"x\"" \
		"queue silver --queue silver run-gpus=1|in scope queue, NAME is the queue; remove the option" \
		"queue gold run-gpus=1|there is no queue gold in the database" \
		"bank A --queue gold run-gpus=1|there is no queue gold in the database" \
		"association user5001/A run-nodes=1|run-nodes: \"flux account edit-user\" sets this limit of associations"; do
		test_expect_code 2 run_limit set ${row%%|*} 2>err && cat err && grep -F "${row#*|}" err || return 1
	done &&
	test_must_fail run_limit set bank A run-gpu=1 2>err && grep "unknown measure \"run-gpu\"; did you mean \"run-gpus\"?" err &&
	print_limits >after && test_cmp before after
'
test_expect_success 'push sends the limits, with user ids in place of user names' '
	load_plugin && flux fairshare push -p $DB && mf query | jq -c "[.limits[] | [.scope, .name, .queue, .measure, .limit, .counts]]" >found &&
	echo "[[\"association\",\"5001/A\",null,\"run-sched-gpus\",2,\"asked\"],[\"bank\",\"A\",null,\"run-jobs\",9,\"asked\"],[\"bank\",\"A\",null,\"run-gpus\",96,\"asked\"],[\"bank\",\"B\",\"silver\",\"run-nodes\",4,\"given\"],[\"user\",\"5002\",null,\"run-gpus\",1,\"asked\"],[\"user\",\"5003\",\"silver\",\"active-jobs\",3,\"asked\"],[\"user\",\"*\",null,\"run-gpus\",16,\"asked\"],[\"queue\",\"silver\",null,\"run-node-hours\",40,\"asked\"],[\"queue\",\"silver\",null,\"job-time\",600,\"asked\"]]" >wanted &&
	test_cmp wanted found && flux fairshare diff -p $DB >diff.out; cat diff.out; ! grep ^limit diff.out
'
# print_unpushed: prints the limits that no push has sent to the plugin.
print_unpushed() { run_limit "$@" --json | jq -c "[.limits[] | select(.pushed == false) | [.scope, .name, .measure, .value]]"; }
test_expect_success 'limit marks the limits that no push has carried yet' '
	test "$(print_unpushed)" = "[]" && run_limit --json | jq -e ".limits | map(.pushed) | length == 9 and all" && run_limit set bank A run-gpus=95 && run_limit set user user5004 run-jobs=1 &&
	test "$(print_unpushed)" = "[[\"bank\",\"A\",\"run-gpus\",95],[\"user\",\"user5004\",\"run-jobs\",1]]" &&
	run_limit >out && cat out && test $(grep -c " no$" out) = 2 && grep "do not apply until \"flux fairshare push -p $DB\"" out &&
	flux fairshare push -p $DB && test "$(print_unpushed)" = "[]" && FLUX_HANDLE_USERID=5001 FLUX_HANDLE_ROLEMASK=0x2 flux fairshare limit -p $DB --json >out && jq -e ".limits | all(.pushed == null)" out &&
	run_limit set bank A run-gpus=96 && run_limit unset user user5004 && flux fairshare push -p $DB && test "$(print_unpushed)" = "[]" && run_limit >out && test_must_fail grep "flux fairshare push" out
'
test_expect_success 'the pushed limits hold jobs' '
	run_limit set bank root run-sched-jobs=1 && flux fairshare push -p $DB && a=$(mf submit 5001) && wait_running $a &&
	b=$(mf submit 5003) && wait_held_by $b max-run-sched-jobs-bank && run_limit unset bank root && flux fairshare push -p $DB && wait_running $b &&
	cancel $a $b && wait_ended $a $b
'
test_expect_success 'the programs of flux-accounting work on a database with limits' '
	flux account view-bank root -t && flux account edit-user user5001 --bank=A --shares=5 && flux account list-users &&
	flux account export-json >out && jq -e ".associations | length == 4" out &&
	flux account-update-usage -p $DB && flux account-update-fshare -p $DB && flux account-priority-update -p $DB &&
	print_limits >after && test_cmp before after
'
# update.py runs flux account-update-db on a copy old-N.db for each schema version N, all in one process. It passes a database of the newest schema
# with -n, so that the command does not make one each time.
cat >update.py <<-'END'
	import os, runpy, shutil, sqlite3, sys
	from fluxacct.accounting import create_db
	_, database, newest = sys.argv
	commands = os.environ["FLUX_EXEC_PATH"].split(":")
	command = next(path for path in (f"{at}/flux-account-update-db.py" for at in commands) if os.path.exists(path))
	create_db.create_db("newest.db")
	main = runpy.run_path(command)["main"]
	for version in range(1, int(newest) + 1):
	    old = f"old-{version}.db"
	    shutil.copy(database, old)
	    with sqlite3.connect(old) as db:
	        db.execute(f"PRAGMA user_version = {version}")
	    shutil.copy("newest.db", "new.db")
	    sys.argv = ["flux-account-update-db", "-p", old, "-n", "new.db"]
	    main()
	    with sqlite3.connect(old) as db:
	        assert db.execute("PRAGMA user_version").fetchone()[0] == int(newest), old
END
test_expect_success 'flux account-update-db keeps the limits from every schema version' '
	newest=$(run_sql "PRAGMA user_version") && flux python update.py $DB $newest >update.log 2>&1 || { cat update.log; return 1; }
	for version in $(seq 1 $newest); do
		print_limits old-$version.db >after && test_cmp before after || return 1
	done
'
test_expect_success 'with --push, the plugin has a changed limit at once' '
	is_loaded_limit() { mf query | jq -e "[.limits[] | select(.scope == \"user\" and .name == \"5004\")] $1"; } &&
	run_limit set user user5004 run-jobs=7 --push >out 2>err && cat out err && grep " Pushed$" out && grep "user5004 .* 7 .* yes$" out && grep "1 added; generation" err && is_loaded_limit "| .[0].limit == 7" &&
	run_limit set user user5004 run-jobs=7 --push --json && run_limit unset user user5004 2>err && grep "next push: flux fairshare push -p $DB" err &&
	is_loaded_limit "| length == 1" && run_limit set user user5004 run-jobs=1 --push && run_limit unset user user5004 --push && is_loaded_limit "== []"
'
test_expect_success 'limit unset removes one measure or all' '
	run_limit unset bank A run-jobs && run_limit unset bank B --queue silver && test_expect_code 1 run_limit unset bank B &&
	run_limit show bank A --json | jq -e ".limits | map(.measure) == [\"run-gpus\"]" && test_expect_code 1 run_limit show bank B
'
test_expect_success 'push skips a limit of a deleted user, and reports it' '
	run_sql "DELETE FROM association_table WHERE username = \"user5002\"" && flux fairshare push -p $DB 2>err && cat err &&
	grep "the limits of user user5002 are not sent" err && mf query | jq -e "[.limits[] | select(.name == \"5002\")] == []"
'
test_expect_success 'limit lists limits of the configuration, with user names in place of user ids' '
	flux config get >before.json && jq ".fairshare.limits = [{scope: \"user\", name: \"0\", \"run-jobs\": 7},
		{scope: \"association\", name: \"5001/A\", counts: \"given\", \"run-sched-gpus\": 4}]" before.json >more.json &&
	flux config load <more.json && flux fairshare limit -p $DB --json >found.json && jq -c ".limits[] | select(.source == \"config\") | [.scope, .name, .measure, .value, .counts]" found.json >found &&
	{ echo "[\"association\",\"$(getent passwd 5001 | cut -d: -f1 | grep . || echo 5001)/A\",\"run-sched-gpus\",4,\"given\"]"; echo "[\"user\",\"root\",\"run-jobs\",7,\"asked\"]"; } >wanted &&
	test_cmp wanted found && jq -e ".limits | map(select(.source == \"database\")) | length > 0" found.json &&
	flux fairshare limit -p $DB >out && cat out && grep "the database counts after a push" out
'
test_expect_success 'limit lists limits of the configuration without a database, with a warning' '
	FLUX_FAIRSHARE_DATABASE=$PWD/nowhere.db flux fairshare limit --csv >out 2>err && cat err out && grep "warning: .*nowhere.db" err && grep "run-jobs,7,asked,config" out
'
test_expect_success 'limit says that no limits are set' '
	flux config load <before.json && run_limit unset user "*" && run_limit unset bank A && run_limit unset association user5001/A && run_sql "DELETE FROM fairshare_limit_table" &&
	run_limit >out && grep -x "no limits are set" out && grep "not listed: .flux account view-user USER. and" out && test_expect_code 1 run_limit show bank A >out && grep -x "no such limits are set" out
'
test_expect_success 'the service that edits the database ends' '
	stop_service
'

finish
