#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='max_nodes and max_cores of a queue limit the jobs of all associations in SCHED and RUN'
# Rules: L19

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

run_limit() { flux fairshare limit "$@" -p "$DB"; }

test_expect_success 'max_nodes of a queue limits the jobs of all associations together' '
	write_conf "$(with_queues silver)" && start_instance && make_site && load_plugin &&
	flux account edit-queue silver --max-nodes=2 && for u in 5001 5003 5004; do flux account edit-user user$u --queues=silver || return 1; done &&
	flux fairshare push -p $DB && run_limit >out && cat out && grep "^bank  *root  *silver  *run-sched-nodes  *2 " out &&
	flux jobtap query mf_priority.so | jq -e ".limits[] | select(.name == \"root\") | [.queue, .measure, .limit] == [\"silver\", \"run-sched-nodes\", 2]" &&
	a=$(mf submit 5001 -q silver) && b=$(mf submit 5003 -q silver) && wait_running $a $b && c=$(mf submit 5004 -q silver) && wait_held_by $c max-run-sched-nodes-bank-queue &&
	flux fairshare why $c >out && cat out && grep "root" out && grep "silver" out && flux fairshare status >out && grep "1 by max-run-sched-nodes-bank-queue" out &&
	test_must_fail mf submit 5001 -q silver -N 3 2>err && cat err && grep "in queue silver on running and scheduled jobs (2 node" err &&
	cancel $a && wait_running $c
'
test_expect_success 'max_cores of a queue limits the jobs of all associations, and the lower of two limits counts' '
	flux account edit-queue silver --max-nodes=-1 --max-cores=1 && run_limit set bank root --queue=silver run-sched-cores=3 && flux fairshare push -p $DB &&
	e=$(mf submit 5001 -q silver) && wait_held_by $e max-run-sched-cores-bank-queue && run_limit unset bank root --queue=silver &&
	flux account edit-queue silver --max-cores=-1 && flux fairshare push -p $DB && wait_running $e && test "$(run_limit --json | jq "[.limits[] | select(.name == \"root\")] | length")" = 0 && cancel_all
'
test_expect_success 'the service that edits the database ends' '
	stop_service
'

finish
