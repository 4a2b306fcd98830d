#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare credit changes usage with a reason and a log, and the order of pending jobs follows'
# Rules: U30, U31, U32, U33, U34

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

credit() { flux fairshare credit "$@" -p "$DB"; }
sync() { flux fairshare sync -p "$DB" "$@"; }
usage_of() { run_sql "SELECT job_usage FROM association_table WHERE username = '$1'"; }
# is_usage USER NUMBER: checks the stored usage, except for rounding.
is_usage() { jq -ne --argjson found "$(usage_of "$1")" --argjson wanted "$2" '($found - $wanted) | fabs < 1e-4'; }
# is_before JOB JOB: waits until the first job has the higher priority.
is_before() {
	local try
	for try in $(seq "$MF_WAIT"); do
		test "$(mf prio "$1")" -gt "$(mf prio "$2")" && return 0
		sleep 1
	done
	echo "priorities $(mf prio "$1") and $(mf prio "$2")"
	return 1
}

test_expect_success 'a new database has no credits and no table of credits' '
	write_conf "$(with_plugin)" && start_instance && make_site && flux fairshare push -p $DB &&
	credit >out && grep "^no credits$" out && test "$(credit log --json | jq -c .credits)" = "[]" &&
	test -z "$(run_sql "SELECT name FROM sqlite_master WHERE name LIKE \"fairshare_credit%\"")"
'
test_expect_success 'the user with more usage has the pending job with the lower priority' '
	used=$(mf submit 5004 -N 4 -n 4 --run 1s) && wait_ended $used && sync && usage_of user5004 >before && cat before &&
	stop_queues && a=$(mf submit 5003 -N 4 -n 16 --run 0.1s) && b=$(mf submit 5004 -N 4 -n 16 --run 0.1s) && wait_scheduled $a $b && is_before $a $b
'
test_expect_success 'credit add stores amount, author and reason, and names the next step' '
	credit add user5004/B -$(cat before) --unit usage --reason "node 3 failed" >out 2>err && cat out err &&
	grep "node 3 failed" out && grep "Takes effect at the next sync: flux fairshare sync -p $DB" err &&
	is_usage user5004 $(cat before)
'
test_expect_success 'after a refund and a debit, sync stores the new usage and the order of the pending jobs changes' '
	credit add user5003/B 2 --reason "work on a workstation" && sync -v && is_usage user5004 0 && is_usage user5003 7200 &&
	is_before $b $a
'
test_expect_success 'the plugin has the usage with credits' '
	mf query >query && jq -c "[.mf_priority_map[] | select(.userid > 5002 and .userid < 5005)]" query &&
	flux fairshare standing 5003/B --json >out && cat out && jq -e "[.. | .usage? // empty | numbers] | max | . > 7000 and . <= 7200" out &&
	COLUMNS=300 FLUX_FAIRSHARE_DATABASE=$DB flux fairshare what-if --half-life 3d >out && cat out && grep "both sides are live usage, with running jobs" out &&
	COLUMNS=300 flux fairshare what-if -p $DB --half-life 3d >out && cat out && grep "both sides are stored usage, without running jobs" out
'
test_expect_success 'the credited user starts first' '
	start_queues && wait_ended $a $b && flux jobs -n -o "{t_run} {id.f58plain}" $a $b | sort -n >runs && cat runs &&
	test "$(head -n 1 runs | cut -d" " -f2)" = $b
'
test_expect_success 'a recount agrees with the usage after a sync' '
	sync && flux fairshare recount -p $DB --json >out && cat out && jq -e ".differences == []" out
'
test_expect_success 'credit set changes the usage as of now, and a recount agrees' '
	credit set user5003/B 1.5 --reason "agreed with the bank" && sync && is_usage user5003 5400 &&
	credit set user5004/B 0 --reason "new project year" --push 2>err && cat err && grep "generation [0-9]* is in the plugin" err && is_usage user5004 0 &&
	flux fairshare recount -p $DB --json | jq -e ".differences == []"
'
test_expect_success 'usage --by period and why show the credits of each period' '
	flux fairshare usage --by period -p $DB -u user5003 --json >out && cat out && jq -e "[.periods[].usage] | length == 1 and (.[0] - 5400 | fabs) < 1e-4" out &&
	flux fairshare why user5003/B -p $DB --json >out && jq -e "[.. | .usage_bins? // empty] | .[0] | map(.usage) | add - 5400 | fabs < 1e-4" out
'
test_expect_success 'a credit that reduces nothing is not stored without a warning' '
	credit log --json | jq ".credits | length" >before.count && cp $DB kept.db && credit add user5004/B -1 --reason "too much" 2>err && cat err &&
	grep "warning: user5004/B has no usage of ended jobs, so" err && credit add user5003/B -1 --reason "a part" 2>err && test_must_fail grep warning err && grep "the stored usage of user5003/B, of ended jobs, is 0.5 node-hours instead of 1.5" err && grep "until 20.* at the latest; to date it back: .* && flux fairshare credit -p $DB add user5003/B -1 --from TIME --reason TEXT" err && credit add user5003/B -1 --from 1h --reason "a part" 2>err && test_must_fail grep "at the latest" err && cp kept.db $DB &&
	test "$(credit log --json | jq ".credits | length")" = "$(cat before.count)"
'
test_expect_success 'a credit beyond the usage of ended jobs offsets a running job at once' '
	long=$(mf submit 5001 -N 4 -n 4 --run 300s) && flux job wait-event $long start && sleep 3 && cp $DB kept.db &&
	flux fairshare standing 5001/A --json >out && cat out && jq -e ".associations[0].usage > 4" out &&
	credit add user5001/A -1 --reason "slow start" --push 2>err && cat err && grep "in force: the live usage of user5001/A is 0 node-hours instead of 0.0[0-9]*; it differs from stored usage, because" err && grep "the place of user5001/A by live fair-share is [0-9]* of [0-9]*\(, as before\| instead of [0-9]*\)$" err && flux fairshare standing 5001/A --json >out && cat out &&
	jq -e ".associations[0].usage == 0" out && reload_plugin && flux fairshare push -p $DB &&
	flux fairshare standing 5001/A --json >out && jq -e ".associations[0].usage == 0" out && flux cancel $long && wait_ended $long && cp kept.db $DB && flux fairshare push -p $DB
'
test_expect_success 'the log has each credit with its author and reason' '
	me=$(id -un) && credit log --json >out && cat out &&
	jq -c "[.credits[] | [.id, .author, .user, .bank, .kind, .amount, .unit, .reason]]" out >found &&
	jq -nc --arg me "$me" --arg used "-$(cat before)" "[[1, \$me, \"user5004\", \"B\", \"add\", \$used, \"usage\", \"node 3 failed\"],
		[2, \$me, \"user5003\", \"B\", \"add\", \"2\", \"node-hours\", \"work on a workstation\"],
		[3, \$me, \"user5003\", \"B\", \"set\", \"1.5\", \"node-hours\", \"agreed with the bank\"],
		[4, \$me, \"user5004\", \"B\", \"set\", \"0\", \"node-hours\", \"new project year\"]]" >wanted && test_cmp wanted found &&
	test $(credit log user5003/B --json | jq ".credits | length") = 2 && test $(credit log user5003 --csv | wc -l) = 3 &&
	test_expect_code 0 credit log user5001/A && test_expect_code 1 credit log user5001/B
'
test_expect_success 'the printed commands date a large credit back' '
	cp $DB dated.db && flux fairshare credit add user5004/B 432000 --unit usage --reason outage -p dated.db &&
	flux fairshare credit set user5004/B 0 --unit usage --reason reset -p dated.db 2>err && cat err &&
	sed -n "s/.*to date it back: //p" err | sed "s/TIME/2d/; s/TEXT/reset/; s/ -p [^ ]*//g; s/--reason/-p dated.db &/g" >dated.sh && cat dated.sh &&
	grep "add user5004/B 432000 --unit usage" dated.sh && sh -e dated.sh &&
	flux fairshare credit log -p dated.db --json | jq -e ".credits | map(select(.user == \"user5004\"))[-1].usage == -432000"
'
test_expect_success 'invalid credits are rejected with a reason and nothing is stored' '
	credit log --json >before.log &&
	for row in "add user5004/B|USER/BANK and AMOUNT are missing" "add user5004 1 --reason x|expected USER/BANK, got \"user5004\"; the usage of a bank is the sum of its associations" \
		"add user5004/A 1 --reason x|there is no association user5004/A in the database" \
		"add user5004/B much --reason x|AMOUNT: expected a number, got \"much\"" "add user5004/B inf --reason x|AMOUNT: expected a number" \
		"add user5004/B 1|--reason is missing" "add user5004/B 1 --reason TEXT|--reason \"TEXT\" is not a reason" "add user5004/B 1 --reason <reason>|is not a reason" "add user5004/B 0 --reason x|AMOUNT is 0, which changes nothing" \
		"add user5004/B 1e40 --reason x|more than 1e30" "set user5004/B -1 --reason x|usage is never below 0" \
		"set user5004/B 1 --from 2d --reason x|--from: set changes the usage as of now" \
		"add user5004/B 1 --from 2100-01-01 --reason x|--from: 2100-01-01 is in the future" \
		"add user5004/B 1 --from 100w --reason x|usage of that time has expired" \
		"add user5004/B 1 --unit gpu-hours --reason x|gpu_weight is 0" "log user5004/B 1|log has no AMOUNT"; do
		test_expect_code 2 credit ${row%%|*} 2>err && cat err && grep -F -e "${row#*|}" err || return 1
	done && credit log --json >after.log && test_cmp before.log after.log
'
test_expect_success 'the table of credits rejects changes by other programs' '
	for statement in "UPDATE fairshare_credit_table SET usage = 0" "DELETE FROM fairshare_credit_table"; do
		test_must_fail run_sql "$statement" 2>err && grep "add another credit" err || return 1
	done && credit log --json >after.log && test_cmp before.log after.log
'
test_expect_success 'the programs of flux-accounting work on a database with credits and ignore them' '
	cp $DB theirs.db && flux account-update-usage -p theirs.db && flux account-update-fshare -p theirs.db &&
	flux account view-bank root -t && flux account view-user user5003 &&
	flux fairshare sync --only usage --usage-rule flux-accounting -p theirs.db 2>err && cat err && grep "4 credits ignored by usage rule flux-accounting" err
'
test_expect_success 'credits survive scrub and a change of the half-life' '
	flux fairshare scrub -p $DB 0 && test $(run_sql "SELECT count(*) FROM jobs") -gt 0 &&
	flux account edit-config priority_decay_half_life=2592000 && sync -v 2>err; cat err; test $(credit log --json | jq ".credits | length") = 4
'
finish
test_done
