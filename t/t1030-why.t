#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='explain, standing and jobs for guests and for the instance owner'
# Rules: P5

. "$(dirname "$0")/lib.sh"
in_sequence

# ask UID METHOD PAYLOAD: prints the answer to this guest; UID "own" is the instance owner.
ask() {
	local as=$1
	shift
	case $as in own) mf rpc "$@" ;; *) mf rpc --as "$as" "$@" ;; esac | sed "s/^ok //"
}
# about UID ID: prints the answer of explain about one job to this user.
about() { ask "$1" explain "{\"jobs\":[$(flux job id "$2")]}"; }
# is JSON_FILE FILTER: checks that the filter is true.
is() { jq -e "$2" "$1" >/dev/null || { echo "not so: $2"; jq . "$1"; return 1; }; }
# posted ID: prints the last priority in the eventlog of the job.
posted() { mf prio "$1"; }
when_posted() { mf times "$1" priority | tail -1; }
expires() { flux job info "$1" R | jq .execution.expiration; }
counter() { mf query "[b for u in q['mf_priority_map'] if u['userid'] == $1 for b in u['banks'] if b['bank_name'] == '$2'][0]['$3']"; }

test_expect_success 'an instance has running, held and pending jobs of several users' '
	write_conf "$(with_queues q r s)" && start_instance && load_plugin &&
	mf push assoc 5001 A queues=q,r max_running_jobs=1 assoc 5002 A queues=q assoc 5002 B queues=q assoc 5003 A queues=q fairshare=0 \
		queue q priority=2 queue r max_running_jobs=1 queue s project "*" bank A 0 bank B 3 factor bank 1000 &&
	run=$(mf submit 5001 -q q -t 3600) && running $run &&
	one=$(mf submit 5001 -q q -t 3600) && two=$(mf submit 5001 -q q -t 3600) && held_by $one max-running-jobs-user-limit &&
	held_by $two max-running-jobs-user-limit &&
	stop_queues && pend=$(mf submit 5002 -q q -B B) && scheduled $pend
'
test_expect_success 'explain shows a priority by its terms, exact to the unit' '
	about 5002 $pend >out && is out ".jobs[0].posted.priority == $(posted $pend)" &&
	is out "(.jobs[0].posted.terms | map(.product) | add) == .jobs[0].posted.sum and .jobs[0].posted.sum == .jobs[0].posted.priority" &&
	is out ".jobs[0].posted.terms | all(.value * .weight == .product)" &&
	is out ".jobs[0].posted.terms | map({key: .name, value: .value}) | from_entries | .fairshare == 0.5 and .queue == 2 and .bank == 3" &&
	is out "(.jobs[0].posted.when - $(when_posted $pend) | fabs) < 1" && is out ".jobs[0].posted.reason.code == \"submitted\" and .jobs[0].lag == null" &&
	is out ".jobs[0] | .bank == \"B\" and .queue == \"q\" and .userid == 5002 and .state == \"sched\" and .urgency == 16" &&
	is out ".jobs[0].exact.priority == .jobs[0].posted.priority"
'
test_expect_success 'explain names the limit of a held job, the job that frees headroom and the time' '
	about 5001 $one >out && is out ".jobs[0] | .held and .posted == null and .carries == [\"max-running-jobs-user-limit\"]" &&
	is out ".jobs[0].holds | length == 1 and (.[0] | .limit == \"max-running-jobs-user-limit\" and .used == 1 and .limit_is == 1 and .needed == 1)" &&
	is out ".jobs[0].holds[0].used == $(counter 5001 A cur_run_jobs) and .jobs[0].holds[0].limit_is == $(counter 5001 A max_run_jobs)" &&
	is out ".jobs[0].holds[0].frees == [{id: $(flux job id $run), state: \"run\", amount: 1, by: $(expires $run)}]" &&
	is out ".jobs[0].latest == $(expires $run) and .jobs[0].latest_reason.code == \"bounded\" and .jobs[0].line == {place: 1, of: 2}"
'
test_expect_success 'explain gives no latest start for the second held job, only its end if it started now' '
	about 5001 $two >out && is out ".jobs[0] | .latest == null and .latest_reason.code == \"needs-start\" and .line == {place: 2, of: 2}" &&
	is out "(.jobs[0].if_started - $(expires $run) - 3600 | fabs) < 1"
'
test_expect_success 'a guest sees no job of another user, whatever the payload says' '
	about 5002 $one >out && is out ".jobs == [] and .refused[0].code == \"not-yours\"" &&
	is out ".refused[0].text == \"job $(flux job id $one) is not yours: only its owner, the instance owner and admins may ask\"" &&
	ask 5002 explain "{\"jobs\":[$(flux job id $one)],\"userid\":5001,\"user\":5001}" >out && is out ".jobs == []" &&
	ask 5002 jobs "{\"user\":5001}" >out && grep -q "^EPERM: user 5002 may not ask for user 5001: only the instance owner and admins may" out &&
	ask 5002 standing "{\"user\":5001}" >out && grep -q "^EPERM: user 5002 may not ask for user 5001" out &&
	ask 5002 stats "{}" >out && grep -q "^EPERM" out && ask 5002 check "{}" >out && grep -q "^EPERM" out
'
test_expect_success 'the owner sees the jobs of all users' '
	about own $one >out && is out ".jobs[0].userid == 5001" && ask own explain "{\"jobs\":[1]}" >out &&
	is out ".refused[0].code == \"unknown\"" && ask own jobs "{}" >out && is out ".jobs | map(.userid) == [5001, 5001, 5002]"
'
test_expect_success 'a guest lists their own jobs page by page' '
	ask 5001 jobs "{\"limit\":1}" >out && is out ".jobs | length == 1" && is out ".jobs[0].holds == [\"max-running-jobs-user-limit\"]" &&
	ask 5001 jobs "{\"limit\":1,\"after\":$(jq .next out)}" >next && is next ".jobs | map(.id) == [$(flux job id $two)]" &&
	ask 5002 jobs "{}" >out && is out ".jobs[0].priority == $(posted $pend)" &&
	is out ". as \$page | .jobs[0] | [.values, \$page.weighings[.weighing]] | transpose | map(.[0] * .[1]) | add == $(posted $pend)"
'
test_expect_success 'a guest reads their own standing' '
	ask 5001 standing "{}" >out && is out ".associations | length == 1 and .[0].bank == \"A\" and .[0].fairshare == 0.5" &&
	is out ".associations[0].jobs | .active == 3 and .held == 2 and .running == 1" &&
	is out ".associations[0].limits[] | select(.limit == \"max-running-jobs-user-limit\") | .used == 1 and .limit_is == 1" &&
	ask 5002 standing "{}" >out && is out ".associations | map(.bank) == [\"A\", \"B\"] and .[0].default"
'
finish
