#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='push, update, sync and the plugin accept each value that flux account can store'
# Rules: D9

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# print_associations: prints user ids and banks of the plugin, without the instance owner.
print_associations() {
	mf query | jq -r '.mf_priority_map[] | select(.userid > 5000) | .userid as $id | .banks[] | "\($id)/\(.bank_name)"' | paste -sd" "
}
# check_fairshares: checks that users 5001 to 5004 have the same fair-share in the plugin and in the database.
check_fairshares() {
	run_sql "SELECT userid, bank, fairshare FROM association_table WHERE userid BETWEEN 5001 AND 5004 ORDER BY userid" |
		jq -Rr 'split(" ") | "\(.[0]) \(.[1]) \(.[2] | tonumber)"' >want &&
	mf query | jq -r '.mf_priority_map[] | select(.userid > 5000 and .userid < 5005) | "\(.userid) \(.banks[0].bank_name) \(.banks[0].fairshare)"' >have &&
	test_cmp want have
}
all="5001/A 5002/A 5003/B 5004/B"

test_expect_success 'flux account stores user ids that no job can have' '
	start_instance && make_site && load_plugin && set_usage 5001 60 && set_usage 5002 30 && set_usage 5003 10 &&
	flux account add-user --username=nobody-here --bank=A &&
	flux account add-user --username=minus --userid=-3 --bank=A &&
	flux account add-user --username=huge --userid=99999999999999999999 --bank=B &&
	flux account add-user --username=text --userid=five --bank=B &&
	test "$(run_sql "SELECT userid FROM association_table WHERE username = '"'nobody-here'"'")" = 4294967295
'
test_expect_success 'push applies all other records and names each skipped user' '
	clear_log && flux fairshare push -p $DB >push.out 2>&1 && cat push.out &&
	test "$(print_associations)" = "$all" && for user in nobody-here minus huge text; do
		log_has "no job can match user $user in bank" || return 1
	done && flux dmesg | grep "job-manager.warning.*no job can match user minus"
'
test_expect_success 'push --dry-run names the skipped users' '
	flux fairshare push --dry-run -p $DB >dry.out 2>&1 && grep "no job can match user nobody-here in bank A" dry.out
'
test_expect_success 'update ranks the skipped users too' '
	flux fairshare update -p $DB -v >update.out 2>&1 && cat update.out && grep "8 associations" update.out
'
test_expect_success 'sync applies all other records' '
	remove_plugin && flux kvs unlink -Rf mf_priority && load_plugin && flux fairshare sync -p $DB >sync.out 2>&1 &&
	test "$(print_associations)" = "$all"
'
test_expect_success 'the plugin has the fair-shares of the database, so skipped users count in the tree' '
	check_fairshares
'
test_expect_success 'flux account-priority-update applies all other records' '
	flux account edit-user --userid=5009 text && flux account edit-user --userid=5010 huge &&
	reload_plugin && flux kvs unlink -Rf mf_priority && reload_plugin && clear_log && flux account-priority-update -p $DB &&
	test "$(print_associations)" = "$all 5009/B 5010/B" && log_has "no job can match userid 4294967295 in bank A" &&
	log_has "no job can match userid -3 in bank A"
'
test_expect_success 'a load with such a document applies all other records' '
	remove_plugin && flux kvs unlink -Rf mf_priority && flux account export-json >export.json && clear_log &&
	flux jobtap load "$PLUGIN" config="$(cat export.json)" && test "$(print_associations)" = "$all 5009/B 5010/B" &&
	log_has "no job can match userid -3 in bank A"
'
test_expect_success 'Flux starts with such a document in the configuration of the broker' '
	stop_instance && write_conf "$(with_plugin export.json)" && start_instance && test "$(print_associations)" = "$all 5009/B 5010/B" &&
	serve_site
'
test_expect_success 'a reload keeps the fair-shares of a tree with skipped users' '
	remove_plugin && load_plugin && flux fairshare push -p $DB && wait_settled &&
	mf query | jq -S "[.mf_priority_map[].banks[].fairshare]" >before &&
	tries=0 && until flux kvs get mf_priority.remember.manifest >/dev/null 2>&1; do
		test $((tries += 1)) -lt 100 || return 1; sleep 0.1
	done && sleep 1 && remove_plugin && load_plugin &&
	tries=0 && until test "$(print_associations | wc -w)" -ge 6; do test $((tries += 1)) -lt 100 || return 1; sleep 0.1; done &&
	mf query | jq -S "[.mf_priority_map[].banks[].fairshare]" >after && test_cmp before after
'

# Several users may have the user id 65534, the column default of databases before flux-accounting 0.56.
test_expect_success 'departed users with the same user id are separate leaves of the tree' '
	for user in cy dan eve; do flux account add-user --username=$user --userid=65534 --bank=A || return 1; done &&
	run_sql "UPDATE association_table SET job_usage = 5000 WHERE username = '"'cy'"'" &&
	run_sql "UPDATE association_table SET job_usage = 100 WHERE username = '"'user5003'"'" &&
	flux fairshare update -p $DB && clear_log && flux fairshare push -p $DB &&
	check_fairshares
'
test_expect_success 'the log names the user whose record counts for a shared user id' '
	log_has "have user id 65534 in bank A: the record of eve applies to jobs of this user id, because it is the last; 1 more user shares a user id"
'
test_expect_success 'a job of a shared user id gets the fair-share of the named record' '
	stop_queues && id=$(mf submit 65534) && wait_scheduled $id &&
	share=$(run_sql "SELECT fairshare FROM association_table WHERE username = '"'eve'"'") && prio_is $id $(jq -n "100000 * $share | floor") &&
	cancel $id && wait_ended $id && start_queues # a run would add live usage to this user id
'

# The departed users cy and dan share a user id. If these users were one leaf of the tree, the priority would be 66667 for the job of ann, and
# 33333 for the job of ben.
test_expect_success 'jobs of other users have the order of the fair-shares in the database if departed users share a user id' '
	run_sql "DELETE FROM association_table" &&
	flux account add-user --username=ann --userid=5021 --bank=A &&
	flux account add-user --username=cy --userid=65534 --bank=A &&
	flux account add-user --username=dan --userid=65534 --bank=A &&
	flux account add-user --username=ben --userid=5022 --bank=B &&
	set_usage 5021 10 && set_usage 5022 100 &&
	run_sql "UPDATE association_table SET job_usage = 500 WHERE username = '"'cy'"'" &&
	flux fairshare update -p $DB && flux fairshare push -p $DB && stop_queues &&
	ann=$(mf submit 5021) && ben=$(mf submit 5022) && wait_scheduled $ann && wait_scheduled $ben &&
	run_sql "SELECT username, fairshare FROM association_table WHERE username IN ('"'ann', 'ben'"') ORDER BY username" >order &&
	printf "ann 0.5\nben 1.0\n" >want && test_cmp want order &&
	prio_is $ann 50000 && prio_is $ben 100000 && start_queues
'

finish
