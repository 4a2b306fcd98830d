#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='an accepted job: bank and project that it is given, and when it counts'

# A sequence: the first test starts the instance, and each works with the jobs and records of those before it.
. "$(dirname "$0")/lib.sh"

test_expect_success 'an instance' '
	start_instance && load_plugin && stop_queues &&
	mf push assoc 5001 A def_project=p1 projects=p1,p2 assoc 5001 B def_bank=A def_project=p2 projects=p2 \
		assoc 5002 A def_project="" projects="" project p1 project p2 project "*"
'
test_expect_success 'a job without bank and project gets both of the default bank, in one event' '
	id=$(mf submit 5001) && scheduled $id && mf events $id | grep ^jobspec-update >updates &&
	echo "jobspec-update attributes.system.bank=A attributes.system.project=p1" >want && test_cmp want updates
'
test_expect_success 'it precedes validate' '
	mf events $id | cut -d" " -f1 | head -4 >names && printf "submit\njobspec-update\nvalidate\ndepend\n" >want &&
	test_cmp want names
'
test_expect_success 'a named bank stays, and is not posted again' '
	id=$(mf submit 5001 -B B) && scheduled $id && test $(mf spec $id attributes.system.bank) = B &&
	mf events $id | grep ^jobspec-update >updates && ! grep bank updates
'
test_expect_success 'and brings its own default project' '
	test $(mf spec $id attributes.system.project) = p2
'
test_expect_success 'a named project stays' '
	id=$(mf submit 5001 -P p2) && scheduled $id && test $(mf spec $id attributes.system.project) = p2
'
test_expect_success 'and leaves the bank to be the default one' '
	test $(mf spec $id attributes.system.bank) = A
'
test_expect_success 'a job that names both is left alone' '
	id=$(mf submit 5001 -B B -P p2) && scheduled $id && never $id jobspec-update
'
test_expect_success 'without a default project there is none' '
	id=$(mf submit 5002) && scheduled $id && test $(mf spec $id attributes.system.project) = none
'
test_expect_success 'each counts in its bank' '
	mf counts 5001 A active=2 sched=2 && mf counts 5001 B active=2 sched=2 && mf counts 5002 A active=1 sched=1
'
test_expect_success 'a job counts from the moment it is accepted: the next one of the same batch is refused or not' '
	mf push assoc 5003 A max_active_jobs=2 &&
	mf submit 5003 -j 3 >ids 2>text; test $? = 1 && grep "user has max active jobs" text && mf counts 5003 A active=2
'
test_expect_success 'a refused job leaves no count: another plugin may refuse it too' '
	mf push assoc 5004 A && refused "user has max active jobs" mf submit 5003 &&
	{ mf submit 5004 -d nosuch:x >out 2>&1; test $? = 1; } && grep "dependency scheme \"nosuch\" not supported" out && settled &&
	mf counts 5003 A active=2 && mf counts 5004 A active=0
'
test_expect_success 'max_running_jobs -1 is the hook that breaks a job (as upstream has it)' '
	mf push assoc 5005 A max_running_jobs=-1 && id=$(mf submit 5005) && wait_for exception $id type=mf_priority &&
	mf events $id | grep "note=job.state.depend: bank info is missing"
'
test_expect_success 'it never counted' '
	ended $id && mf counts 5005 A active=0
'
finish
