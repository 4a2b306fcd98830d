#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='the ranking policy in the database: our commands use it, and flux-accounting keeps it'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

print_policy() { flux fairshare "$@" -p $DB --json | jq -r .policy; }

test_expect_success 'a new database has the ranking policy weighted-walk' '
	start_instance && make_site && set_usage 5001 60 && set_usage 5002 30 && set_usage 5003 10 && set_usage 5004 0 &&
	test "$(print_policy policy)" = weighted-walk
'
test_expect_success 'a site selects another ranking policy' '
	flux fairshare policy classic --set dampening=2 -p $DB && test "$(print_policy policy)" = classic
'
test_expect_success 'show uses the ranking policy of the site' '
	test "$(print_policy show)" = classic
'
test_expect_success 'sync stores fair-shares by the ranking policy of the site' '
	flux fairshare show -p $DB --json | jq -r ".nodes[] | select(.user) | [.user, .fairshare] | @tsv" | sort >wanted &&
	flux fairshare sync --only fairshare -p $DB && print_stored | sort >found && join wanted found >both &&
	test $(wc -l <both) = 4 && while read user a b; do jq -ne "($a - $b) | fabs < 1e-12" || return 1; done <both
'
test_expect_success 'flux account list-configs prints the ranking policy' '
	flux account list-configs >configs && cat configs && grep "fairshare.policy.*classic" configs
'
test_expect_success 'show uses the ranking policy that flux account edit-config sets' '
	flux account edit-config fairshare.policy=fair-tree && test "$(print_policy show)" = fair-tree
'
test_expect_success 'show refuses an unknown ranking policy and names it' '
	flux account edit-config fairshare.policy=fairest && test_must_fail flux fairshare show -p $DB 2>err && cat err &&
	grep "config_table: fairshare.policy: unknown policy \"fairest\"" err && flux account edit-config fairshare.policy=pbs
'
test_expect_success 'the update programs of flux-accounting run and keep the ranking policy' '
	flux account-update-usage -p $DB && flux account-update-fshare -p $DB && test "$(print_policy policy)" = pbs
'
test_expect_success 'flux account-update-db keeps the ranking policy' '
	cp $DB old.db && sqlite3 old.db "PRAGMA user_version = 30" && flux account-update-db -p old.db &&
	test "$(DB=old.db; print_policy policy)" = pbs
'
test_expect_success 'flux account export-json works on a database with a ranking policy' '
	flux account export-json >out && jq -e ".config | has(\"deny_unknown_queues\")" out
'
test_expect_success 'policy --reset removes the options of the former policy' '
	flux fairshare policy weighted-walk --reset -p $DB && test "$(print_policy show)" = weighted-walk &&
	flux account list-configs >configs && grep fairshare.policy configs && ! grep fairshare.dampening configs
'
test_expect_success 'the service that edits the database ends' 'stop_service'
NO_PLUGIN=t
finish
