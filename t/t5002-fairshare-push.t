#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare push sends the database to our plugin or to the plugin of flux-accounting'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# print_records: prints the records in the plugin's query document. Leaves out counters.
print_records() {
	mf query | jq -S '[.mf_priority_map, .queues, .projects] | del(.[0][].banks[].queue_usage, .[0][].banks[].held_jobs)'
}

test_expect_success 'flux account makes a database with its own weights and priorities' '
	start_instance && make_site && set_usage 5001 60 && set_usage 5002 30 && set_usage 5003 10 &&
	flux account edit-factor --factor=fairshare --weight=1000 &&
	flux account edit-bank A --priority=2.5 && flux fairshare update -p $DB
'
test_expect_success 'push fails without the plugin and says how to check' '
	test_must_fail flux fairshare push -p $DB >push.out 2>&1 &&
	grep "job-manager.mf_priority.rec_update" push.out && grep "shows whether the plugin is loaded" push.out
'
test_expect_success 'push -v lists the number of records that the plugin accepted' '
	load_plugin && flux fairshare push -p $DB -v >push.out &&
	grep "^sent 5 associations (with the instance owner), 1 queue, 2 projects, 3 banks, 4 factor weights, the config;" push.out
'
test_expect_success 'push gives the plugin the same records as flux account-priority-update' '
	print_records >ours && remove_plugin && flux kvs unlink -Rf mf_priority && load_plugin && print_records >none && ! test_cmp none ours &&
	flux account-priority-update -p $DB && print_records >theirs && test_cmp theirs ours
'
test_expect_success 'push replaces all data of our plugin and reports the changes' '
	if mf rpc policy_abort "{\"push\":0}" >reply; grep -q ENOSYS reply; then
		flux fairshare push -p $DB --json | jq -e ".changes == null and .sent.associations == 5"
	else
		mf data assoc 5009 Z && flux fairshare push -p $DB --json >push.json &&
		jq -e "[.changes | .added, .changed, .removed, .unchanged] == [0, 0, 1, 5]" <push.json &&
		jq -e ".sent.banks == 3 and .owner == \"$(id -un)\"" <push.json && print_records >again && test_cmp again ours &&
		log_has "mf_priority: policy: generation" && flux fairshare push -v -p $DB | grep "; associations: 0 added, 0 changed, 0 removed, 5 unchanged"
	fi
'
test_expect_success 'push ends with exit status 2 if Flux disappears, and applies no part' '
	print_records >before && cp $DB cut.db && (DB=cut.db && run_sql "UPDATE association_table SET max_running_jobs = 77") &&
	for answers in 0 1 2 3 4 5 6; do
		start_relay --cut $answers || return 1
		test_expect_code 2 flux fairshare push -p cut.db --uri "$through" 2>err
		rc=$?; end_relay; cat err
		test $rc = 0 && grep -e "Flux has no attribute security.owner$" \
			-e "cut.db: nothing was accepted: .*job-manager.mf_priority\.policy_[a-z]*: ." err || return 1
	done &&
	{ mf rpc policy_abort "{\"push\":0}" >reply; grep -q ENOSYS reply || { print_records >after && test_cmp before after; }; }
'
test_expect_success 'the next push after a failed one applies all data' '
	flux fairshare push -p cut.db && print_records | jq -e "[.[0][].banks[].max_run_jobs] | index(77)" &&
	flux fairshare push -p $DB && print_records >after && test_cmp before after
'
test_expect_success 'push keeps a switch that the database lacks' '
	mf rpc rec_config_update "{\"data\":{\"deny_unknown_queues\":false,\"zero_score\":\"floor\"}}" &&
	before=$(mf query "q.get(\"config\")") && echo "$before" | grep floor && flux fairshare push -p $DB &&
	test "$(mf query "q.get(\"config\")")" = "$before" && mf rpc rec_config_update "{\"data\":{\"zero_score\":\"hold\"}}"
'
test_expect_success 'flux account-priority-update keeps a switch that was given at load' '
	flux account export-json | jq ".config.zero_score = \"floor\"" >floor.json && reload_plugin floor.json &&
	before=$(mf query "q.get(\"config\")") && echo "$before" | grep floor && flux account-priority-update -p $DB &&
	test "$(mf query "q.get(\"config\")")" = "$before"
'
test_expect_success 'push sends fair-shares with all their digits' '
	reload_plugin && flux fairshare push -p $DB &&
	print_stored >values && cat values &&
	mf query | jq -r ".mf_priority_map[] | select(.userid < 6000 and .userid > 5000) | [\"user\\(.userid)\", .banks[0].fairshare] | @tsv" >sent &&
	join values sent >both && test $(wc -l <both) = 4 &&
	while read user a b; do jq -ne "($a - $b) | fabs < 1e-15" || return 1; done <both
'
test_expect_success 'a job gets its priority from the pushed fair-shares' '
	stop_queues && id=$(mf submit 5004) && wait_scheduled $id &&
	value=$(print_stored | awk "/user5004/ { print \$2 }") &&
	prio_is $id $(jq -n "1000 * $value | floor")
'
test_expect_success 'a second push changes the priority of a pending job' '
	set_usage 5004 1000000 && flux fairshare update -p $DB && flux fairshare push -p $DB &&
	value=$(print_stored | awk "/user5004/ { print \$2 }") &&
	want=$(jq -n "1000 * $value | floor") &&
	for i in $(seq 50); do test "$(mf prio $id)" = $want && break; sleep 0.1; done && prio_is $id $want
'
test_expect_success 'the instance owner may submit without a record in the database' 'mf submit $(id -u)'
test_expect_success 'the instance owner without a record in the database has one record in the plugin' '
	print_records | jq -e ".[0][] | select(.userid == $(id -u)) | .banks | length == 1"
'
test_expect_success 'push sends only the record of the database for an instance owner in the database' '
	flux account add-user --username=$(id -un) --userid=$(id -u) --bank=B --max-active-jobs=9 &&
	cancel_all && reload_plugin && flux fairshare push -v -p $DB >push.out && ! grep "instance owner" push.out &&
	print_records | jq -e ".[0][] | select(.userid == $(id -u)) | .banks | length == 1 and .[0].bank_name == \"B\""
'
test_expect_success 'jobs of the instance owner get the bank of the database' '
	id=$(mf submit $(id -u)) && wait_scheduled $id && test "$(mf spec $id attributes.system.bank)" = B
'
test_expect_success 'push accepts the document of flux account export-json' '
	cancel_all && flux fairshare sync --only fairshare -p $DB && flux fairshare push -p $DB && print_records >before && flux account export-json >export.json && remove_plugin && flux kvs unlink -Rf mf_priority && load_plugin &&
	flux fairshare push -p export.json && print_records >after && test_cmp before after
'
test_expect_success 'push names the record and key that the plugin refuses' '
	jq ".associations[0].def_bank = \"\"" export.json >refused.json &&
	test_must_fail flux fairshare push -p refused.json 2>push.err && cat push.err &&
	grep "policy_part: .*associations\[0\].def_bank: .*(user 5001, bank A)" push.err && grep "nothing was accepted" push.err
'
test_expect_success 'no job is left, and the service that edits the database ends' 'cancel_all && stop_service'
finish
