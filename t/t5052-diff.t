#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare diff lists what differs between the database, the plugin and the configuration of Flux'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# run_diff STATUS: runs diff and checks its exit status. print_rows: prints the differences of the last run, one a line.
run_diff() { test_expect_code "$1" flux fairshare diff -p $DB --json >diff.json || { cat diff.json; return 1; }; }
print_rows() { jq -r '.differences[] | [.kind, .name, .field, .database, .plugin, .flux] | map(. // "-") | join(" ")' diff.json; }
# check_rows STATUS ROW...: checks that diff lists exactly these rows, and that its member "unlisted" is empty.
check_rows() {
	run_diff "$1" && shift && printf "%s\n" "$@" >expected && print_rows >out && test_cmp expected out && jq -e ".unlisted == {}" diff.json
}

test_expect_success 'diff without a plugin is an error that says how to load it' '
	write_conf "$(with_queues silver)" && start_instance && make_site && test_expect_code 2 flux fairshare diff -p $DB 2>err && cat err &&
	grep "no priority plugin is loaded: \"flux jobtap load mf_priority.so\" loads it" err
'
test_expect_success 'diff of a plugin without data lists all records' '
	load_plugin && run_diff 1 && print_rows >out && cat out && grep "^bank A - present missing -$" out && grep "^queue silver - present missing -$" out &&
	grep "^project physics - present missing -$" out && test "$(grep -c "^association .* - present missing -$" out)" = 5
'
test_expect_success 'diff after a push finds no difference, and ends with exit status 0' '
	flux fairshare push -p $DB && run_diff 0 && jq -e ".differs == false and .differences == [] and .unlisted == {}" diff.json &&
	flux fairshare diff -p $DB >out && cat out && grep "agree" out && grep "Usage and live fair-shares are not compared" out
'
test_expect_success 'diff finds no difference after usage changed, and counts stored fair-shares that were not pushed' '
	set_usage 5001 123456 && run_diff 0 && flux fairshare update -p $DB && run_diff 1 && jq -e ".unlisted.association >= 1 and .differences == []" diff.json &&
	test_expect_code 1 flux fairshare diff -p $DB >out && cat out && grep "^[0-9]* associations* differ in the stored fair-share" out &&
	flux fairshare push -p $DB && run_diff 0
'
test_expect_success 'diff lists an edited limit with both values' '
	flux account edit-user user5001 --max-running-jobs=3 && check_rows 1 "association 5001/A max_running_jobs 3 5 -" &&
	test_expect_code 1 flux fairshare diff -p $DB >out && cat out && grep "^association  5001/A  max_running_jobs  3  *5" out && grep "flux fairshare push" out
'
test_expect_success 'diff lists edited shares, banks, queues and factors' '
	flux fairshare push -p $DB && flux account edit-user user5003 --shares=8 && flux account edit-bank A --shares=31 && flux account edit-queue silver --priority=6 &&
	flux account edit-factor --factor=queue --weight=77 &&
	check_rows 1 "association 5003/B shares 8 3 -" "bank A shares 31 30 -" "queue silver priority 6 5 -" "factor queue weight 77 10000 -"
'
test_expect_success 'diff lists new and removed associations and a limit of a scope' '
	flux fairshare push -p $DB && flux account add-user --username=user5010 --userid=5010 --bank=B && flux account delete-user --force user5004 B &&
	flux fairshare limit set bank A --path $DB run-nodes=4 && run_diff 1 && print_rows >out && cat out &&
	grep "^association 5010/B - present missing -$" out && grep "^association 5004/B - missing present -$" out &&
	grep "^limit bank A run-nodes - present missing -$" out && test $(wc -l <out) = 3
'
test_expect_success 'diff lists another default bank' '
	flux fairshare push -p $DB && flux account add-user --username=user5003 --userid=5003 --bank=A && flux fairshare push -p $DB && run_diff 0 &&
	flux account edit-user user5003 --default-bank=A && check_rows 1 "association 5003/A is_default_bank true false -" "association 5003/B is_default_bank false true -" &&
	flux fairshare push -p $DB && run_diff 0
'
test_expect_success 'diff lists queues that only the database or only the configuration of Flux has' '
	flux account add-queue gold && flux fairshare push -p $DB && check_rows 1 "queue gold - present - missing" &&
	flux account delete-queue silver && flux fairshare push -p $DB && check_rows 1 "queue gold - present - missing" "queue silver - missing - present"
'
test_expect_success 'diff changes neither the database nor the data of the plugin' '
	cp $DB before.db && mf query | jq "del(.live)" >before && run_diff 1 && cmp $DB before.db && mf query | jq "del(.live)" >after && test_cmp before after
'
test_expect_success 'diff and doctor list a credit until a sync has counted it' '
	flux account delete-queue gold && flux account add-queue silver && flux fairshare sync -p $DB && flux fairshare push -p $DB && run_diff 0 &&
	flux fairshare credit add user5003/B 2 --reason "a workstation" -p $DB && check_rows 1 "credit user5003/B credit 1 - 2 node-hours not counted -" &&
	test_expect_code 1 flux fairshare diff -p $DB >out && cat out && grep "flux fairshare sync" out && test_must_fail grep "flux fairshare push" out &&
	test_might_fail flux fairshare doctor -p $DB >out && cat out && grep "^-- credits-not-counted: " out &&
	flux fairshare sync -p $DB && flux fairshare push -p $DB && run_diff 0 && test_might_fail flux fairshare doctor -p $DB >out && test_must_fail grep credits-not-counted out
'
test_expect_success 'diff is for the owner' '
	test_expect_code 2 env FLUX_HANDLE_USERID=5001 FLUX_HANDLE_ROLEMASK=0x2 flux fairshare diff -p $DB 2>err && cat err && grep "owner" err
'
test_expect_success 'the service that edits the database ends' 'stop_service'
finish
