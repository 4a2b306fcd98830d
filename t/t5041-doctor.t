#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare doctor: what goes wrong quietly, and what to do about it'

# A sequence: the instance and the site of the first test are those of all.
. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"

# found STATUS CODES: these are told, and no others.
found() {
	test_expect_code "$1" flux fairshare doctor -p $DB --json >doctor.json && shift &&
	jq -e ".findings | type == \"array\"" doctor.json && test "$(jq -r "[.findings[].code] | join(\" \")" doctor.json)" = "$*" || { cat doctor.json; return 1; }
}
doctor() { flux fairshare doctor -p $DB "$@"; }

test_expect_success 'without a plugin that is the first thing to do' '
	start_instance && make_site && found 1 not-loaded && test_expect_code 1 doctor >out && grep -e "-> flux jobtap load -r .priority-default mf_priority.so" out
'
test_expect_success 'a plugin without data is told of' '
	load_plugin && found 1 no-data && test_expect_code 1 doctor >out && grep "!! no-data: the plugin has no data: all jobs wait" out
'
test_expect_success 'of a site whose data are in the plugin nothing is told, and that is success' '
	flux fairshare push -p $DB && found 0 && doctor >out && grep "nothing is wrong with $DB" out
'
test_expect_success 'what the database gets wrong is told with whom it is about' '
	flux account add-user --username=user5009 --userid=5009 --bank=B --shares=1 --max-running-jobs=0 && flux fairshare push -p $DB &&
	found 1 limits-hold-everything && jq -e ".findings[0].whom == [\"user5009 in B\"]" doctor.json
'
test_expect_success 'what was not pushed is told' '
	flux account edit-user user5009 --max-running-jobs=5 && for u in 5010 5011; do
		flux account add-user --username=user$u --userid=$u --bank=B || return 1; done && found 1 not-pushed && flux fairshare push -p $DB && found 0
'
test_expect_success 'a job that waits for its user is told of' '
	remove_plugin && flux kvs unlink -Rf mf_priority && load_plugin && a=$(mf submit 5077) && wait_for depend $a && settled &&
	test_expect_code 1 doctor --json >doctor.json &&
	jq -e "[.findings[] | select(.code == \"waiting\") | .whom] == [[\"user 5077\"]]" doctor.json &&
	cancel $a && ended $a && flux fairshare push -p $DB && found 0
'
test_expect_success 'old data are told of, after as many hours as asked for' '
	sleep 2 && test_expect_code 1 doctor --stale 0.0001 >out && grep "data-old: " out
'
test_expect_success 'without Flux the database is looked at, and that is said' '
	(unset FLUX_URI; test_might_fail flux fairshare doctor -p $DB --uri local:///nonexistent >out) && grep "no-flux: the plugin was not asked" out
'
test_expect_success 'a database that is not there is the trouble' '
	test_expect_code 1 flux fairshare doctor -p nowhere.db >out && grep "!! no-database: " out && grep "flux account create-db" out
'
test_expect_success 'the service that edits the database ends' 'stop_service'
finish
