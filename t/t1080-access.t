#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='private mode and the admin role, for explain, standing, jobs and their commands'
# Rules: K34

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# run_with_roles UID MASK COMMAND...: runs the command as this user with these roles: 2 is a guest, 10 a guest with the admin role.
run_with_roles() {
	local uid=$1 mask=$2
	shift 2
	FLUX_HANDLE_USERID=$uid FLUX_HANDLE_ROLEMASK=$mask flux fairshare "$@"
}

test_expect_success 'an instance has jobs of two users in two banks with usage' '
	write_conf "$(with_queues silver)" && start_instance && make_site && load_plugin && set_usage 5002 500 && set_usage 5003 100 &&
	flux account edit-user user5003 --queues=silver && flux fairshare push -p $DB && stop_queues &&
	mine=$(mf submit 5002 -q silver) && theirs=$(mf submit 5003 -B B -q silver) && wait_scheduled $mine $theirs
'
test_expect_success 'a guest sees the banks but no job of another user without private mode' '
	test_expect_code 1 run_with_roles 5002 2 why $theirs 2>err && grep "is not yours" err &&
	run_with_roles 5002 2 standing --json >out && jq -e "[.. | objects | select(.name? == \"B\")] | length > 0" out
'
test_expect_success 'why of a guest compares the priorities of their job and of a job of another user, as flux jobs shows them' '
	ours=$(flux jobs -no "{priority}" $mine) && others=$(flux jobs -no "{priority}" $theirs) && name=$(flux job id --to=f58 $theirs) &&
	run_with_roles 5002 2 why $mine $theirs >out && tr -d , <out | tr -s "\n " " " >line && cat out &&
	if test $ours -gt $others; then first="your job"; else first=$name; fi &&
	grep "Job $name of [^ ]*5003 in bank B has priority $others your job has priority $ours so $first is ahead in the order of priority and job id\. At the present weights the two jobs can differ only in fair-share\." line &&
	grep "^Its priority is" out && ! grep "^Job .*Factor" line && run_with_roles 5002 2 why $theirs $mine >out2 && grep "^Job $name of" out2 &&
	run_with_roles 5002 2 why $mine $theirs --json >out && jq -e "(.jobs | length == 1) and .refused[0].code == \"not-yours\"" out &&
	test_expect_code 1 run_with_roles 5001 2 why $mine $theirs 2>err && grep "is not yours" err
'
test_expect_success 'why of a guest compares the terms of both jobs if the site shows the whole tree' '
	write_conf "$(with_queues silver) | .fairshare.public = \"all\"" && flux config reload &&
	run_with_roles 5002 2 why $mine $theirs >out && cat out && grep "Fair-share decides: " out && grep "fairshare .*75,000 .*25,000" out &&
	run_with_roles 5002 2 why $mine $theirs --json | jq -e ".verdict.terms == [\"fairshare\"] and (.jobs | length == 2) and .refused == []" &&
	run_with_roles 5002 2 why $theirs >out && cat out && grep "^Its priority is" out && test_expect_code 1 run_with_roles 5002 2 jobs -u 5003
'
test_expect_success 'the job of another user looks like a missing job in private mode' '
	write_conf "$(with_queues silver) | .access.\"private-mode\" = true" && flux config reload &&
	test_expect_code 1 run_with_roles 5002 2 why $theirs 2>err && test_expect_code 1 run_with_roles 5002 2 why f2345 2>none &&
	sed "s/$theirs/ID/" err >err.id && sed "s/f2345/ID/" none >none.id && cat err.id none.id && grep "private mode" err.id && test_cmp none.id err.id && run_with_roles 5002 2 why $mine &&
	test_expect_code 1 run_with_roles 5002 2 why $mine $theirs >out 2>pair && test_must_be_empty out && test_cmp err pair
'
test_expect_success 'a guest sees no usage of other banks and users in private mode' '
	run_with_roles 5002 2 standing --json >out && jq -e "[.. | objects | select(.bank? == \"B\" or .name? == \"B\")] | length == 0" out &&
	! grep -e 5003 -e user5003 out
'
test_expect_success 'a user with the admin role reads as the owner does and changes nothing' '
	run_with_roles 5002 10 why $theirs >out && run_with_roles 5002 10 jobs -A --csv -o userid >out && grep 5003 out && run_with_roles 5002 10 standing -A --csv >out && grep -e 5003 out &&
	run_with_roles 5002 10 metrics >out && ! run_with_roles 5002 10 push -p $DB 2>err && cat err
'
cancel_all
finish
