#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='the snapshot restores the last policy after a reload and a restart'
# Rules: S1, S5, S7, S8, S9, S10

. "$(dirname "$0")/lib.sh"
in_sequence

MANIFEST=mf_priority.remember.manifest

# remembered: waits until the plugin has written a new snapshot. in_force_again: waits until it has read one.
remembered() {
	local i
	for i in $(seq 100); do
		flux kvs get $MANIFEST >manifest 2>/dev/null && ! cmp -s manifest manifest.before && cp manifest manifest.before && return 0
		sleep 0.1
	done
	echo "nothing is remembered"
	return 1
}
in_force_again() {
	local i
	for i in $(seq 100); do
		logged "restored the last push" >/dev/null && return 0
		sleep 0.1
	done
	flux dmesg | tail
	return 1
}
# wait_for_log TEXT: waits until the log has TEXT.
wait_for_log() {
	local until=$((SECONDS + MF_WAIT))
	until logged "$1"; do
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
same_policy() {
	flux jobtap query mf_priority.so | jq -S "del(.path, .updated, .pushed_by, .generation)" >"$1"
}
# keys: prints the keys of the snapshot.
keys() { flux kvs dir -R mf_priority.remember 2>/dev/null | cut -d" " -f1 | grep "^mf_priority[.]"; }

test_expect_success 'an instance has a limit of 1 and a running job' '
	write_conf "$(with_queues q)" && start_instance && load_plugin &&
	mf doc assoc 5001 A queues=q max_running_jobs=1 assoc 5002 A queues=q queue q priority=1 project "*" bank A 1 >doc &&
	mf rpc policy_update "$(cat doc)" && remembered &&
	first=$(mf submit 5001 -q q) && running $first && same_policy before
'
test_expect_success 'a limit holds after a reload without a push' '
	new_log && remove_plugin && load_plugin && in_force_again && new_log &&
	for n in 1 2 3 4; do mf submit 5001 -q q >>later || return 1; done &&
	held_by $(head -1 later) max-running-jobs-user-limit && held_by $(tail -1 later) max-running-jobs-user-limit &&
	settled && is_state RUN $first && is_state DEPEND $(cat later) && mf counts 5001 A run=1 held=4
'
test_expect_success 'the snapshot restores the pushed policy' '
	cancel $(cat later) && ended $(cat later) && same_policy after && test_cmp before after
'
test_expect_success 'jobs that were replayed before the snapshot was read are counted' '
	second=$(mf submit 5001 -q q) && held_by $second max-running-jobs-user-limit &&
	remove_plugin && load_plugin && in_force_again && new_log && settled &&
	is_state RUN $first && is_state DEPEND $second && mf counts 5001 A active=2 run=1 held=1
'
test_expect_success 'a restart restores the policy if the broker loads the plugin' '
	write_conf "$(with_queues q) | $(with_plugin)" && restart_instance && in_force_again && new_log &&
	is_state DEPEND $second && mf counts 5001 A held=1 && cancel $first && ended $first &&
	running $second && mf counts 5001 A active=1 run=1 held=0
'
test_expect_success 'a push replaces the snapshot and removes chunks that only the old one needed' '
	keys >keys.before && mf doc assoc 5002 A queues=q queue q project "*" bank A 1 >doc2 &&
	mf rpc policy_update "$(cat doc2)" && remembered && keys >keys.after && test $(wc -l <keys.after) -le $(($(wc -l <keys.before) + 1)) &&
	new_log && remove_plugin && load_plugin && in_force_again && new_log &&
	refused "cannot find user/bank or user/default bank entry for uid: 5001" mf submit 5001 -q q
'
test_expect_success 'a push that changes one group of users leaves the chunks of all other groups' '
	mf doc $(for user in $(seq 5002 5400); do echo assoc $user A queues=q; done) queue q project "*" bank A 1 >many &&
	mf rpc policy_update "$(cat many)" && remembered && keys >keys.before &&
	jq -c ".associations[7].fairshare = 0.75 | .associations[8].max_running_jobs = 3 | del(.associations[9])" many >fewer &&
	mf rpc policy_update "$(cat fewer)" && remembered && keys >keys.after &&
	comm -13 <(sort keys.before) <(sort keys.after) >new && cat new && test $(wc -l <new) -le 4 && grep "[.]base[.]" new &&
	comm -23 <(sort keys.before) <(sort keys.after) >gone && cat gone && test $(wc -l <gone) = $(wc -l <new)
'
test_expect_success 'a reload restores the changes of that push' '
	mf query "q[\"mf_priority_map\"]" >before && new_log && remove_plugin && load_plugin && in_force_again &&
	logged "398 associations" && mf query "q[\"mf_priority_map\"]" >after && test_cmp before after
'
test_expect_success 'a push by the methods of flux-accounting removes the snapshot' '
	mf push assoc 5001 A queues=q assoc 5002 A queues=q queue q project "*" && wait_for_removal && ! keys
'
test_expect_success 'a reload without a snapshot leaves new jobs in PRIORITY' '
	remove_plugin && load_plugin && settled && id=$(mf submit 5002 -q q) && wait_for depend $id && settled && is_state PRIORITY $id &&
	! keys
'
test_expect_success 'a damaged manifest is refused, and the log says how to recover' '
	mf rpc policy_update "$(cat doc)" && remembered && running $id &&
	flux kvs put $MANIFEST="$(flux kvs get $MANIFEST | sed s/associations/associatiosn/)" &&
	new_log && remove_plugin && load_plugin &&
	wait_for_log "the snapshot of the last push is refused: the manifest is damaged" &&
	logged "flux fairshare push" && waits=$(mf submit 5002 -q q) && wait_for depend $waits && settled && is_state PRIORITY $waits
'
test_expect_success 'a push replaces a damaged snapshot' '
	mf rpc policy_update "$(cat doc)" && remembered && running $waits && new_log && remove_plugin && load_plugin && in_force_again
'
test_expect_success 'a missing chunk is reported in the log' '
	flux kvs unlink $(keys | grep "[.]rest[.]" | head -1) && new_log && remove_plugin && load_plugin &&
	wait_for_log "is missing" && mf rpc policy_update "$(cat doc)" && remembered
'
test_expect_success 'the manifest has the user id of its owner' '
	flux kvs get $MANIFEST | tail -1 | jq -e ".owner == $(id -u)"
'
test_expect_success 'remember=false does not read the snapshot, and removes it' '
	new_log && remove_plugin && flux jobtap load "$PLUGIN" remember=false && settled && wait_for_removal && ! keys &&
	not_logged "restored the last push" && mf rpc policy_update "$(cat doc)" && settled && ! keys
'
test_expect_success 'remember=true in a new configuration writes the present policy' '
	remove_plugin && write_conf "$(with_queues q) | .fairshare.remember = false" && restart_instance && load_plugin &&
	mf rpc policy_update "$(cat doc)" && settled && ! keys &&
	flux config get | jq ".fairshare.remember = true" | flux config load && remembered
'
test_expect_success 'a document at load takes precedence over the snapshot' '
	new_log && remove_plugin && load_plugin doc2 && settled && not_logged "restored the last push" &&
	refused "cannot find user/bank or user/default bank entry for uid: 5001" mf submit 5001 -q q && keys
'
cancel_all
finish
