#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare sync --only fetch stores the ended jobs of a real instance in the database'
# Rules: U5, U15, U16

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# print_rows FILE: prints all rows of the table jobs.
print_rows() {
	flux python -c 'import sqlite3, sys
for row in sqlite3.connect(sys.argv[1]).execute("SELECT * FROM jobs ORDER BY CAST(id AS integer)"):
    print(*row, sep="|")' "$1"
}

run_fetch() {
	flux fairshare sync --only fetch -v -p ours.db "$@"
}

# check_rows: checks that the program of flux-accounting stores the same rows in its own database.
check_rows() {
	flux account-fetch-job-records -p theirs.db && print_rows theirs.db >theirs && print_rows ours.db >ours &&
	test_cmp theirs ours
}

# wait_for_stall: waits until the relay passes no more answers. Fails if the client ends first.
wait_for_stall() {
	while ! test -e relay.sock.stalled; do kill -0 $fetch_pid || return 1; sleep 0.05; done
}

# check_row_count N: checks the number of jobs in the database.
check_row_count() {
	test "$(print_rows ours.db | wc -l)" = "$1" || { print_rows ours.db | wc -l; return 1; }
}

test_expect_success 'an instance has the plugin, a site and two copies of the database' '
	write_conf "$(with_plugin)" && start_instance && make_site &&
	flux account -p "$PWD/$DB" edit-user user5002 --projects=physics,"*" \
		--max-active-jobs=10000 --max-running-jobs=10000 && stop_service &&
	flux fairshare push -p $DB && cp $DB ours.db && cp $DB theirs.db
'
test_expect_success 'a fetch before the first job has ended stores no record' '
	run_fetch 2>out && grep "0 records fetched, 0 new" out && check_row_count 0
'
test_expect_success 'jobs of four users end, some of which never ran' '
	a=$(mf submit 5001 --run 0.3s) && b=$(mf submit 5002 -N 3 -n 3 --run 0.2s -P physics) &&
	c=$(mf submit 5003 -B B --run 0.1s -t 90.5) && d=$(mf submit 5004 -N 4 -n 4 -c 4 --run 0.2s) &&
	e=$(mf submit 5003 --run 1h) && wait_running $e && cancel $e &&
	held=$(mf submit 5001 -u 0) && cancel $held &&
	wait_ended $a $b $c $d $e $held
'
test_expect_success 'a job with a changed time limit and a job that exceeded its time limit end' '
	f=$(mf submit 5001 --run 1h -t 60) && wait_running $f && mf update $f duration=120 && cancel $f &&
	g=$(mf submit 5001 --run 1h -t 0.2) && wait_ended $f $g
'
test_expect_success 'the fetched rows equal those of the original program in every column' '
	run_fetch 2>out && cat out && grep "7 records fetched, 7 new" out && check_row_count 7 && check_rows
'
test_expect_success 'the fetched rows have default banks and changed time limits' '
	flux python -c "import sqlite3
for user, bank, project, asked in sqlite3.connect(\"ours.db\").execute(
    \"SELECT userid, bank, project, requested_duration FROM jobs ORDER BY CAST(id AS integer)\"):
    print(user, bank, project, asked)" >columns &&
	cat >expected <<-EOF &&
	5001 A * 7200.0
	5002 A physics 7200.0
	5003 B * 90.5
	5004 B * 7200.0
	5003 B * 7200.0
	5001 A * 120.0
	5001 A * 0.2
	EOF
	test_cmp expected columns
'
test_expect_success 'a second fetch repeats nothing' '
	cp ours.db before.db && run_fetch 2>out && grep "0 records fetched, 0 new" out && cmp before.db ours.db
'
test_expect_success 'a third fetch stores the jobs that ended since the second' '
	h=$(mf submit 5002 --run 0.1s -j 5) && wait_ended $h && run_fetch 2>out && grep "5 records fetched, 5 new" out &&
	check_rows
'
test_expect_success 'a lost record that ended before the newest record is fetched again' '
	lost=$(print_rows ours.db | cut -d"|" -f1 | sed -n 3p) &&
	flux python -c "import sqlite3
with sqlite3.connect(\"ours.db\") as db: db.execute(\"DELETE FROM jobs WHERE id = $lost\")" &&
	check_row_count 11 && run_fetch 2>out && grep "1 record fetched, 1 new" out &&
	print_rows theirs.db | sort >want && print_rows ours.db | sort >have && test_cmp want have
'
test_expect_success 'a lost record that ended at the instant of the newest record is fetched again' '
	cp ours.db same.db && flux python -c "import sqlite3
with sqlite3.connect(\"same.db\") as db:
    (newest, end), (other, _) = db.execute(\"SELECT id, t_inactive FROM jobs ORDER BY t_inactive DESC LIMIT 2\")
    db.execute(\"DELETE FROM jobs WHERE id = ?\", [newest])
    db.execute(\"UPDATE jobs SET t_inactive = ? WHERE id = ?\", [end, other])" &&
	flux fairshare sync --only fetch -v -p same.db 2>out && grep "1 record fetched, 1 new" out
'
test_expect_success 'a dry run reports the number of new records and stores none' '
	cp $DB empty.db && cp empty.db before.db &&
	flux fairshare sync --only fetch --dry-run -p empty.db >out && grep "12 records fetched, 12 new; nothing was stored" out &&
	cmp empty.db before.db
'
test_expect_success 'a fetch reads R from the KVS if the job manager does not give it, with the same rows' '
	cp $DB ours.db && start_relay --rename job-manager.getattr job-manager.getattX &&
	run_fetch --uri "$through" 2>out && grep "12 records fetched, 12 new" out; end_relay; check_rows
'
test_expect_success 'the original program fetches 600 more jobs' '
	id=$(mf submit 5002 --run 0.001s -j 600 | tail -1) && flux queue idle --quiet && cp ours.db start.db &&
	flux account-fetch-job-records -p theirs.db && print_rows theirs.db >theirs && wc -l <theirs
'
test_expect_success 'a fetch ends with exit status 2 if Flux disappears, and stores no record' '
	for answers in 0 1 2 50 300 600; do
		cp start.db ours.db && start_relay --cut $answers || return 1
		test_expect_code 2 run_fetch --uri "$through" 2>err
		rc=$?; end_relay; cat err
		test $rc = 0 && grep "Flux" err && cmp start.db ours.db || return 1
	done
'
test_expect_success 'the next fetch after a failed one stores all records' '
	run_fetch 2>out && grep "600 records fetched, 600 new" out && print_rows ours.db >ours && test_cmp theirs ours
'
test_expect_success 'a killed fetch stores no record, and the next fetch stores all records' '
	cp start.db ours.db && start_relay --stall 300 &&
	{ "$FAIRSHARE_UNDER_TEST" sync --only fetch -p ours.db --uri "$through" & fetch_pid=$!; } &&
	wait_for_stall
	rc=$?; kill -9 $fetch_pid; wait $fetch_pid; killed=$?; end_relay
	test $rc = 0 && test $killed = 137 && cmp start.db ours.db &&
	run_fetch && print_rows ours.db >ours && test_cmp theirs ours
'
test_expect_success 'the database is not locked during requests to Flux' '
	for moment in "--stall 300" "--stall-at config.get"; do
		cp start.db ours.db && start_relay $moment &&
		{ "$FAIRSHARE_UNDER_TEST" sync --only fetch -p ours.db --uri "$through" & fetch_pid=$!; } &&
		wait_for_stall &&
		flux python -c "import sqlite3
with sqlite3.connect(\"ours.db\", timeout=0.1) as db: db.execute(\"UPDATE association_table SET shares = 2\")"
		rc=$?; kill $fetch_pid; wait $fetch_pid; end_relay; test $rc = 0 || return 1
	done
'
faketime=$(find /usr/lib -name libfaketimeMT.so.1 2>/dev/null | head -1)
test -z "$faketime" || test_set_prereq FAKETIME
test_expect_success FAKETIME 'a fetch gives up after five minutes without an answer (one second here)' '
	for answers in 0 1 300; do
		cp start.db ours.db && start_relay --stall $answers || return 1
		test_expect_code 2 timeout 60 env LD_PRELOAD=$faketime FAKETIME="+0 x300" \
			"$FAIRSHARE_UNDER_TEST" sync --only fetch -p ours.db --uri "$through" 2>err
		rc=$?; end_relay; cat err
		test $rc = 0 && grep "^flux-fairshare: job-[a-z]*\.[a-z]*: Flux accepted the request but has not answered for 300 s$" err &&
			cmp start.db ours.db || return 1
	done
'
test_expect_success FAKETIME 'any command gives up after five minutes without an answer (one second here)' '
	start_relay --stall 0 || return 1
	test_expect_code 2 timeout 60 env LD_PRELOAD=$faketime FAKETIME="+0 x300" "$FAIRSHARE_UNDER_TEST" status --uri "$through" 2>err
	rc=$?; end_relay; cat err; test $rc = 0 && grep "Flux accepted the request but has not answered for 300 s$" err
'
test_expect_success 'a fetch after a restart of Flux gives the same rows' '
	cp $DB ours.db && restart_instance && run_fetch && print_rows ours.db >ours && test_cmp theirs ours
'
test_expect_success 'a job whose R is lost is named, and all other jobs are stored' '
	flux kvs unlink $(flux job id --to=kvs $a).R && restart_instance && cp $DB ours.db && run_fetch 2>out &&
	cat out && grep "left out: job $(flux job id $a): " out && check_row_count 611
'
test_expect_success 'a guest may not fetch, and the message names the owner' '
	cp $DB ours.db && (export FLUX_HANDLE_USERID=5001 FLUX_HANDLE_ROLEMASK=0x2 && test_expect_code 2 run_fetch 2>err) &&
	grep "only the instance owner may fetch jobs" err && cmp $DB ours.db
'
test_expect_success 'a record with an end in the future does not hide jobs that ended before it' '
	cp $DB ours.db && run_fetch && flux python -c "import sqlite3, time
with sqlite3.connect(\"ours.db\") as db:
    db.execute(\"UPDATE jobs SET t_inactive = ? WHERE id = (SELECT max(CAST(id AS integer)) FROM jobs)\", [time.time() + 3600])" &&
	have=$(print_rows ours.db | wc -l) && run_fetch 2>out && grep ", 0 new" out &&
	a=$(mf submit 5001 --run 0.1s) && wait_ended $a && run_fetch --now $(($(date +%s) + 7200)) 2>out && cat out &&
	grep ", 1 new" out && check_row_count $((have + 1))
'
test_expect_success 'jobs that ended while the clock was behind are stored, and count once the clock has passed them' '
	cp $DB ours.db && later=$(($(date +%s) + 3600)) &&
	run_sync() { flux fairshare sync --only fetch --only usage -v -p ours.db "$@"; } &&
	a=$(mf submit 5001 --run 0.1s) && wait_ended $a && run_sync --now $later && flux python -c "import sqlite3
with sqlite3.connect(\"ours.db\") as db:
    db.execute(\"UPDATE jobs SET t_inactive = $later - 1 WHERE id = (SELECT max(CAST(id AS integer)) FROM jobs)\")" &&
	b=$(mf submit 5001 --run 0.1s) && wait_ended $b && have=$(print_rows ours.db | wc -l) &&
	test_expect_code 2 run_sync 2>err && cat err && grep "the clock went back: .*all changes are stored" err && check_row_count $((have + 1)) &&
	run_sync --now $((later + 60)) 2>out && cat out && grep "1 record counted" out &&
	run_sync --now $((later + 90)) 2>out && cat out && grep " 0 new; 0 records counted" out
'
test_expect_success 'a record that was counted and removed is not fetched again, also with a clock a little behind' '
	print_usage() { flux python -c "import sqlite3
print(sqlite3.connect(\"ours.db\").execute(\"SELECT sum(job_usage) FROM association_table\").fetchone()[0])"; } &&
	cp $DB ours.db && later=$(($(date +%s) + 7200)) && run_sync --now $later && cp ours.db counted.db && print_usage >want && cat want && test_must_fail grep -x 0.0 want &&
	for gone in "t_inactive < (SELECT max(t_inactive) FROM jobs)" "1"; do
		cp counted.db ours.db && flux python -c "import sqlite3
with sqlite3.connect(\"ours.db\") as db: db.execute(\"DELETE FROM jobs WHERE $gone\")" &&
		run_sync --now $((later - 2)) && run_sync --now $((later + 60)) 2>out && cat out && grep "[1-9][0-9]* skipped because they were removed" out && print_usage >have && test_cmp want have || return 1
	done
'
test_expect_success 'a fetch without an instance ends with exit status 2' '
	test_expect_code 2 run_fetch --uri local:///nonexistent 2>err && grep "connect to Flux" err
'
finish
