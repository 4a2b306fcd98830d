#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare what-if predicts the effects of another half-life and of other weights'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# add_job USERID BANK DAYS HOURS: stores a record of a job of one node that ended this many days ago and ran for this many hours.
add_job() {
	local ended
	ended=$(echo "$(date +%s) - $3 * 86400" | bc)
	run_sql "INSERT INTO jobs VALUES ('$((jobs += 1))', $1, $ended - $4 * 3600, $ended - $4 * 3600, $ended, '0',
		'{\"version\": 1, \"execution\": {\"R_lite\": [{\"rank\": \"0\", \"children\": {\"core\": \"0\"}}]}}', '{}', '', '$2', 0, 0)"
}
# list_predicted: prints user and fair-share of each association in the document ./out.
list_predicted() { jq -r '.associations[] | "\(.user) \(.fairshare_second)"' out | sort; }
# list_hours: prints user and stored usage in node-hours.
list_hours() { run_sql "SELECT username, CAST(round(job_usage / 3600) AS int) FROM association_table WHERE userid > 5000 ORDER BY username"; }
# list_priorities: prints id and priority of each job.
list_priorities() { mf jobs | cut -d" " -f1,4 | sort; }

# The first usage period of the new database begins now. All jobs ended before this period, so half of their usage counts.
test_expect_success 'a site has a half-life of 7 days, and jobs that ended 5 days and 12 hours ago' '
	write_conf "$(with_plugin)" && start_instance && make_site && export FLUX_FAIRSHARE_DATABASE=$PWD/$DB && jobs=0 &&
	run_sql "UPDATE t_half_life_period_table SET end_half_life_period = $(date +%s) + 604800" &&
	add_job 5001 A 5 40 && add_job 5002 A 0.5 30 && add_job 5003 B 3 16 && flux fairshare sync && list_hours >hours && cat hours &&
	printf "%s\n" "user5001 20" "user5002 15" "user5003 8" "user5004 0" >expected && test_cmp expected hours
'
# With a half-life of 2 days, the usages of the three jobs are halved 3, 1 and 2 times. The usage of user5001 is then 5 node-hours per share
# instead of 20. The usage of user5002 is 7.5 node-hours per share before and after the change.
test_expect_success 'what-if --half-life 2d moves user5001 ahead of user5002, and changes nothing' '
	cp $DB before.db && flux fairshare what-if --half-life 2d >table && cat table && grep "^If: half-life 2 days instead of 7 days" table &&
	flux fairshare what-if --half-life 2d --json >out && cmp $DB before.db &&
	jq -e "[.associations[] | {(.user): [.place_first, .place_second]}] | add | .user5001[0] > .user5002[0] and .user5001[1] < .user5002[1]" out
'
test_expect_success 'after the change the stored usages are the numbers computed by hand, and the fair-shares are those of what-if' '
	list_predicted >predicted && cat predicted && sed -n "s/^To change the half-life: //p" table >change.sh && cat change.sh && sh -e change.sh &&
	list_hours >hours && cat hours && printf "%s\n" "user5001 5" "user5002 15" "user5003 4" "user5004 0" >expected && test_cmp expected hours &&
	print_stored | grep user | awk "{ print \$1, \$2 + 0 }" >stored && awk "{ print \$1, \$2 + 0 }" predicted >expected && test_cmp expected stored
'
test_expect_success 'what-if --half-life refuses a document, and a half-life of 0' '
	test_expect_code 2 flux fairshare what-if --half-life 2d -t "$T_DIR/golden/flux/flat.json" 2>err && cat err && grep "needs a database" err &&
	test_expect_code 2 flux fairshare what-if --half-life 0s 2>err && cat err && grep "expected at least a second" err
'
test_expect_success 'status shows ranking policy, half-life and weights, as database and configuration have them' '
	flux fairshare status >out && cat out && grep "^ranking       weighted-walk, half-life 2 days" out &&
	grep "^weights       age 0, bank 0, fairshare 100,000, queue 10,000, size 0, urgency 1,000" out &&
	flux fairshare status --json >out && jq -S .weights out >weights && mf query | jq -S .factors >factors && test_cmp factors weights &&
	run_sql "SELECT factor, weight FROM priority_factor_weight_table ORDER BY factor" >stored && cat stored &&
	jq -r "to_entries[] | select(.value != 0 or .key == \"bank\") | \"\(.key) \(.value)\"" weights >expected && test_cmp expected stored &&
	jq -e ".policy == \"weighted-walk\" and .half_life_seconds == $(run_sql "SELECT value FROM config_table WHERE key = \"priority_decay_half_life\"")" out
'
test_expect_success 'jobs --weights shows the weights, and names the half-life' '
	stop_queues && a=$(mf submit 5001) && b=$(mf submit 5003 -u 20) && c=$(mf submit 5004) && wait_scheduled $a $b $c &&
	flux fairshare jobs -w >out && cat out && grep "^Half-life of usage: 2 days$" out
'
test_expect_success 'what-if --weight reports the jobs that other weights move' '
	list_priorities >before && flux fairshare what-if --weight urgency=100000,fairshare=10 >words && cat words &&
	grep "^If: weights urgency 100,000, fairshare 10" words && grep "of 3 pending jobs would get another priority" words &&
	list_priorities >after && test_cmp before after &&
	flux fairshare what-if --weight urgency=100000,fairshare=10 --json >out && jq -e ".moves[] | select(.id == $(flux job id $b)) | .place[1] == 1" out
'
test_expect_success 'after the change the eventlogs have the priorities that what-if reported' '
	sed -n "s/^To change the weights: //p" words >change.sh && cat change.sh && sh -e change.sh && wait_settled && jq -r ".moves[] | \"\(.id) \(.priority[1])\"" out | sort >said && test -s said &&
	for id in $a $b $c; do echo "$(flux job id $id) $(mf prio $id)"; done | sort >after && grep -Fxf said after >found && test_cmp said found
'
test_expect_success 'the commands that what-if --policy prints put the policy and its options in force' '
	flux fairshare what-if --policy pbs --set pbs.min_usage=5 >out && cat out && sed -n "s/^To change the policy: //p" out >change.sh &&
	cat change.sh && sh -e change.sh && flux fairshare status | grep "^ranking       pbs" && flux fairshare policy | grep "pbs.min_usage.* 5" &&
	FLUX_HANDLE_USERID=5001 FLUX_HANDLE_ROLEMASK=2 flux fairshare what-if --policy fair-tree >out && cat out &&
	grep "^ask an administrator of this site" out && ! grep "fairshare policy" out
'
test_expect_success 'what-if --weight names the factors if one is unknown' '
	test_expect_code 2 flux fairshare what-if --weight fairshar=1 2>err && cat err && grep "the factors are fairshare, queue, bank, urgency, age, size" err
'
test_expect_success 'no job is left, and the service that edits the database ends' 'cancel_all && stop_service'
finish
