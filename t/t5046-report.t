#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare report shows the data of the database, of Flux and of other commands'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

run_report() { flux fairshare report -p $DB "$@"; }
# check_data FILTER: checks that the filter is true for ./data.json.
check_data() { jq -e "$1" data.json >/dev/null || { echo "not so: $1"; jq -c .held data.json; return 1; }; }

test_expect_success 'report without a plugin writes a page that says so' '
	start_instance && make_site && set_usage 5001 7200 && set_usage 5003 3600 && run_report --output report.html 2>err && test_must_be_empty err &&
	grep -c "<script" report.html >scripts && run_report --json >data.json && check_data ".held.unknown | startswith(\"No plugin answered: no fair-share plugin is loaded\")" &&
	run_report --no-jobs --json >data.json && check_data ".held == null"
'
test_expect_success 'the page is one file without external references' '
	echo 2 >wanted && test_cmp wanted scripts && ! grep -E "(src|href)=\"[^#]" report.html && grep "default-src .none." report.html
'
test_expect_success 'the figures of the page equal those of the database and of flux account' '
	run_report --json >data.json && check_data ".banks.usage[0] == 10800 and .unit == \"node-seconds\"" &&
	check_data "[.users.name, .users.usage] | transpose | sort == [[\"user5001\", 7200], [\"user5002\", 0], [\"user5003\", 3600], [\"user5004\", 0]]" &&
	flux account-update-fshare -p $DB && run_sql "SELECT username || \" \" || fairshare FROM association_table ORDER BY username" >wanted &&
	jq -r "[.users.name, .users.fairshare] | transpose | sort[] | \"\\(.[0]) \\(if .[1] == 1 then \"1.0\" else .[1] end)\"" data.json >found && test_cmp wanted found &&
	run_report --json >data.json && check_data ".stale == 0"
'
test_expect_success 'the held jobs of the page are those that Flux holds' '
	flux account edit-user user5001 --max-running-jobs=1 && load_plugin && flux fairshare push -p $DB &&
	run=$(mf submit 5001 -t 3600) && wait_running $run && one=$(mf submit 5001) && two=$(mf submit 5001) &&
	wait_held_by $one max-running-jobs-user-limit && wait_held_by $two max-running-jobs-user-limit && run_report --json >data.json &&
	check_data ".held.answer.held == 2 and .held.answer.everybody and .held.answer.by_limit == [[\"max-running-jobs-user-limit\", 2]]" &&
	flux job id --to=f58 $one $two | sort >wanted && jq -r ".held.answer.jobs[].id" data.json | sort >found && test_cmp wanted found &&
	check_data "[.held.answer.jobs[] | .bank, .holds[0]] | unique == [\"A\", \"max-running-jobs-user-limit\"]"
'
test_expect_success 'a guest gets only their own held jobs' '
	FLUX_HANDLE_USERID=5001 FLUX_HANDLE_ROLEMASK=0x2 flux fairshare report -p $DB --json >data.json &&
	check_data ".held.answer.held == 2 and (.held.answer.everybody | not)" &&
	FLUX_HANDLE_USERID=5003 FLUX_HANDLE_ROLEMASK=0x2 flux fairshare report -p $DB --json >data.json && check_data ".held.answer.held == 0"
'
test_expect_success 'report refuses to write to a link or directory, and replaces a file as a whole' '
	echo precious >victim && ln -s victim link && ln -s nowhere dangling &&
	for name in link dangling .; do test_expect_code 2 run_report --output $name 2>err && cat err && grep "is a" err || return 1; done &&
	test "$(cat victim)" = precious && ! test -e nowhere && run_report --output report.html && run_report --output - >out && grep -q "</html>" report.html && grep -q "</html>" out &&
	! ls -A | grep "\.part$"
'
finish
