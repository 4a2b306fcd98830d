#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare why names the change that posted the priority of a job'
# Rules: F18

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# check_reasons ID CODE [CODE...]: checks that why gives these reasons for the posted priority of the job, and no other.
check_reasons() {
	local id=$1
	shift
	flux fairshare why "$id" --json >why.json && printf '%s\n' "$@" | jq -R . | jq -s . >wanted &&
	jq -e --slurpfile wanted wanted '[.jobs[0].posted.reasons[].code] == $wanted[0]' why.json >/dev/null ||
		{ echo "expected: $*"; jq '.jobs[0].posted' why.json; return 1; }
}
# wait_for_new_priority ID: waits until the job has another priority than at the last call.
wait_for_new_priority() {
	local tries=0
	until test "$(mf prio "$1")" != "$(cat prio.last)"; do
		test $((tries += 1)) -lt 200 || { echo "still $(cat prio.last)"; return 1; }
		sleep 0.05
	done
	mf prio "$1" >prio.last
}
push_database() { flux fairshare push -p $DB -v >push.out || { cat push.out; return 1; }; }

test_expect_success 'an instance has a running job with growing usage and pending jobs of two users' '
	write_conf "$(with_queues silver) | .fairshare = {refresh: \"200ms\"} | ." && start_instance && make_site && load_plugin &&
	for user in 5001 5003; do flux account edit-user user$user --queues=silver || return 1; done && set_usage 5001 500 && set_usage 5002 100 && set_usage 5003 50 &&
	flux fairshare push -p $DB && run=$(mf submit 5001 -q silver -N 3 -t 3600) && wait_running $run && stop_queues &&
	one=$(mf submit 5001 -q silver) && two=$(mf submit 5002 -q silver) && wait_scheduled $one $two && check_reasons $one submitted && mf prio $one >prio.last
'
test_expect_success 'why names a push of shares, and the push reports the number of changed associations' '
	flux account edit-user user5001 --shares=1000 && push_database && wait_for_new_priority $one && check_reasons $one shares &&
	flux fairshare why $one >out && cat out && grep "a push changed shares of banks or users" out && ! grep "live fair-share refresh" out &&
	cat push.out && grep "associations: 0 added, 1 changed, 0 removed, 4 unchanged" push.out
'
test_expect_success 'a push of the shares of a bank reports one changed bank' '
	flux account edit-bank A --shares=31 && push_database && cat push.out && grep "; banks: 1 changed" push.out && grep ", 0 changed, 0 removed, 5 unchanged" push.out
'
test_expect_success 'why names a push of the priority of a queue' '
	mf prio $one >prio.last && flux account edit-queue silver --priority=9 && push_database && wait_for_new_priority $one && check_reasons $one queue-priority &&
	flux fairshare why $one >out && grep "a push changed the priority of queue silver" out && { cat push.out; grep "; queues: 1 changed" push.out; }
'
test_expect_success 'why names a push of a weight' '
	flux account edit-factor --factor=queue --weight=777 && push_database && wait_for_new_priority $one && check_reasons $one weight && grep "; factors: 1 changed" push.out &&
	flux fairshare why $one >out && grep "a push changed the weight of factor queue" out
'
test_expect_success 'why names a push of a weight and of the priority of a bank as two changes' '
	flux account edit-factor --factor=bank --weight=100 && flux account edit-bank A --priority=3 && push_database && wait_for_new_priority $one &&
	check_reasons $one weight bank-priority
'
test_expect_success 'a dry run reports the same numbers of changes as the push' '
	flux account edit-bank A --shares=45 && flux account edit-queue silver --priority=2 && flux account add-project chem && flux fairshare push --dry-run -p $DB --json >dry.json &&
	flux fairshare push -p $DB --json >push.json &&
	jq -c "[.banks.changed, .queues.changed, .factors.changed, .projects.added, .changed]" dry.json >dry &&
	jq -c ".changes | [.banks.changed, .queues.changed, .factors.changed, .projects.added, .changed]" push.json >done &&
	cat dry && echo "[1,1,0,1,0]" >want && test_cmp want dry && test_cmp dry done
'
test_expect_success 'why names a change of urgency and a jobspec update' '
	flux job urgency $one 20 && check_reasons $one urgency && flux fairshare why $one >out && cat out && grep "urgency was changed from 16 to 20" out &&
	tr -d "," <out >plain && sed -n "s/^Its priority is \([0-9]*\) (\([0-9]*\) before).*/\2 \1/p" plain >changed && cat changed && flux job eventlog -f json $one | jq -s -r "[.[] | select(.name == \"priority\").context.priority][-2:] | join(\" \")" >wanted && test_cmp wanted changed &&
	flux update $one duration=60s && check_reasons $one jobspec
'
test_expect_success 'why names changed usage if no data changed' '
	three=$(mf submit 5003 -B B -q silver) && wait_scheduled $three && for user in 5001 5002; do flux account edit-user user$user --shares=2 || return 1; done &&
	used=$(flux fairshare standing 5001 --json | jq ".associations[0].usage | floor") && set_usage 5002 $((used + 30)) && push_database &&
	flux job urgency $one 21 && check_reasons $one urgency || return 1
	for try in $(seq 300); do flux fairshare why $one --json >out && jq -e ".jobs[0].posted.reasons[0].code == \"usage\"" out && break; sleep 0.1; done &&
	jq -e ".jobs[0].posted.reasons[0].code == \"usage\" and .jobs[0].posted.before.code == \"urgency\"" out
'
test_expect_success 'why shows the last priority of an ended job beside a pending job, to those who may read its eventlog' '
	four=$(mf submit 5003 -B B -q silver) && wait_scheduled $four && cancel $four && wait_ended $four &&
	last=$(flux job eventlog -f json $four | jq -s "map(select(.name == \"priority\"))[-1].context.priority") &&
	flux fairshare why $one $four >out && cat out && tr "\n" " " <out >joined && grep "^Neither job is ahead of the other: $four has ended" out &&
	grep "Its last priority was [0-9,]*, set .*: " joined &&
	flux fairshare why $one $four --json >out && jq -e ".verdict.cause == \"ended\" and .verdict.ahead == null" out &&
	jq -e ".jobs[0].posted.priority > 0 and .jobs[1].history.priorities[-1].priority == $last" out &&
	test_expect_code 1 run_as 5001 why $one $four 2>err && grep "no active job has this id" err
'
test_expect_success 'why names the load of the plugin after a reload' '
	reload_plugin && flux fairshare push -p $DB && wait_settled && check_reasons $three loaded
'
test_expect_success 'no job is left, and the service that edits the database ends' 'cancel_all && stop_service'
finish
