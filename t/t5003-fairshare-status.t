#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare status shows the state of our plugin or of the plugin of flux-accounting'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# run_status ARGUMENT...: runs status. print_value JQ_FILTER: prints a value of status --json.
run_status() { flux fairshare status -p "$DB" "$@"; }
print_value() { run_status --json | jq -r "$1"; }

test_expect_success 'an instance has a site and no plugin' '
	start_instance && make_site
'
test_expect_success 'status without a plugin ends with exit status 1 and says how to load it' '
	test_expect_code 1 flux fairshare status >out 2>err && test_must_be_empty out &&
	grep "no priority plugin is loaded: \"flux jobtap load mf_priority.so\" loads it" err
'
test_expect_success 'status of a plugin without data shows no associations and an unknown number of held jobs' '
	load_plugin && run_status >out && cat out && grep "^associations  0 of 0 users in 0 banks$" out && grep "^held          unknown before the first push" out
'
test_expect_success 'status shows generation and recount of our plugin' '
	if mf check >check.out 2>&1; then
		test_set_prereq OURS && grep "^data          generation 0, no push yet" out && grep "^check         no drift: 0 jobs of 0 associations" out
	else
		grep "flux-accounting.s own" out && grep "^check         this plugin can.t recount its counters" out
	fi
'
test_expect_success 'status says that no job waits for data' '
	print_value .waiting_jobs >out && echo 0 >expected && test_cmp expected out && run_status >out && grep "^waiting       no job waits for data of its user$" out
'
test_expect_success 'status counts associations, banks, queues and projects after a push' '
	flux account edit-user user5001 --max-running-jobs=1 && flux account edit-user user5003 --max-running-jobs=1 &&
	flux fairshare push -p $DB && run_status >out && cat out &&
	grep "^associations  5 of 5 users in 3 banks; this includes the owner and bank root$" out && grep "^configured    1 queue, 2 projects" out &&
	grep "^database      $DB" out
'
test_expect_success 'status wraps long lines to the width of the terminal' '
	COLUMNS=40 run_status >narrow && cat narrow && test $(wc -l <narrow) -gt $(wc -l <out) && grep -A1 "^associations  5 of 5 users in 3 banks" narrow >lines &&
	grep "^              .*and bank root$" narrow && ! awk "length > 40" lines | grep . &&
	COLUMNS=80 run_status -u 5001 >table && cat table && grep "^User  *Bank  *FairShare" table && ! awk "length > 80" table | grep .
'
test_expect_success 'status counts held jobs by limit' '
	a=$(mf submit 5001) && wait_running $a && b=$(mf submit 5001) && wait_held_by $b max-running-jobs-user-limit &&
	c=$(mf submit 5001) && wait_held_by $c max-running-jobs-user-limit &&
	d=$(mf submit 5003) && wait_running $d && e=$(mf submit 5003) && wait_held_by $e max-running-jobs-user-limit &&
	run_status >out && cat out && grep "^held          3 jobs" out && grep "     3 by max-running-jobs-user-limit" out
'
test_expect_success 'status counts active and running jobs' '
	grep "^jobs          5 active, 2 running on 2 cores" out
'
test_expect_success 'flux jobs lists as many active, running and held jobs as status' '
	flux jobs -An -o "{state} {dependencies}" >listed && cat listed &&
	printf "%s\n" $(wc -l <listed) $(grep -c "^RUN" listed) $(grep -c "^DEPEND .*max-running-jobs-user-limit" listed) >expected &&
	print_value ".active_jobs, .running_jobs, .held_by[\"max-running-jobs-user-limit\"]" >out && test_cmp expected out
'
test_expect_success 'status --json has the same counts and no association that was not selected' '
	print_value ".held_jobs, .running_jobs, .active_jobs, .associations, .held_by[\"max-running-jobs-user-limit\"], (.selected | length)" >out &&
	printf "%s\n" 3 2 5 5 3 0 >expected && test_cmp expected out
'
test_expect_success 'status -u shows the counters of a user next to the limits' '
	run_status -u 5001 --csv >out && cat out &&
	head -1 out | grep "^user,userid,bank,fairshare,running_jobs,max_running_jobs," &&
	test $(wc -l <out) = 2 && grep ",5001,A,1,1,1,3,7,1,2147483647," out
'
test_expect_success 'status -b shows the associations of a bank' '
	run_status -b B --json | jq -r ".selected[] | [.userid, .running_jobs, .held_jobs] | @tsv" | sort >out &&
	printf "5003\t1\t1\n5004\t0\t0\n" >expected && test_cmp expected out
'
test_expect_success 'status -u refuses a user without a record' '
	test_expect_code 1 run_status -u 4999 2>err && grep "the plugin has no user \"4999\"" err
'
test_expect_success 'status -b refuses a bank without associations' '
	test_expect_code 1 run_status -b Z 2>err && grep "the plugin has no association in bank \"Z\"" err
'
test_expect_success OURS 'status counts the jobs of an association that a push removed' '
	flux account delete-user --force user5003 B && flux fairshare push -p $DB && run_status >out && cat out && grep "^jobs          5 active, 2 running on 2 cores" out &&
	grep "^held          3 jobs" out && flux account add-user --username=user5003 --userid=5003 --bank=B --shares=3 --max-running-jobs=1 && flux fairshare push -p $DB
'
test_expect_success OURS 'a guest reads who may list the jobs for a migration' '
	test_must_fail run_as 5001 migrate 2>err; cat err; grep "only the instance owner may ask" err
'
test_expect_success OURS 'status shows the version of our plugin' '
	run_status >out && cat out &&
	grep "^plugin        mf_priority.so, version [0-9.]* (" out
'
test_expect_success OURS 'status shows the time of the last push' '
	grep "^data          generation [0-9]*, .* old" out &&
	print_value "(now - .updated) < 60 and .age < 60 and .age >= 0" >out && echo true >expected && test_cmp expected out
'
test_expect_success OURS 'status shows the user and the time of the last push' '
	run_status >out && cat out && grep "^last push     by $(id -un), [0-9-]* *[0-9:]* [A-Z]* ([0-9a-z ]*)$" out &&
	print_value "(.updated_time | fromdateiso8601) - (.updated | floor), .pushed_by_userid, .age_seconds == .age" >out &&
	printf "%s\n" 0 $(id -u) true >expected && test_cmp expected out
'
test_expect_success 'status shows the last sync that is on record' '
	grep "^last sync     no sync is recorded" out || { run_status >out && grep "^last sync     no sync is recorded" out; } &&
	print_value ".last_sync" >out && echo null >expected && test_cmp expected out &&
	before=$(date +%s) && flux fairshare sync -p $DB && after=$(date +%s) && run_status >out && cat out && grep "^last sync     [0-9-]* *[0-9:]* ([0-9a-z ]*)$" out &&
	print_value "(.last_sync | floor) >= $before and .last_sync <= $after + 1 and (.last_sync_time | fromdateiso8601) == (.last_sync | floor)" >out &&
	echo true >expected && test_cmp expected out
'
test_expect_success 'status without a database shows the last sync as unknown' '
	flux fairshare status -p nowhere.db >out && grep "^database      nowhere.db: no such file" out && grep "^last sync     unknown$" out
'
test_expect_success 'status names another priority plugin' '
	print_value ".other_priority_plugins | length" >out && echo 0 >expected && test_cmp expected out && flux jobtap load .priority-default &&
	{ run_status >out; code=$?; print_value ".other_priority_plugins[]" >names; test_might_fail flux fairshare doctor -p $DB >doctor; flux jobtap remove .priority-default; cat out doctor; } &&
	test $code = 1 && grep "two-priority-plugins" doctor && run_status >after &&
	grep "^also loaded   .priority-default: another priority plugin" out && echo .priority-default >expected && test_cmp expected names
'
test_expect_success OURS 'status after a reload shows the time of the push and an unknown user' '
	print_value .updated >before && wait_kvs() { for i in $(seq 100); do flux kvs get mf_priority.remember.manifest >/dev/null 2>&1 && return; sleep 0.1; done; } &&
	wait_kvs && reload_plugin && for i in $(seq 100); do run_status >out && grep "^last push" out && break; sleep 0.1; done; cat out &&
	grep "^last push     by an unknown user, [0-9]" out && print_value .pushed_by >out && echo null >expected && test_cmp expected out
'
test_expect_success OURS 'status --json has the recount of the plugin' '
	print_value ".check.drift | length" >out && echo 0 >expected && test_cmp expected out &&
	print_value ".check.jobs" >out && echo 5 >expected && test_cmp expected out
'
upstream=$(pkg-config --variable=fluxlibdir flux-core)/job-manager/plugins/mf_priority.so
test -e "$upstream" && ! grep -qa "mf_priority: loaded (version" "$upstream" && test_set_prereq UPSTREAM ||
	echo "!! flux-accounting's mf_priority.so is not at $upstream: what status says of it is NOT tested" >&2
test_expect_success UPSTREAM 'status shows which facts the plugin of flux-accounting does not give' '
	remove_plugin && flux jobtap load "$upstream" && flux fairshare push -p $DB && run_status >out && cat out &&
	grep "^plugin        mf_priority.so, " out && grep "^associations  .* of 5 users in [0-9]* banks" out &&
	grep "flux-accounting.s own" out && grep "^data          age not known" out &&
	flux jobtap remove mf_priority.so && load_plugin
'
test_expect_success 'status reads the database that flux-accounting uses by default' '
	flux python -c "import fluxacct.accounting as a; print(a.DB_PATH)" >expected &&
	env -u FLUX_FAIRSHARE_DATABASE flux fairshare status | sed -n "s/^database *\([^ :]*\).*/\1/p" >out && test_cmp expected out
'
test_expect_success OURS 'status names users whose jobs wait for data' '
	cancel_all; remove_plugin && flux kvs unlink -Rf mf_priority && load_plugin && id=$(mf submit 5001) && wait_for depend $id && run_status >out && cat out &&
	grep "^waiting  *1 job of users whose records were not pushed: 5001$" out
'
test_expect_success OURS 'status --json lists users whose jobs wait for data' '
	print_value ".waiting_users[0]" >out && echo 5001 >expected &&
	test_cmp expected out
'
test_expect_success 'no job is left, and the service that edits the database ends' 'cancel_all && stop_service'
finish
