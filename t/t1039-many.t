#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='a restart with more jobs than get a priority in one turn'
# Rules: K8, L9

. "$(dirname "$0")/lib.sh"
in_sequence

push_data() { mf push assoc 5001 A fairshare=0.2 queues=q assoc 5002 A fairshare=0.9 queues=q queue q project "*"; }

test_expect_success 'an instance has 1,200 pending jobs of two users behind a job on all nodes' '
	write_conf "$(with_queues q) | $(with_plugin)" && start_instance && push_data &&
	run=$(mf submit 5001 -q q -N 4 -n 16) && wait_running $run &&
	for n in 1 2 3; do mf submit 5001 -q q -j 200 >>ids && mf submit 5002 -q q -j 200 >>ids || return 1; done &&
	urgent=$(mf submit 5001 -q q -u 20) && wait_scheduled $(tail -1 ids) $urgent && wait_settled && test $(wc -l <ids) = 1200
'
test_expect_success 'a restart without data leaves all pending jobs in PRIORITY' '
	restart_instance && wait_settled && is_state RUN $run && is_state PRIORITY $(head -1 ids) $(tail -1 ids) $urgent
'
test_expect_success 'each job gets its priority when data arrive, and the jobs are in order' '
	push_data && until=$((SECONDS + MF_WAIT)) &&
	until test "$(mf in_order)" = 1201; do test $SECONDS -le $until || { mf in_order; return 1; }; sleep 0.2; done &&
	prio_is $(head -1 ids) 20000 && prio_is $(tail -1 ids) 90000 && prio_is $urgent 24000
'
test_expect_success 'each job counts once, and a reprioritize posts no priority again' '
	mf counts 5001 A active=602 run=1 sched=601 && mf counts 5002 A active=600 sched=600 && no_errors &&
	mf posted priority $(head -1 ids) $(tail -1 ids) >before && mf rpc reprioritize && wait_settled &&
	mf posted priority $(head -1 ids) $(tail -1 ids) >after && test_cmp before after
'
test_expect_success 'all jobs end' '
	flux cancel --all --user=all && wait_ended $run $urgent $(tail -1 ids) && mf counts 5002 A active=0 sched=0
'
finish
