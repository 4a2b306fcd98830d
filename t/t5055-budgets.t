#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare budget stores deposits, and spends the charges of ended jobs'
# Rules: B1, B2, B3, B4, B12, B20, B21, B22, B23, B24

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

budget() { flux fairshare budget "$@" -p "$DB"; }
spent() { budget show "$@" --json | jq -e '[.budgets[] | {scope, name, unit, start, spent_ms}]'; }
sync() { flux fairshare sync -p "$DB"; }

# by_hand: computes the charges from job-list and R, and prints the amount that each budget must have spent, in the format of `spent`.
cat >by_hand.py <<-'END'
	import json, subprocess, sys
	from fractions import Fraction
	start, end = int(sys.argv[1]), int(sys.argv[2])
	text = subprocess.run(["flux", "jobs", "-A", "-a", "-n", "-o", "{id.dec} {userid} {t_inactive!r} {duration!r} {queue}"], capture_output=True, text=True, check=True)
	banks = {5001: "A", 5002: "A", 5003: "B", 5004: "B"}
	sums = {}
	for line in text.stdout.splitlines():
	    job, user, ended, limit, queue = line.split()
	    r = json.loads(subprocess.run(["flux", "job", "info", job, "R"], capture_output=True, text=True, check=True).stdout)
	    begun = r["execution"]["starttime"]
	    if not start <= begun < end:
	        continue
	    ms = round(1000 * (min(float(ended) - begun, float(limit)) if float(limit) > 0 else float(ended) - begun))
	    nodes = cores = 0
	    for entry in r["execution"]["R_lite"]:
	        count = lambda ids: sum(int(part.split("-")[-1]) - int(part.split("-")[0]) + 1 for part in str(ids).split(","))
	        nodes += count(entry["rank"])
	        cores += count(entry["rank"]) * count(entry["children"]["core"])
	    user, bank = int(user), banks[int(user)]
	    for scope, name, unit, size in [
	        ("association", f"user{user}/{bank}", "core-hours", cores), ("bank", bank, "node-hours", nodes),
	        ("bank", "root", "core-hours", cores), ("user", f"user{user}", "node-hours", nodes),
	    ]:
	        charge = size * ms if queue == "batch" else (size * ms + 1) // 2
	        sums[scope, name, unit] = sums.get((scope, name, unit), 0) + charge
	print(json.dumps([{"scope": s, "name": n, "unit": u, "start": start, "spent_ms": sums.get((s, n, u), 0)} for s, n, u in [
	    ("association", "user5002/A", "core-hours"), ("bank", "A", "node-hours"), ("bank", "root", "core-hours"), ("user", "user5003", "node-hours")]]))
END
by_hand() { flux python by_hand.py $start $end | jq .; }

test_expect_success 'a new database has no budgets and no table of deposits' '
	write_conf "$(with_queues batch half) | $(with_plugin) | .fairshare = {queues: {half: {charge: 0.5}}}" &&
	start_instance && make_site && flux account add-queue batch && flux account add-queue half &&
	for user in 5001 5002 5003 5004; do flux account edit-user user$user --queues=batch,half || return 1; done && flux fairshare push -p $DB &&
	budget >out && grep -x "no budgets" out && test "$(budget --json | jq -c .budgets)" = "[]" && test "$(budget log --json | jq -c .deposits)" = "[]" &&
	test -z "$(run_sql "SELECT name FROM sqlite_master WHERE name LIKE \"fairshare_d%\"")"
'
test_expect_success 'deposits are stored with their author, and a deposit without a window is for the current window' '
	start=$(($(date +%s) - 86400)) && end=$((start + 30 * 86400)) && w="--from $start --until $end" && why="--reason r" &&
	budget deposit bank A 5000 $w --reason "first half" && budget deposit bank A -0.5 $why &&
	budget deposit bank root 1.25 --unit core-hours $w $why && budget deposit user user5003 7 $w $why &&
	budget deposit association user5002/A 3 --unit core-hours --from $start --until 30d $why &&
	budget log --json | jq -c ".deposits[] | [.id, .scope, .name, .unit, .amount_ms, .author, .reason, .job]" >found &&
	cat >wanted <<-END &&
		[1,"bank","A","node-hours",18000000000,"$(id -un)","first half",null]
		[2,"bank","A","node-hours",-1800000,"$(id -un)","r",null]
		[3,"bank","root","core-hours",4500000,"$(id -un)","r",null]
		[4,"user","user5003","node-hours",25200000,"$(id -un)","r",null]
		[5,"association","user5002/A","core-hours",10800000,"$(id -un)","r",null]
	END
	test_cmp wanted found && budget log --json | jq -e "[.deposits[] | .start == $start and .end == $end and
		(.end_time | fromdateiso8601) == $end and (.created_time | fromdateiso8601) == .created] | all"
'
test_expect_success 'deposit refuses invalid deposits, names the cause and changes nothing' '
	budget log --json >before &&
	for row in "bank C 5 $why|there is no bank C in the database" "user nobody5 1 $why|there is no user nobody5 in the database" \
		"association user5001/B 1 $why|there is no association user5001/B" "association user5001 1 $why|expected USER/BANK" \
		"bank A 5 $why --job 3|--job: a refund names its job, and a deposit names none" "bank A 5 $why --until $end|overlaps the window of deposit 1" \
		"bank A 0 $why|expected a number of hours in whole milliseconds" "bank A 1.00000001 $why|in whole milliseconds" \
		"bank A 5k $why|like 5000, 0.5 or -20, got \"5k\"" "bank A 5|--reason is missing" "bank A 5 --reason TEXT|--reason \"TEXT\" is not a reason: state for the log why the budget changes" "bank A 5 --reason ...|is not a reason" "bank A $why|AMOUNT is missing" "user * 5 $why|a budget is for one association" \
		"bank A 5 --from $((start + 1)) --until $end $why|overlaps the window of deposit 1; for the same window: --from $start --until $end" \
		"bank A 5 --from $end --until 7 $why|expected a time after" "bank A 5 --from $end --until 9000-01-01 $why|from 1970 to 5138" "bank B 5 --unit gpu-hours $why|has no budget in gpu-hours now"; do
		(set -f && test_expect_code 2 budget deposit ${row%%|*}) 2>err && cat err && grep -F -e "${row#*|}" err || return 1
	done &&
	budget log --json >after && test_cmp before after
'
# print_differences: prints the fields of budgets that diff reports, or null for a budget that is missing as a whole.
print_differences() { test_might_fail flux fairshare diff -p $DB --json >found && jq -c "[.differences[] | select(.kind == \"budget\") | .field]" found; }
test_expect_success 'diff and doctor report deposits that were not pushed, and push counts them' '
	test "$(print_differences)" = "[null,null,null,null]" && test_might_fail flux fairshare doctor -p $DB >out && cat out && grep "budgets: 4 added" out &&
	flux fairshare push -v -p $DB >out 2>&1 && cat out && grep "budgets: 4 added" out && test "$(print_differences)" = "[]" &&
	jq -e ".push.budgets == null" found && test_might_fail flux fairshare doctor -p $DB >out && test_must_fail grep "budgets: " out &&
	budget deposit bank A 0.25 $why && test "$(print_differences)" = "[\"deposited_ms\"]" && jq -e ".push.budgets.changed == 1" found &&
	budget deposit bank A -0.25 $why && test "$(print_differences)" = "[]"
'
test_expect_success 'a window that does not overlap another is a window of the same budget' '
	budget deposit bank A 2 --from $end --until 52w $why && budget show bank A --json >out && cat out &&
	jq -e ".budgets | map([.lasts_until, .deposited_ms]) == [[$end, 17998200000], [null, 7200000]]" out
'
test_expect_success 'the database refuses to edit and to remove deposits' '
	for statement in "UPDATE fairshare_deposit_table SET milliseconds = 1" "DELETE FROM fairshare_deposit_table" \
		"INSERT OR REPLACE INTO fairshare_deposit_table SELECT * FROM fairshare_deposit_table" \
		"INSERT INTO fairshare_deposit_table SELECT 9, scope, name, unit, milliseconds, start + 1, \"end\", reason, author, created, job FROM fairshare_deposit_table"; do
		test_must_fail run_sql "$statement" 2>err && grep "a deposit is never\|the window overlaps" err || return 1
	done
'
test_expect_success 'a running job is not spent, and the spent amounts equal those computed from job-list after the job ends' '
	t="-t 60" && a=$(mf submit 5001 $t -q batch --run 0.4s) && b=$(mf submit 5002 $t -N 2 -n 2 -q batch --run 0.6s) && c=$(mf submit 5003 $t -N 4 -n 4 -q half --run 0.3s) &&
	d=$(mf submit 5001 $t -N 3 -n 3 -q half --run 0.2s) && e=$(mf submit 5004 $t -q batch --run 0.1s) && wait_ended $a $b $c $d $e &&
	long=$(mf submit 5002 $t -N 1 -q batch) && wait_running $long && sync && spent >found && jq -e "map(select(.start == $start) | .spent_ms) | all(. > 0)" found &&
	cancel $long && wait_ended $long && sync && by_hand >wanted && cat wanted && spent >all && jq "map(select(.start == $start))" all >found && test_cmp wanted found &&
	jq -e "map(select(.start == $end) | .spent_ms) == [0]" all
'
test_expect_success 'a second sync changes nothing, and recount finds the stored amounts in the records' '
	sync && spent >again && test_cmp all again && flux fairshare recount -p $DB >out && cat out &&
	grep "5 budgets checked: the spent amounts equal the records" out && flux fairshare recount -p $DB --json | jq -e ".budgets == []"
'
test_expect_success 'show prints what is left, and the rates of the last 24 hours and of the last seven days' '
	budget show bank A --json >found && cat found && jq -e ".budgets[0] | .left_ms == .deposited_ms - .spent_ms and .deposited_ms == 17998200000 and
		.rate_ms == ((.spent_ms + 3) / 7 | floor) and .rate_24h_ms == .spent_ms and .lasts_until == $end and .lasts_until_24h == $end" found && budget show bank A >out && cat out && grep "the plugin adds all other jobs" out
'
test_expect_success 'the runway of a budget that is spent before its window ends is earlier' '
	budget deposit user user5004 1 --from $start --until $end $why && spent=$(budget show user user5004 --json | jq ".budgets[0].spent_ms") &&
	budget deposit user user5004 -$(python3 -c "print(f\"{(3600000 - 2 * $spent) // 9 * 25e-7:.7f}\")") $why && budget show user user5004 --json >found && cat found &&
	jq -e ".budgets[0] | .lasts_until < .end and (.lasts_until - (now + .left_ms / .rate_ms * 86400) | fabs) < 3600 and
		(.lasts_until_24h - (now + .left_ms / .rate_24h_ms * 86400) | fabs) < 3600" found
'
test_expect_success 'a deposit that leaves nothing is reported, by doctor too, and the next deposit prints how long it lasts' '
	left=$(budget show user user5004 --json | jq ".budgets[0].left_ms") && budget deposit user user5004 -$(python3 -c "print(f\"{$left // 9 * 25e-7 + 1:.7f}\")") $why >out 2>err && cat out err &&
	grep "warning: no node-hours are left: the jobs of user user5004 are held until a deposit" err && test_expect_code 1 flux fairshare doctor -p $DB >out && cat out &&
	grep "^!! budget-used-up: " out && grep "^   user user5004 in node-hours" out && budget deposit user user5004 2 $why >out 2>err && cat out err && grep "LastsUntil" out &&
	test_must_fail grep warning err && test_might_fail flux fairshare doctor -p $DB >out && test_must_fail grep budget-used-up out
'
test_expect_success 'a removed budget holds no job, stays in the log, and may begin again in another window' '
	budget deposit bank B 0.0001 --until 7d $why && flux fairshare push -p $DB && held=$(mf submit 5003 -B B -q batch -t 60) &&
	wait_held_by $held budget-node-hours-bank && budget remove bank B --reason "end of the project" --push >out 2>&1 && cat out && grep "generation [0-9]* is in the plugin" out &&
	wait_running $held && cancel $held && wait_ended $held && test_expect_code 1 budget show bank B --unit gpu-hours &&
	budget log bank B --json >found && jq -e ".deposits | map([.amount_ms, .reason]) == [[360, \"r\"], [0, \"end of the project\"]]" found &&
	test_expect_code 2 budget remove bank B $why 2>err && grep "bank B has no budget in node-hours" err &&
	test_expect_code 2 budget remove bank B 5 $why 2>err && grep "AMOUNT" err && budget deposit bank B 1 --until 1d $why && budget remove bank B $why
'
test_expect_success 'a job that started before the window is not spent' '
	budget deposit bank B 5 --from $(($(date +%s) + 3600)) --until 7d $why && sync &&
	budget show bank B --json | jq -e ".budgets | map(.spent_ms) == [0]"
'
test_expect_success 'refund returns at most the charge of a job to the window in which the job started' '
	test_expect_code 2 budget refund user user5003 0.0001 --job $c 2>err && grep "reason is missing" err &&
	test_expect_code 2 budget refund user user5003 1 --job $c --reason "a node failed" 2>err && cat err && grep "of which .* are not refunded yet" err &&
	test_expect_code 2 budget refund user user5003 0.0001 --job $a --reason x 2>err && grep "no readable record of job .* for user user5003" err &&
	budget refund user user5003 0.0001 --job $c --reason "a node failed" && budget show user user5003 --json | jq -e ".budgets[0].deposited_ms == 25200360" &&
	budget log user user5003 --json >out && jq -e ".deposits[1] | .job[1:] == \"$(flux job id --to=f58plain $c | cut -c2-)\" and .reason == \"a node failed\" and .amount_ms == 360" out &&
	spent=$(budget show user user5003 --json | jq ".budgets[0].spent_ms") &&
	test_expect_code 2 budget refund user user5003 $(python3 -c "print(f\"{$spent // 9 * 25e-7:.7f}\")") --job $c --reason x
'
test_expect_success 'recount names the budgets whose records changed, to the last digit, and a sync does not lower their amounts' '
	sync && cp $DB kept.db && run_sql "UPDATE jobs SET t_inactive = t_inactive - 0.002 WHERE id = \"$(flux job id --to=dec $c)\"" && sync 2>err && cat err &&
	grep "user user5003 has spent fewer node-hours according to the job records than an earlier sync stored" err &&
	flux fairshare recount -p $DB --json >found && jq -c "[.budgets[] | [.scope, .name, .difference_ms]]" found >out && cat out &&
	jq -e ".budgets | map([.name, .difference_ms]) == [[\"root\", -4], [\"user5003\", -4]]" found && flux fairshare recount -p $DB >out && cat out &&
	grep "2 spent amounts differ from the records" out && flux fairshare recount --write -p $DB >out && cat out &&
	flux fairshare recount -p $DB --json | jq -e ".budgets == []" && cp kept.db $DB
'
test_expect_success 'the programs of flux-accounting work on a database with deposits' '
	budget log --json >before && flux account view-bank root -t && flux account edit-user user5001 --bank=A --shares=5 &&
	flux account-update-usage -p $DB && flux account-update-fshare -p $DB && flux account-priority-update -p $DB &&
	cp $DB old.db && (DB=old.db && run_sql "PRAGMA user_version = 30" && flux account-update-db -p $DB && budget log --json >after &&
		test_must_fail run_sql "DELETE FROM fairshare_deposit_table") && test_cmp before after
'
test_expect_success 'push skips a budget of a deleted user, and reports it' '
	run_sql "DELETE FROM association_table WHERE username = \"user5003\"" && flux fairshare push -p $DB 2>err && cat err &&
	grep "the budget of user user5003 in node-hours is not sent, because user5003 does not exist" err
'
test_expect_success 'scrub keeps the records that a current budget counts' '
	flux fairshare scrub 0 --now $((end - 3600)) -p $DB >out && cat out && grep "usage or a budget still needs" out && spent bank A >after && jq -e ".[0].spent_ms > 0" after
'
test_expect_success 'the service that edits the database ends' '
	stop_service
'

finish
