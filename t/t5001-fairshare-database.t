#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare show and update on a database of flux account'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

test_expect_success 'flux account makes a database with usage' '
	start_instance && make_site &&
	set_usage 5001 60 && set_usage 5002 30 && set_usage 5003 10 && set_usage 5004 0
'
test_expect_success 'flux finds the command' '
	flux fairshare --version | grep flux-fairshare
'
test_expect_success 'show prints fair-shares' '
	flux account view-bank -t root >before &&
	flux fairshare show -p $DB >show.out && grep "^  user5001" show.out
'
test_expect_success 'show changes nothing' '
	flux account view-bank -t root >after && test_cmp before after
'
test_expect_success 'update stores the fair-shares that show printed, and flux account view-bank prints them' '
	flux fairshare show -p $DB --json >show.json &&
	flux fairshare update -p $DB >update.out 2>&1 && test_must_be_empty update.out &&
	flux account view-bank -t root >tree.out && cat tree.out &&
	jq -r ".nodes[] | select(.user) | [.user, .fairshare] | @tsv" show.json >wanted &&
	test $(wc -l <wanted) = 4 &&
	while read user fairshare; do
		stored=$(awk "\$2 == \"$user\" { print \$NF + 0 }" tree.out) &&
		jq -ne "($stored - $fairshare) | fabs < 1e-5" || return 1
	done <wanted
'
test_expect_success 'the stored fair-shares equal those of flux account-update-fshare' '
	print_stored >ours && flux account-update-fshare -p $DB && print_stored >theirs &&
	join ours theirs >both && test $(wc -l <both) = 4 &&
	while read user a b; do jq -ne "($a - $b) | fabs < 5.1e-7" || return 1; done <both
'
test_expect_success 'update --dry-run lists users whose rank a change of usage moves' '
	flux fairshare update -p $DB && set_usage 5003 100000 &&
	print_stored >before && flux fairshare update --dry-run -p $DB >moves && grep user5003 moves
'
test_expect_success 'update --dry-run writes nothing and reports that' '
	grep "nothing was written" moves && print_stored >after && test_cmp before after
'
test_expect_success 'update stores the changed fair-shares' '
	flux fairshare update -p $DB && print_stored >after && ! test_cmp before after
'
test_expect_success 'a deleted user keeps the stored fair-share and has no rank' '
	print_stored >before && flux account delete-user user5003 B && flux fairshare update -p $DB &&
	print_stored >after && grep user5003 before >want && grep user5003 after >have && test_cmp want have &&
	flux fairshare show -p $DB --json --user user5003 >left &&
	jq -e ".nodes[] | select(.user) | .place == null" left
'
test_expect_success 'the usage of a deleted user stays in the usage of the bank' '
	jq -e ".nodes[] | select(.bank == \"B\" and .user == null) | .usage >= 100000" left
'
test_expect_success 'update reports a database that another process has locked' '
	hold_lock && test_must_fail flux fairshare update --wait 0.2 -p $DB 2>locked.err
	rc=$?; release_lock; test $rc = 0 && grep "locked by another process" locked.err
'
test_expect_success 'why reads the database' '
	flux fairshare why user5001 user5002 -p $DB | grep "Their lowest common bank is A"
'
test_expect_success 'compare reads the database' '
	flux fairshare compare --policy weighted-walk,classic -p $DB | grep "Kendall tau"
'
test_expect_success 'a bank that was deleted and added below another parent is ranked there' '
	flux account add-bank --parent-bank=root C 10 &&
	flux account delete-bank A && flux account add-bank --parent-bank=C A 5 &&
	flux account add-user --username=user5001 --bank=A && flux account add-user --username=user5002 --bank=A &&
	test "$(run_sql "SELECT count(*) FROM bank_table WHERE bank = \"A\"")" = 2 &&
	for inactive in count ignore; do
		flux fairshare update -p $DB --set inactive_usage=$inactive &&
		flux fairshare show -p $DB --set inactive_usage=$inactive --json >moved.json &&
		jq -e "[.nodes[] | select(.bank == \"A\" and .user == null) | .parent] == [\"C\"]" moved.json &&
		jq -e "[.nodes[] | select(.bank == \"A\" and .user != null and .place != null)] | length == 2" moved.json || return 1
	done
'
test_expect_success 'push, sync, report and why read a database with a moved bank' '
	flux fairshare push --dry-run -p $DB && flux fairshare sync --only fairshare --dry-run -p $DB &&
	flux fairshare report -p $DB --output moved.html && flux fairshare why user5001 -p $DB
'
test_expect_success 'the service that edits the database ends' 'stop_service'
NO_PLUGIN=t
finish
