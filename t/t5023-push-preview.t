#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare push --dry-run predicts the effects of the push'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

preview_push() { flux fairshare push --dry-run -p $DB --json; }
# list_priorities: prints id and priority of each job.
list_priorities() { mf jobs | cut -d" " -f1,4 | sort; }

test_expect_success 'an instance has pending jobs of three users' '
	write_conf "$(with_plugin)" && start_instance && make_site && flux fairshare push -p $DB && stop_queues &&
	for user in 5001 5002 5003 5001 5002 5003; do mf submit $user || return 1; done >ids &&
	wait_scheduled $(cat ids) && list_priorities >before && test $(wc -l <before) = 6
'
test_expect_success 'push --dry-run reports no moves if the data are unchanged' '
	preview_push >out && jq -e ".pending == 6 and .repriced == 0 and .moves == []" out
'
test_expect_success 'push --dry-run reports the jobs that changed usages move' '
	set_usage 5001 500 && set_usage 5003 10 && preview_push >out && cat out && jq -e ".repriced > 0 and (.moves | length) > 0" out
'
test_expect_success 'push --dry-run changes no priority' '
	list_priorities >after && test_cmp before after
'
test_expect_success 'push --dry-run prints user, places and priorities of each move' '
	flux fairshare push --dry-run -p $DB >words && cat words && grep "would send 5 associations (with the instance owner)" words &&
	grep "of 6 pending jobs" words && grep "  .* of .*: place [0-9]* to [0-9]*, priority [0-9]* to [0-9]*" words
'
test_expect_success 'the push gives the jobs the priorities that the dry run reported' '
	flux fairshare push -p $DB && wait_settled && list_priorities >after && jq -r ".moves[] | \"\\(.id) \\(.priority[1])\"" out | sort >said &&
	test -s said && grep -Fxf said after >found && test_cmp said found
'
test_expect_success 'push --dry-run names an association that the push would remove with live jobs' '
	cp $DB fewer.db && (DB=fewer.db && run_sql "DELETE FROM association_table WHERE userid = 5002") &&
	flux fairshare push --dry-run -p fewer.db >words && cat words && grep "5002 in bank A would be removed; 2 live jobs" words
'
test_expect_success 'push --dry-run names a job that waits for data and would end' '
	remove_plugin && flux kvs unlink -Rf mf_priority && load_plugin && id=$(mf submit 5009 -B A) && preview_push >out && cat out &&
	jq -e ".rejected | length == 1 and .[0].userid == 5009" out
'
test_expect_success 'push --dry-run refuses an invalid tree and names the cause' '
	cp $DB wrong.db && (DB=wrong.db && run_sql "UPDATE bank_table SET parent_bank = \"nowhere\" WHERE bank = \"B\"") &&
	mf query >before && test_must_fail flux fairshare push --dry-run -p wrong.db 2>err && cat err && grep nowhere err
'
test_expect_success 'push refuses an invalid tree and names the cause' '
	test_must_fail flux fairshare push -p wrong.db 2>err && grep nowhere err
'
test_expect_success 'refused pushes change nothing' '
	mf query >after && test_cmp before after
'
test_expect_success 'no job is left, and the service that edits the database ends' 'cancel_all && stop_service'
finish
