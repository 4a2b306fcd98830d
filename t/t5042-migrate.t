#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='the change from the plugin of flux-accounting to ours and back loses no job in any state'

#   UPSTREAM_PLUGIN  flux-accounting's mf_priority.so (default: the one below Flux's prefix)
. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

UPSTREAM_PLUGIN=${UPSTREAM_PLUGIN:-$(pkg-config --variable=fluxlibdir flux-core)/job-manager/plugins/mf_priority.so}
for theirs in "$UPSTREAM_PLUGIN" "$UPSTREAM_PLUGIN.flux-accounting"; do
	test -e "$theirs" && ! grep -qa "mf_priority: loaded (version" "$theirs" && test_set_prereq UPSTREAM && break
done
test_have_prereq UPSTREAM || echo "!! flux-accounting's mf_priority.so is not at $UPSTREAM_PLUGIN: migration is NOT tested" >&2

# The commands of docs/migrate.md.
load_ours() { flux jobtap load -r mf_priority.so "$PLUGIN" && flux fairshare push -p $DB; }
load_theirs() { flux jobtap load -r mf_priority.so "$theirs" "config=$(flux account export-json)"; }
run_migrate() { flux fairshare migrate "$@"; }
drop_dependency() { mf rpc job-manager.keeper.drop "{\"id\":$(flux job id "$1"),\"name\":\"$2\"}"; }
# check_fate ID FATE: checks the member "fate" of the job in the output of migrate --json.
check_fate() {
	run_migrate --json >fates.json
	jq -e --arg id "$1" --arg fate "$2" '.held[] | select(.id == $id) | .fate == $fate' fates.json || { cat fates.json; return 1; }
}
# check_alive ID...: checks that no job ended or got an exception.
check_alive() {
	local id
	require_ids "$@" && for id; do
		! is_state INACTIVE $id >/dev/null && check_no_event $id exception || { echo "$id is lost"; mf events $id; return 1; }
	done
}
# hold_under_second_name USER: makes the same limit hold a job twice. The name of the second dependency ends with .2. Sets $kept to the held
# job, and $taker to the job that runs instead.
hold_under_second_name() {
	local a
	a=$(mf submit $1) && wait_running $a && kept=$(mf submit $1 -d keep:x) && wait_held_by $kept max-running-jobs-user-limit &&
		cancel $a && wait_ended $a && wait_freed_from $kept max-running-jobs-user-limit && wait_settled && taker=$(mf submit $1) &&
		wait_running $taker && drop_dependency $kept keep=x && wait_held_by $kept max-running-jobs-user-limit.2
}

test_expect_success UPSTREAM 'jobs run, are held, wait for resources and are blocked under the plugin of flux-accounting' '
	gcc -shared -fPIC -o keeper.so "$T_DIR/random/keeper.c" && start_instance && make_site &&
	for u in 5001 5002; do flux account edit-user user$u --max-running-jobs=1 || return 1; done &&
	flux jobtap load "$PWD/keeper.so" && flux jobtap load "$theirs" "config=$(flux account export-json)" &&
	run=$(mf submit 5001) && wait_running $run && held1=$(mf submit 5001) && held2=$(mf submit 5001) &&
	wait_held_by $held1 max-running-jobs-user-limit && wait_held_by $held2 max-running-jobs-user-limit &&
	big=$(mf submit 5003 -N 4 -n 16) && wait_scheduled $big && after=$(mf submit 5003 -d afterany:$big) && wait_for dependency-add $after &&
	is_state RUN $run && is_state SCHED $big && is_state DEPEND $held1 $held2 $after
'
test_expect_success UPSTREAM 'our plugin takes over all jobs in their states' '
	load_ours && wait_settled && check_alive $run $held1 $held2 $big $after && is_state DEPEND $held1 $held2 $after && is_state SCHED $big && is_state RUN $run &&
	mf counts 5001 A active=3 run=1 held=2 && mf counts 5003 B active=2 && mf check
'
test_expect_success UPSTREAM 'our plugin releases jobs that the other plugin held, one by one' '
	cancel $big && wait_running $after && cancel $run && wait_running $held1 && wait_settled && is_state DEPEND $held2 && mf counts 5001 A active=2 run=1 held=1
'
test_expect_success UPSTREAM 'migrate lists the jobs that the other plugin would keep held, end or hold indefinitely' '
	hold_under_second_name 5002 && late=$kept && place=$taker &&
	flux fairshare limit set user user5004 run-nodes=1 -p $DB >out && flux fairshare push -p $DB &&
	wide=$(mf submit 5004 -N 1) && wait_running $wide && scope=$(mf submit 5004 -N 1) && wait_held_by $scope max-run-nodes-user &&
	check_fate $held2 "stays held" && check_fate $late "is ended when there is headroom" && check_fate $scope "waits forever" &&
	test_expect_code 1 run_migrate >out && cat out && grep "2 of 3 jobs would be lost: flux fairshare migrate --to-upstream" out
'
test_expect_success UPSTREAM 'guests may not call hand_over and rest' '
	test_must_fail mf rpc --as 5001 hand_over >out && grep EPERM out && test_must_fail mf rpc --as 5001 rest "{\"ids\":[]}" >out && grep EPERM out
'
test_expect_success UPSTREAM 'rest leaves a job at another urgency than 0 held' '
	mf rpc rest "{\"ids\":[$(flux job id $late)]}" >out && grep "\"left\":\[$(flux job id $late)\]" out && wait_settled && is_state DEPEND $late
'
test_expect_success UPSTREAM 'migrate --to-upstream moves the jobs that would be lost to SCHED at urgency 0, and the other job stays held' '
	run_migrate --to-upstream >let-go.sh 2>err && cat err let-go.sh && grep "2 jobs are parked at urgency 0" err && wait_scheduled $late && wait_scheduled $scope && wait_settled &&
	is_state SCHED $late $scope && prio_is $late 0 && prio_is $scope 0 && is_state DEPEND $held2 && run_migrate && check_fate $held2 "stays held"
'
test_expect_success UPSTREAM 'the other plugin takes over all jobs' '
	load_theirs && wait_settled && check_alive $held1 $held2 $late $place $scope $wide $after && is_state RUN $held1 $place $wide &&
	is_state DEPEND $held2 && is_state SCHED $late $scope && run_migrate >out && grep "has lost no job" out
'
test_expect_success UPSTREAM 'the other plugin releases the job that it holds, and the script restores the urgencies' '
	cancel $held1 && wait_running $held2 && sh let-go.sh && wait_running $late $scope && check_alive $held2 $late $scope
'
test_expect_success UPSTREAM 'a job waits forever if the site skips migrate --to-upstream, migrate reports the job, and our plugin releases the job' '
	load_ours && cancel_all && hold_under_second_name 5002 && load_theirs && wait_settled && is_state DEPEND $kept &&
	test_expect_code 1 run_migrate >out && cat out && grep "$kept.*waits forever.*max-running-jobs-user-limit.2" out &&
	test_must_fail run_migrate --to-upstream 2>err && grep "flux-accounting.s plugin is already loaded" err &&
	load_ours && cancel $taker && wait_running $kept
'
test_expect_success UPSTREAM 'migrate --to-upstream --all-held protects every held job, even if headroom appears before the change' '
	held=$(mf submit 5002 -u 20) && wait_held_by $held max-running-jobs-user-limit && run_migrate && run_migrate --to-upstream --all-held >let-go.sh &&
	grep "flux job urgency $held 20" let-go.sh && wait_scheduled $held && wait_settled && is_state SCHED $held && cancel $kept && wait_ended $kept && load_theirs && wait_settled &&
	is_state SCHED $held && sh let-go.sh && wait_running $held
'
test_expect_success UPSTREAM 'an interrupted migrate --to-upstream is reported, and a second run keeps all urgencies' '
	load_ours && cancel_all && take=$(mf submit 5002) && wait_running $take && held=$(mf submit 5002 -u 21) && wait_held_by $held max-running-jobs-user-limit && rm -f let-go.sh &&
	start_relay --rename job-manager.mf_priority.rest job-manager.mf_priority.resX &&
	test_expect_code 2 flux fairshare migrate --to-upstream --all-held --uri "$through" >>let-go.sh 2>err; rc=$?; end_relay; cat err; test $rc = 0 &&
	grep "1 job is parked at urgency 0; keep the script" err && is_state DEPEND $held &&
	run_migrate --to-upstream --all-held >>let-go.sh && wait_scheduled $held && run_migrate --to-upstream --all-held >>let-go.sh && cat let-go.sh &&
	sh let-go.sh && wait_running $held && test "$(flux jobs -n -o "{urgency}" $held)" = 21 && cancel_all
'
test_expect_success UPSTREAM 'migrate --to-upstream leaves a held and blocked job as it is, and the other plugin still holds the job' '
	run=$(mf submit 5002) && wait_running $run && kept=$(mf submit 5002 -d keep:x) && wait_held_by $kept max-running-jobs-user-limit && wait_settled &&
	test_expect_code 1 run_migrate --to-upstream --all-held >let-go.sh 2>err && cat err && grep "$kept: stays held .*other plugins block this job too" err && ! grep "$kept" let-go.sh &&
	load_theirs && wait_settled && cancel $run && wait_ended $run && wait_freed_from $kept max-running-jobs-user-limit && drop_dependency $kept keep=x && wait_running $kept && check_no_event $kept exception
'
test_expect_success UPSTREAM 'migrate reports a blocked job that the other plugin would end' '
	load_ours && cancel_all && run=$(mf submit 5002) && wait_running $run && kept=$(mf submit 5002 -d keep:x) && wait_held_by $kept max-running-jobs-user-limit &&
	cancel $run && wait_ended $run && wait_freed_from $kept max-running-jobs-user-limit && wait_settled && run_migrate && run=$(mf submit 5002) && wait_running $run &&
	check_fate $kept "is ended when there is headroom" && test_expect_code 1 run_migrate >out && cat out && grep "1 job of these is blocked by other plugins too" out &&
	drop_dependency $kept keep=x && wait_held_by $kept max-running-jobs-user-limit.2 && run_migrate --to-upstream >let-go.sh && wait_scheduled $kept && load_theirs && wait_settled &&
	cancel $run && wait_ended $run && sh let-go.sh && wait_running $kept && check_no_event $kept exception && cancel_all
'
test_expect_success UPSTREAM 'our plugin is loaded again' 'load_ours'
test_expect_success UPSTREAM 'the service that edits the database ends' 'stop_service'
finish
