#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='the snapshot restores the last policy after a reload and a restart'
# Rules: S1, S5, S7, S8, S9, S10

. "$(dirname "$0")/lib.sh"
in_sequence

MANIFEST=mf_priority.remember.manifest

# wait_for_write: waits until the plugin has written a new snapshot. wait_for_read: waits until the plugin has read a snapshot.
wait_for_write() {
	local i
	for i in $(seq 100); do
		flux kvs get $MANIFEST >manifest 2>/dev/null && ! cmp -s manifest manifest.before && cp manifest manifest.before && return 0
		sleep 0.1
	done
	echo "nothing is remembered"
	return 1
}
wait_for_read() {
	local i
	for i in $(seq 100); do
		log_has "restored the last push" >/dev/null && return 0
		sleep 0.1
	done
	flux dmesg | tail
	return 1
}
# wait_for_log TEXT: waits until the log has TEXT.
wait_for_log() {
	local until=$((SECONDS + MF_WAIT))
	until log_has "$1"; do
		test $SECONDS -le $until || { flux dmesg | tail; return 1; }
		sleep 0.1
	done
}
wait_for_removal() {
	local i
	for i in $(seq 100); do
		flux kvs get $MANIFEST >/dev/null 2>&1 || return 0
		sleep 0.1
	done
	return 1
}
save_query() {
	flux jobtap query mf_priority.so | jq -S "del(.path, .updated, .pushed_by, .generation)" >"$1"
}
# list_keys: prints the keys of the snapshot.
list_keys() { flux kvs dir -R mf_priority.remember 2>/dev/null | cut -d" " -f1 | grep "^mf_priority[.]"; }

test_expect_success 'an instance has a limit of 1 and a running job' '
	write_conf "$(with_queues q)" && start_instance && load_plugin &&
	mf doc assoc 5001 A queues=q max_running_jobs=1 assoc 5002 A queues=q queue q priority=1 project "*" bank A 1 >doc &&
	mf rpc policy_update "$(cat doc)" && wait_for_write &&
	first=$(mf submit 5001 -q q) && wait_running $first && save_query before
'
test_expect_success 'a limit holds after a reload without a push' '
	clear_log && remove_plugin && load_plugin && wait_for_read && clear_log &&
	for n in 1 2 3 4; do mf submit 5001 -q q >>later || return 1; done &&
	wait_held_by $(head -1 later) max-running-jobs-user-limit && wait_held_by $(tail -1 later) max-running-jobs-user-limit &&
	wait_settled && is_state RUN $first && is_state DEPEND $(cat later) && mf counts 5001 A run=1 held=4
'
test_expect_success 'the snapshot restores the pushed policy' '
	cancel $(cat later) && wait_ended $(cat later) && save_query after && test_cmp before after
'
test_expect_success 'jobs that were replayed before the snapshot was read are counted' '
	second=$(mf submit 5001 -q q) && wait_held_by $second max-running-jobs-user-limit &&
	remove_plugin && load_plugin && wait_for_read && clear_log && wait_settled &&
	is_state RUN $first && is_state DEPEND $second && mf counts 5001 A active=2 run=1 held=1
'
test_expect_success 'a restart restores the policy if the broker loads the plugin' '
	write_conf "$(with_queues q) | $(with_plugin)" && restart_instance && wait_for_read && clear_log &&
	is_state DEPEND $second && mf counts 5001 A held=1 && cancel $first && wait_ended $first &&
	wait_running $second && mf counts 5001 A active=1 run=1 held=0
'
test_expect_success 'a push replaces the snapshot and removes chunks that only the old one needed' '
	list_keys >keys.before && mf doc assoc 5002 A queues=q queue q project "*" bank A 1 >doc2 &&
	mf rpc policy_update "$(cat doc2)" && wait_for_write && list_keys >keys.after && test $(wc -l <keys.after) -le $(($(wc -l <keys.before) + 1)) &&
	clear_log && remove_plugin && load_plugin && wait_for_read && clear_log &&
	check_refused "cannot find user/bank or user/default bank entry for uid: 5001" mf submit 5001 -q q
'
test_expect_success 'a push that changes one group of users leaves the chunks of all other groups' '
	mf doc $(for user in $(seq 5002 5400); do echo assoc $user A queues=q; done) queue q project "*" bank A 1 >many &&
	mf rpc policy_update "$(cat many)" && wait_for_write && list_keys >keys.before &&
	jq -c ".associations[7].fairshare = 0.75 | .associations[8].max_running_jobs = 3 | del(.associations[9])" many >fewer &&
	mf rpc policy_update "$(cat fewer)" && wait_for_write && list_keys >keys.after &&
	comm -13 <(sort keys.before) <(sort keys.after) >new && cat new && test $(wc -l <new) -le 4 && grep "[.]base[.]" new &&
	comm -23 <(sort keys.before) <(sort keys.after) >gone && cat gone && test $(wc -l <gone) = $(wc -l <new)
'
test_expect_success 'a reload restores the changes of that push' '
	mf query "q[\"mf_priority_map\"]" >before && clear_log && remove_plugin && load_plugin && wait_for_read &&
	log_has "398 associations" && mf query "q[\"mf_priority_map\"]" >after && test_cmp before after
'
test_expect_success 'a push by the methods of flux-accounting removes the snapshot' '
	mf push assoc 5001 A queues=q assoc 5002 A queues=q queue q project "*" && wait_for_removal && ! list_keys
'
test_expect_success 'a reload without a snapshot leaves new jobs in PRIORITY' '
	remove_plugin && load_plugin && wait_settled && id=$(mf submit 5002 -q q) && wait_for depend $id && wait_settled && is_state PRIORITY $id &&
	! list_keys
'
test_expect_success 'a damaged manifest is refused, and the log says how to recover' '
	mf rpc policy_update "$(cat doc)" && wait_for_write && wait_running $id &&
	flux kvs put $MANIFEST="$(flux kvs get $MANIFEST | sed s/associations/associatiosn/)" &&
	clear_log && remove_plugin && load_plugin &&
	wait_for_log "the snapshot of the last push is refused: the manifest is damaged" &&
	log_has "flux fairshare push" && waits=$(mf submit 5002 -q q) && wait_for depend $waits && wait_settled && is_state PRIORITY $waits
'
test_expect_success 'a push replaces a damaged snapshot' '
	mf rpc policy_update "$(cat doc)" && wait_for_write && wait_running $waits && clear_log && remove_plugin && load_plugin && wait_for_read
'
test_expect_success 'a missing chunk is reported in the log' '
	flux kvs unlink $(list_keys | grep "[.]rest[.]" | head -1) && clear_log && remove_plugin && load_plugin &&
	wait_for_log "is missing" && mf rpc policy_update "$(cat doc)" && wait_for_write
'
test_expect_success 'the manifest has the user id of its owner' '
	flux kvs get $MANIFEST | tail -1 | jq -e ".owner == $(id -u)"
'
test_expect_success 'remember=false does not read the snapshot, and removes it' '
	clear_log && remove_plugin && flux jobtap load "$PLUGIN" remember=false && wait_settled && wait_for_removal && ! list_keys &&
	log_lacks "restored the last push" && mf rpc policy_update "$(cat doc)" && wait_settled && ! list_keys
'
test_expect_success 'remember=true in a new configuration writes the present policy' '
	remove_plugin && write_conf "$(with_queues q) | .fairshare.remember = false" && restart_instance && load_plugin &&
	mf rpc policy_update "$(cat doc)" && wait_settled && ! list_keys &&
	flux config get | jq ".fairshare.remember = true" | flux config load && wait_for_write
'
test_expect_success 'a document at load takes precedence over the snapshot' '
	clear_log && remove_plugin && load_plugin doc2 && wait_settled && log_lacks "restored the last push" &&
	check_refused "cannot find user/bank or user/default bank entry for uid: 5001" mf submit 5001 -q q && list_keys
'
cancel_all
finish
