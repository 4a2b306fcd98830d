#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='the query document and the method check'
# Rules: L25

. "$(dirname "$0")/lib.sh"

test_expect_success 'an instance has a running and a held job' '
	write_conf "$(with_queues silver gold)" && start_instance && load_plugin &&
	mf push assoc 5001 A max_running_jobs=1 max_active_jobs=100 max_nodes=1000 max_cores=10000 max_sched_jobs=1000 \
		queues=gold,silver assoc 5000 Z assoc 5000 B queue silver max_nodes_per_job=100 max_time_per_job=100 priority=1 \
		max_running_jobs=100 max_nodes_per_assoc=1000 max_sched_jobs=1000 max_sched_nodes_per_assoc=1000 \
		max_sched_cores_per_assoc=10000 project "*" &&
	a=$(mf submit 5001 -q silver) && wait_running $a && b=$(mf submit 5001 -q silver -n 2) && wait_held_by $b max-running-jobs-user-limit
'
test_expect_success 'the query lists users by id and their banks by name' '
	test "$(mf query "[[u[\"userid\"], [b[\"bank_name\"] for b in u[\"banks\"]]] for u in q[\"mf_priority_map\"]]")" = \
		"[[5000, [\"B\", \"Z\"]], [5001, [\"A\"]]]"
'
test_expect_success 'an association has exactly these keys and values' '
	mf query "q[\"mf_priority_map\"][1][\"banks\"][0]" | jq -S . >have && cat >want.json <<-EOF &&
	{"bank_name":"A","fairshare":0.5,"max_run_jobs":1,"cur_run_jobs":1,"max_active_jobs":100,"cur_active_jobs":2,
	"queues":["gold","silver"],"queue_factor":1,"projects":["*"],"def_project":"*","max_nodes":1000,"max_cores":10000,
	"cur_nodes":1,"cur_cores":1,"active":1,"cur_sched_jobs":0,"max_sched_jobs":1000,
	"queue_usage":{"silver":{"cur_run_jobs":1,"cur_nodes":1,"cur_sched_jobs":0,"cur_sched_nodes":0,"cur_sched_cores":0}},
	"held_jobs":{"$(flux job id $b)":{"nnodes":1,"ncores":2,"queue":"silver","deps":["max-running-jobs-user-limit"]}}}
	EOF
	jq -S . <want.json >want && test_cmp want have
'
test_expect_success 'a queue has exactly these keys and values' '
	mf query "q[\"queues\"]" | jq -S . >have && jq -S . >want <<-EOF &&
	{"silver":{"name":"silver","min_nodes_per_job":0,"max_nodes_per_job":100,"max_time_per_job":100,"priority":1,
	"max_running_jobs":100,"max_nodes_per_assoc":1000,"max_sched_jobs":1000,"max_sched_nodes_per_assoc":1000,
	"max_sched_cores_per_assoc":10000}}
	EOF
	test_cmp want have
'
test_expect_success 'the query shows counters of a queue at zero' '
	cancel_all && mf counts 5001 A active=0 run=0 held=0 silver.run=0 silver.nodes=0 silver.sched=0
'
test_expect_success 'the query shows counters of a queue that no longer exists' '
	cancel_all && mf push queue gold && mf counts 5001 A silver.run=0
'
test_expect_success 'banks are sorted by bytes' '
	mf data assoc 5002 b assoc 5002 B assoc 5002 a assoc 5002 Z assoc 5002 1 &&
	test "$(mf query "[b[\"bank_name\"] for b in q[\"mf_priority_map\"][-1][\"banks\"]]")" = "[\"1\", \"B\", \"Z\", \"a\", \"b\"]"
'
test_expect_success 'names may be in any writing system' '
	mf data assoc 5003 "bänk \"x\"" queues="größe,队列" && mf query "q[\"mf_priority_map\"][-1][\"banks\"][0]" >out &&
	jq -e ".bank_name == \"bänk \\\"x\\\"\" and .queues == [\"größe\", \"队列\"]" <out
'
test_expect_success 'a query changes nothing' 'mf query >one && mf query >two && test_cmp one two'
test_expect_success 'guests may not query the plugin' '
	mf rpc --as 5001 job-manager.jobtap-query "{\"name\":\"mf_priority.so\"}" >out; grep ^EPERM out
'
test_expect_success 'check recounts all jobs and finds no difference' 'mf check'
finish
