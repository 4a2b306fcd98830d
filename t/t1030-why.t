#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='explain, standing and jobs for guests and for the instance owner'
# Rules: P5

. "$(dirname "$0")/lib.sh"
in_sequence

# call_as UID METHOD PAYLOAD: prints the answer to this guest; UID "own" is the instance owner.
call_as() {
	local as=$1
	shift
	case $as in own) mf rpc "$@" ;; *) mf rpc --as "$as" "$@" ;; esac | sed "s/^ok //"
}
# explain_as UID ID: prints the answer of explain about one job to this user.
explain_as() { call_as "$1" explain "{\"jobs\":[$(flux job id "$2")]}"; }
# check_json JSON_FILE FILTER: checks that the filter is true for the file.
check_json() { jq -e "$2" "$1" >/dev/null || { echo "not so: $2"; jq . "$1"; return 1; }; }
# print_priority ID: prints the last priority in the eventlog of the job.
print_priority() { mf prio "$1"; }
print_post_time() { mf times "$1" priority | tail -1; }
print_expiration() { flux job info "$1" R | jq .execution.expiration; }
print_counter() { mf query "[b for u in q['mf_priority_map'] if u['userid'] == $1 for b in u['banks'] if b['bank_name'] == '$2'][0]['$3']"; }

test_expect_success 'an instance has running, held and pending jobs of several users' '
	write_conf "$(with_queues q r s)" && start_instance && load_plugin &&
	mf push assoc 5001 A queues=q,r max_running_jobs=1 assoc 5002 A queues=q assoc 5002 B queues=q assoc 5003 A queues=q fairshare=0 \
		queue q priority=2 queue r max_running_jobs=1 queue s project "*" bank A 0 bank B 3 factor bank 1000 &&
	run=$(mf submit 5001 -q q -t 3600) && wait_running $run &&
	one=$(mf submit 5001 -q q -t 3600) && two=$(mf submit 5001 -q q -t 3600) && wait_held_by $one max-running-jobs-user-limit &&
	wait_held_by $two max-running-jobs-user-limit &&
	stop_queues && pend=$(mf submit 5002 -q q -B B) && wait_scheduled $pend
'
test_expect_success 'explain shows a priority by its terms, exact to the unit' '
	explain_as 5002 $pend >out && check_json out ".jobs[0].posted.priority == $(print_priority $pend)" &&
	check_json out "(.jobs[0].posted.terms | map(.product) | add) == .jobs[0].posted.sum and .jobs[0].posted.sum == .jobs[0].posted.priority" &&
	check_json out ".jobs[0].posted.terms | all(.value * .weight == .product)" &&
	check_json out ".jobs[0].posted.terms | map({key: .name, value: .value}) | from_entries | .fairshare == 0.5 and .queue == 2 and .bank == 3" &&
	check_json out "(.jobs[0].posted.when - $(print_post_time $pend) | fabs) < 1" && check_json out ".jobs[0].posted.reason.code == \"submitted\" and .jobs[0].lag == null" &&
	check_json out ".jobs[0] | .bank == \"B\" and .queue == \"q\" and .userid == 5002 and .state == \"sched\" and .urgency == 16" &&
	check_json out ".jobs[0].exact.priority == .jobs[0].posted.priority"
'
test_expect_success 'explain names the limit of a held job, the job that frees headroom and the time' '
	explain_as 5001 $one >out && check_json out ".jobs[0] | .held and .posted == null and .carries == [\"max-running-jobs-user-limit\"]" &&
	check_json out ".jobs[0].holds | length == 1 and (.[0] | .limit == \"max-running-jobs-user-limit\" and .used == 1 and .limit_is == 1 and .needed == 1)" &&
	check_json out ".jobs[0].holds[0].used == $(print_counter 5001 A cur_run_jobs) and .jobs[0].holds[0].limit_is == $(print_counter 5001 A max_run_jobs)" &&
	check_json out ".jobs[0].holds[0].frees == [{id: $(flux job id $run), state: \"run\", amount: 1, by: $(print_expiration $run)}]" &&
	check_json out ".jobs[0].latest == $(print_expiration $run) and .jobs[0].latest_reason.code == \"bounded\" and .jobs[0].line == {place: 1, of: 2}"
'
test_expect_success 'explain gives no latest start for the second held job, only its end if it started now' '
	explain_as 5001 $two >out && check_json out ".jobs[0] | .latest == null and .latest_reason.code == \"needs-start\" and .line == {place: 2, of: 2}" &&
	check_json out "(.jobs[0].if_started - $(print_expiration $run) - 3600 | fabs) < 1"
'
test_expect_success 'a guest sees no job of another user, whatever the payload says' '
	explain_as 5002 $one >out && check_json out ".jobs == [] and .refused[0].code == \"not-yours\"" &&
	check_json out ".refused[0].text == \"job $(flux job id $one) is not yours: only its owner, the instance owner and admins may ask\"" &&
	call_as 5002 explain "{\"jobs\":[$(flux job id $one)],\"userid\":5001,\"user\":5001}" >out && check_json out ".jobs == []" &&
	call_as 5002 jobs "{\"user\":5001}" >out && grep -q "^EPERM: user 5002 may not ask for user 5001: only the instance owner and admins may" out &&
	call_as 5002 standing "{\"user\":5001}" >out && grep -q "^EPERM: user 5002 may not ask for user 5001" out &&
	call_as 5002 stats "{}" >out && grep -q "^EPERM" out && call_as 5002 check "{}" >out && grep -q "^EPERM" out
'
test_expect_success 'the owner sees the jobs of all users' '
	explain_as own $one >out && check_json out ".jobs[0].userid == 5001" && call_as own explain "{\"jobs\":[1]}" >out &&
	check_json out ".refused[0].code == \"unknown\"" && call_as own jobs "{}" >out && check_json out ".jobs | map(.userid) == [5001, 5001, 5002]"
'
test_expect_success 'a guest lists their own jobs page by page' '
	call_as 5001 jobs "{\"limit\":1}" >out && check_json out ".jobs | length == 1" && check_json out ".jobs[0].holds == [\"max-running-jobs-user-limit\"]" &&
	call_as 5001 jobs "{\"limit\":1,\"after\":$(jq .next out)}" >next && check_json next ".jobs | map(.id) == [$(flux job id $two)]" &&
	call_as 5002 jobs "{}" >out && check_json out ".jobs[0].priority == $(print_priority $pend)" &&
	check_json out ". as \$page | .jobs[0] | [.values, \$page.weighings[.weighing]] | transpose | map(.[0] * .[1]) | add == $(print_priority $pend)"
'
test_expect_success 'a guest reads their own standing' '
	call_as 5001 standing "{}" >out && check_json out ".associations | length == 1 and .[0].bank == \"A\" and .[0].fairshare == 0.5" &&
	check_json out ".associations[0].jobs | .active == 3 and .held == 2 and .running == 1" &&
	check_json out ".associations[0].limits[] | select(.limit == \"max-running-jobs-user-limit\") | .used == 1 and .limit_is == 1" &&
	call_as 5002 standing "{}" >out && check_json out ".associations | map(.bank) == [\"A\", \"B\"] and .[0].default"
'
finish
