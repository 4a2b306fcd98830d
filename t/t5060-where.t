#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare with names that do not exist, and within a job'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"

# check_refusal CODE TEXT COMMAND...: checks for this exit status, an empty output and an error with TEXT.
check_refusal() {
	local code=$1 text=$2
	shift 2
	test_expect_code "$code" flux fairshare "$@" >out 2>err && test_must_be_empty out && grep -F -- "$text" err || { cat out err; return 1; }
}
# run_within LEVELS COMMAND...: runs the command in the instance of a job (LEVELS 1), or of a job within that job (LEVELS 2).
run_within() {
	local levels=$1
	shift
	case $levels in
	1) flux alloc -q silver -n1 --output=/dev/null "$@" ;;
	2) flux alloc -q silver -n1 flux alloc -n1 "$@" ;;
	esac
}

test_expect_success 'an instance has one queue and an association of its owner' '
	write_conf "$(with_queues silver)" && start_instance && make_site && load_plugin &&
	flux account add-user --username=root --userid=$(id -u) --bank=A --queues=silver && flux fairshare push -p $DB
'
test_expect_success 'a queue or a bank that does not exist is an error that names it' '
	check_refusal 1 "no queue \"nosuch\" in this instance" jobs -q nosuch && check_refusal 1 "did you mean \"silver\"?" jobs -q silve --json &&
	check_refusal 1 "no queue \"nosuch\"" jobs -q silver,nosuch && check_refusal 1 "no bank \"nosuch\"" jobs -b nosuch && check_refusal 1 "no bank \"C\"" jobs -b A,C &&
	check_refusal 2 "no user \"nosuch\"" jobs -u nosuch
'
test_expect_success 'jobs prints that an existing queue or bank has no pending jobs, without an error' '
	flux fairshare jobs -q silver -b root >out && grep "^No pending jobs in bank root in queue silver\.$" out && flux fairshare jobs -b A,B
'
test_expect_success 'each command within a job names the level, and the command for the instance of the site' '
	for command in jobs standing "why f23" metrics status "push -p accounting.db" "migrate --json" "doctor -p accounting.db"; do
		run_within 1 sh -c "flux fairshare $command >out 2>&1; :" && grep "instance at level 1 in job f" out && grep "flux --parent fairshare" out || { cat out; return 1; }
		! grep "jobtap load" out || return 1
	done
'
test_expect_success 'the named command works, also in a job within another job' '
	run_within 1 sh -c "flux --parent fairshare jobs -q silver -u 5002 >out 2>&1; :" && grep "^No pending jobs of 5002 in queue silver" out &&
	run_within 2 sh -c "flux fairshare jobs >out 2>&1; flux --parent --parent fairshare jobs -u 5002 >>out 2>&1; :" && cat out &&
	grep "flux --parent --parent fairshare" out && grep "^No pending jobs of 5002" out &&
	run_within 1 sh -c "flux --parent fairshare doctor -p $DB >out 2>&1; :" && cat out && ! grep not-the-site out && grep "nothing is wrong\|^[!-] \|^!! " out
'
cancel_all
finish
