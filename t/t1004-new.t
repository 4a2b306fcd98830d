#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='bank and project of an accepted job, and the moment from which it counts'
# Rules: L6, P13

. "$(dirname "$0")/lib.sh"
in_sequence

test_expect_success 'an instance has data and stopped queues' '
	start_instance && load_plugin && stop_queues &&
	mf push assoc 5001 A def_project=p1 projects=p1,p2 assoc 5001 B def_bank=A def_project=p2 projects=p2 \
		assoc 5002 A def_project="" projects="" project p1 project p2 project "*"
'
test_expect_success 'a job without bank and project gets both from the default bank, in one event' '
	id=$(mf submit 5001) && wait_scheduled $id && mf events $id | grep ^jobspec-update >updates &&
	echo "jobspec-update attributes.system.bank=A attributes.system.project=p1" >want && test_cmp want updates
'
test_expect_success 'the jobspec update precedes the event validate' '
	mf events $id | cut -d" " -f1 | head -4 >names && printf "submit\njobspec-update\nvalidate\ndepend\n" >want &&
	test_cmp want names
'
test_expect_success 'a bank that the job names stays and is not posted again' '
	id=$(mf submit 5001 -B B) && wait_scheduled $id && test $(mf spec $id attributes.system.bank) = B &&
	mf events $id | grep ^jobspec-update >updates && ! grep bank updates
'
test_expect_success 'a job that names its bank gets the default project of this bank' '
	test $(mf spec $id attributes.system.project) = p2
'
test_expect_success 'a project that the job names stays' '
	id=$(mf submit 5001 -P p2) && wait_scheduled $id && test $(mf spec $id attributes.system.project) = p2
'
test_expect_success 'a job that names only its project gets the default bank' '
	test $(mf spec $id attributes.system.bank) = A
'
test_expect_success 'a job that names bank and project gets no jobspec update' '
	id=$(mf submit 5001 -B B -P p2) && wait_scheduled $id && check_no_event $id jobspec-update
'
test_expect_success 'a job of an association without a default project gets the project "none"' '
	id=$(mf submit 5002) && wait_scheduled $id && test $(mf spec $id attributes.system.project) = none
'
test_expect_success 'each job counts in its bank' '
	mf counts 5001 A active=2 sched=2 && mf counts 5001 B active=2 sched=2 && mf counts 5002 A active=1 sched=1
'
test_expect_success 'a job counts from its acceptance, so the third of a batch exceeds max_active_jobs 2' '
	mf push assoc 5003 A max_active_jobs=2 &&
	mf submit 5003 -j 3 >ids 2>text; test $? = 1 && grep "user has max active jobs" text && mf counts 5003 A active=2
'
test_expect_success 'a job that the plugin or Flux refuses counts nowhere' '
	mf push assoc 5004 A && check_refused "user has max active jobs" mf submit 5003 &&
	{ mf submit 5004 -d nosuch:x >out 2>&1; test $? = 1; } && grep "dependency scheme \"nosuch\" not supported" out && wait_settled &&
	mf counts 5003 A active=2 && mf counts 5004 A active=0
'
test_expect_success 'max_running_jobs -1 ends a job with an exception (as upstream has it)' '
	mf push assoc 5005 A max_running_jobs=-1 && id=$(mf submit 5005) && wait_for exception $id type=mf_priority &&
	mf events $id | grep "note=job.state.depend: bank info is missing"
'
test_expect_success 'a job that max_running_jobs -1 ends counts nowhere' '
	wait_ended $id && mf counts 5005 A active=0
'
finish
