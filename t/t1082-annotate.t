#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='annotations of jobs follow fair-share and rank, also after a reload of the plugin'
# Rules: K22

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

print_annotation() { flux jobs -no "{annotations.user.standing}" $1; }
# print_standing USER: prints fair-share and rank of "flux fairshare standing".
print_standing() {
	flux fairshare standing $1 --json | jq -r '.associations[0] | "\(.fairshare * 1000 | round / 1000) \(.rank.place) \(.rank.of)"' |
		{ read fairshare place of; printf '%.3f, %s of %s\n' $fairshare $place $of; }
}
# wait_for_annotation USER ID: waits until the annotation of job ID shows the fair-share and the rank that print_standing prints for USER.
wait_for_annotation() {
	for try in $(seq 50); do
		print_annotation $2 | sed 's/\([0-9]\)\(st\|nd\|rd\|th\) of/\1 of/' >found && print_standing $1 >wanted && cmp -s wanted found && return 0
		sleep 0.1
	done
	cat wanted found
	return 1
}

test_expect_success 'an instance has a running job and two annotated pending jobs' '
	write_conf "$(with_plugin) | .fairshare = {annotate: true, refresh: \"200ms\"}" && start_instance && make_site &&
	set_usage 5001 3600 && set_usage 5002 3600 && set_usage 5004 7200 && flux fairshare policy classic -p $DB && flux fairshare push -p $DB &&
	run=$(mf submit 5001 -N 3 -n 3 -t 3600) && wait_running $run && flux queue stop --all &&
	one=$(mf submit 5001) && two=$(mf submit 5002) && wait_scheduled $one $two && wait_for_annotation 5001 $one && wait_for_annotation 5002 $two
'
test_expect_success 'annotations follow usage that changes no order' '
	print_annotation $one >first && set_usage 5001 90000 && flux fairshare push -p $DB && wait_for_annotation 5001 $one && wait_for_annotation 5002 $two &&
	print_annotation $one >second && test_must_fail test_cmp first second
'
test_expect_success 'a reload annotates the pending jobs again' '
	flux config get | jq ".fairshare.annotate = false" >off.json && flux config load <off.json && reload_plugin && flux fairshare push -p $DB && wait_settled &&
	set_usage 5001 10 && flux fairshare push -p $DB && print_annotation $one >old && flux config get | jq ".fairshare.annotate = true" >on.json && flux config load <on.json &&
	reload_plugin && flux fairshare push -p $DB && wait_settled && wait_for_annotation 5001 $one && wait_for_annotation 5002 $two && print_annotation $one >new && test_must_fail test_cmp old new
'
names_limit() { print_annotation $1 | grep -x "held: max-running-jobs-user-limit 0/0"; }
test_expect_success 'the annotation of a held job names its limit, also after a reload' '
	flux account edit-user user5002 --max-active-jobs=9 --max-running-jobs=0 && flux fairshare push -p $DB && held=$(mf submit 5002) && wait_held_by $held max-running-jobs-user-limit &&
	wait_until names_limit $held &&
	reload_plugin && flux fairshare push -p $DB && wait_settled && wait_until names_limit $held
'
test_expect_success 'annotations are not written to eventlogs' '
	flux job eventlog $one >log && cat log && ! grep standing log
'
cancel_all
finish
