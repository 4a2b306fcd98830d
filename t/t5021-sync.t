#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare sync from jobs to the plugin, read by flux-accounting, and on full and read-only disks'
# Rules: U6, U8, U12

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# Tests with a full and a read-only disk need the permission to mount a file system.
unshare -rm true 2>/dev/null && test_set_prereq UNSHARE
# run_on_small_disk SCRIPT: runs the script with ./disk as a small file system that no other process sees.
run_on_small_disk() {
	# shellcheck disable=SC2097,SC2098 # the assignment of DB exports its present value
	mkdir -p disk && DB=$DB SYNC="$FAIRSHARE_UNDER_TEST sync --only usage --only fairshare -p disk/$DB" \
		unshare -rm sh -e -c "mount -t tmpfs -o size=2m none disk; cp late.db disk/$DB; $1; cp disk/$DB disk.db"
}

# check_usages FILE FILE: checks that user ids and usages are equal, except for rounding.
check_usages() {
	cat "$1" "$2" && test "$(cut -d" " -f1 "$1")" = "$(cut -d" " -f1 "$2")" &&
	join "$1" "$2" | while read id a b; do jq -ne "($a - $b) | fabs < 3e-5" || return 1; done
}

# compute_usages: computes the usage of each user from job-list.
compute_usages() {
	flux jobs -A -a -n -o "{userid} {t_run} {t_inactive} {nnodes}" |
		awk '{ used[$1] += sprintf("%.5f", $4 * ($3 - $2)) } END { for (id in used) printf "%d %.5f\n", id, used[id] }' | sort
}

test_expect_success 'an instance has the plugin, a site and ended jobs of three users' '
	write_conf "$(with_plugin)" && start_instance && make_site && flux fairshare push -p $DB &&
	a=$(mf submit 5001 --run 0.4s) && b=$(mf submit 5002 -N 2 -n 2 --run 0.6s) &&
	c=$(mf submit 5003 -N 4 -n 4 --run 0.3s) && d=$(mf submit 5001 -N 3 -n 3 --run 0.2s) && wait_ended $a $b $c $d
'
test_expect_success 'sync fetches, counts, ranks and pushes in one run, and reports the result' '
	flux fairshare sync -v -p $DB 2>out && cat out &&
	grep "4 records counted" out && grep "generation [0-9]* is in the plugin" out
'
test_expect_success 'the usage of each user equals the usage computed from job-list' '
	compute_usages >hand && run_sql "SELECT userid, job_usage FROM association_table WHERE job_usage > 0 ORDER BY 1" >found &&
	test $(wc -l <hand) = 3 && check_usages hand found
'
test_expect_success 'the fair-shares equal those of flux account-update-fshare for this usage' '
	print_stored >ours && cp $DB theirs.db && flux account-update-fshare -p theirs.db &&
	DB=theirs.db print_stored >theirs && join ours theirs >both && test $(wc -l <both) = 4 &&
	while read user a b; do jq -ne "($a - $b) | fabs < 5.1e-7" || return 1; done <both
'
test_expect_success 'the plugin has the fair-shares of the database' '
	mf query | jq -r ".mf_priority_map[] | select(.userid < 6000 and .userid > 5000) | [\"user\\(.userid)\", .banks[0].fairshare] | @tsv" >sent &&
	join ours sent >both && test $(wc -l <both) = 4 &&
	while read user a b; do jq -ne "($a - $b) | fabs < 1e-15" || return 1; done <both
'
test_expect_success 'flux account view-user -J prints the bins that sync stored' '
	flux account view-user -J user5001 >out && cat out &&
	jq -e --argjson want "$(run_sql "SELECT job_usage FROM association_table WHERE userid = 5001")" \
		"[.[] | select(.period == 0) | .value | tonumber] == [\$want]" out
'
test_expect_success 'flux account view-bank -t prints the usage that sync stored' '
	flux account view-bank -t root >out && cat out &&
	total=$(run_sql "SELECT job_usage FROM bank_table WHERE bank = \"root\"") && shown=$(awk "/^root/ { print \$NF }" out) &&
	jq -ne "($total - $shown) | fabs < 0.006"
'
# check_shown_usage NAME USAGE: checks the usage in the row NAME of ./out, which has two decimals.
check_shown_usage() {
	jq -ne "$(awk -v name="$1" '$1 == name { print $NF }' out) - $2 | fabs < 0.006" >/dev/null || { echo "of $1 it is not $2"; return 1; }
}
# sum_usages USERID...: prints the sum of the usages that compute_usages printed.
sum_usages() { awk -v ids=" $* " 'index(ids, " " $1 " ") { sum += $2 } END { print sum }' hand; }
test_expect_success 'flux account show-usage prints the usage of associations that sync stored' '
	flux account show-usage associations >out && cat out && for id in 5001 5002 5003; do check_shown_usage user$id $(sum_usages $id) || return 1; done
'
test_expect_success 'flux account show-usage prints the usage of banks that sync stored' '
	flux account show-usage banks >out && cat out && check_shown_usage A $(sum_usages 5001 5002) && check_shown_usage B $(sum_usages 5003)
'
test_expect_success 'flux account view-job-records prints the records that sync stored' '
	flux account view-job-records >out && cat out && test $(grep -c " 500[123] " out) = 4
'
test_expect_success 'flux account view-usage-report prints the usage that sync stored' '
	flux account view-usage-report -s "$(date -d yesterday +%m/%d/%y)" -e "$(date -d tomorrow +%m/%d/%y)" >out && cat out &&
	total=$(awk "/^TOTAL/ { print \$2 }" out) &&
	flux fairshare usage -p $DB --json >usage.json &&
	jq -e --argjson want "$total" "(.node_hours * 3600 - \$want) | fabs < 0.006" usage.json
'
test_expect_success 'usage --by bank --since 1d prints the sums of the usages computed from job-list' '
	flux fairshare usage -p $DB --by bank --since 1d --json >usage.json &&
	for bank in "A $(sum_usages 5001 5002)" "B $(sum_usages 5003)"; do
		jq -e --arg bank "${bank% *}" --argjson want "${bank#* }" ".usage[] | select(.bank == \$bank) | (.node_hours * 3600 - \$want) | fabs < 0.006" \
			usage.json || { echo "$bank"; cat usage.json; return 1; }
	done
'
test_expect_success 'a second sync without new jobs changes nothing' '
	cp $DB before.db && flux fairshare sync --only fetch --only usage --only fairshare -p $DB && cmp before.db $DB
'
test_expect_success 'sync pushes edits if the clock is behind the last count, and ends with exit status 2' '
	of_5001() { mf query >all && jq -e "$@" all; } && select=".mf_priority_map[] | select(.userid == 5001) | .banks[0]" &&
	before=$(of_5001 "$select.fairshare") &&
	run_sql "UPDATE fairshare_usage_marks SET ran = ran + 100000" && flux account edit-user user5001 --max-active-jobs=55 --shares=9 &&
	test_expect_code 2 flux fairshare sync -p $DB 2>behind.err && cat behind.err && grep "the clock went back" behind.err &&
	grep "all changes are stored" behind.err && of_5001 "$select.max_active_jobs == 55" &&
	of_5001 --argjson want "$(run_sql "SELECT fairshare FROM association_table WHERE userid = 5001")" --argjson before "$before" \
		"$select.fairshare | . == \$want and . != \$before" &&
	run_sql "UPDATE fairshare_usage_marks SET ran = ran - 100000"
'
# print_plugin_usage USERID: prints the usage of a user in the plugin.
print_plugin_usage() { mf rpc standing "{\"user\":$1}" | sed "s/^ok //" | jq .associations[0].usage; }
test_expect_success 'flux account clear-usage clears the usage of one bank in the plugin too' '
	cp $DB kept.db && other=$(print_plugin_usage 5003) && jq -ne "$(print_plugin_usage 5001) > 0 and $other > 0" &&
	flux account clear-usage A && flux fairshare push -p $DB && print_plugin_usage 5001 && print_plugin_usage 5002 &&
	jq -ne "[$(print_plugin_usage 5001), $(print_plugin_usage 5002)] == [0, 0] and ($(print_plugin_usage 5003) / $other - 1 | fabs) < 0.01" &&
	cp kept.db $DB && flux fairshare push -p $DB && jq -ne "$(print_plugin_usage 5001) > 0"
'
test_expect_success 'update-usage continues from the database that sync wrote' '
	id=$(mf submit 5004 --run 0.2s) && wait_ended $id && flux fairshare sync --only fetch -p $DB && cp $DB late.db &&
	flux account-update-usage -p $DB && compute_usages >hand &&
	run_sql "SELECT userid, job_usage FROM association_table WHERE job_usage > 0 ORDER BY 1" >found &&
	check_usages hand found
'
test_expect_success UNSHARE 'a full disk is an error that changes nothing, and the next run stores all' '
	run_on_small_disk "dd if=/dev/zero of=disk/full bs=4k 2>/dev/null || true
		status=0; \$SYNC 2>full.err || status=\$?; cat full.err; test \$status = 2
		cmp late.db disk/\$DB; rm -f disk/full disk/*-journal; \$SYNC" &&
	grep "full\|disk I/O" full.err && grep "nothing was changed" full.err &&
	DB=disk.db run_sql "SELECT userid, job_usage FROM association_table WHERE job_usage > 0 ORDER BY 1" >found &&
	check_usages hand found
'
test_expect_success UNSHARE 'a read-only disk is an error' '
	run_on_small_disk "mount -o remount,ro disk
		status=0; \$SYNC 2>ro.err || status=\$?; cat ro.err; test \$status = 2; mount -o remount,rw disk
		cmp late.db disk/\$DB" && grep "read-only" ro.err
'
test_expect_success 'a user whose user id changes keeps the usage, also after a recount' '
	print_user_usage() { run_sql "SELECT job_usage FROM association_table WHERE username = \"user5004\""; } &&
	cp late.db $DB && flux fairshare recount --write -p $DB && print_user_usage >before && cat before && ! grep -x "0\(\.0\)*" before &&
	flux account edit-user user5004 --userid=5999 && flux account sync-userids && flux fairshare recount --write -p $DB && print_user_usage >after && test_cmp before after
'
test_expect_success 'sync reports a database that another process has locked' '
	cp late.db $DB && hold_lock && test_expect_code 2 flux fairshare sync --only usage --wait 0.2 -p $DB 2>locked.err
	rc=$?; release_lock; test $rc = 0 && grep "locked by another process" locked.err && cmp late.db $DB
'
test_expect_success 'sync reports a missing Flux and leaves the database unchanged' '
	stop_service && stop_instance &&
	test_expect_code 2 flux fairshare sync -p $DB 2>gone.err && cat gone.err && grep "connect to Flux" gone.err && cmp late.db $DB
'
test_done
