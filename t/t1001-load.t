#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='load, configuration at load, and removal of the plugin'
# Rules: K5, K7

. "$(dirname "$0")/lib.sh"
in_sequence

# These functions replace those of lib.sh. They call flux jobtap, as an administrator does.
load_plugin() { flux jobtap load "$PLUGIN" ${1:+"config=$(cat "$1")"}; }
remove_plugin() { flux jobtap remove mf_priority.so; }

test_expect_success 'an instance starts without the plugin' 'start_instance && mkdir other && ln -s "$PLUGIN_UNDER_TEST" other/mf_priority.so'

test_expect_success 'the plugin loads without configuration and starts with empty tables' '
	load_plugin && flux jobtap list | grep -x mf_priority.so &&
	test "$(mf query "[q[k] for k in (\"mf_priority_map\", \"queues\", \"projects\")]")" = "[[], {}, []]"
'
test_expect_success 'the query names the plugin and its path' '
	test "$(mf query "q[\"name\"]")" = mf_priority.so && test "$(mf query "q[\"path\"]")" = "$PLUGIN"
'
test_expect_success 'Flux refuses a second plugin of the same name' '
	test_must_fail flux jobtap load "$PWD/other/mf_priority.so"
'
test_expect_success 'the plugin refuses a second load under another name, as a link or a copy, and reports why' '
	ln -s "$PLUGIN_UNDER_TEST" other/link.so && cp "$PLUGIN_UNDER_TEST" other/copy.so &&
	for so in link copy; do
		test_must_fail flux jobtap load "$PWD/other/$so.so" 2>err && grep "mf_priority: already loaded" err || return 1
	done && test "$(flux jobtap list | grep -cE "^(mf_priority|link|copy).so$")" = 1
'
test_expect_success 'the plugin that was loaded first still accepts data after refused loads' 'mf push assoc 5001 A'
test_expect_success 'flux jobtap remove removes the plugin' '
	remove_plugin && test_must_fail flux jobtap query mf_priority.so
'
test_expect_success 'the RPC methods of the plugin end with its removal' '
	{ mf rpc reprioritize >out; test $? = 1; } && grep ENOSYS out
'
test_expect_success 'a plugin that is loaded again starts with empty tables' '
	load_plugin && test "$(mf query "q[\"mf_priority_map\"]")" = "[]"
'
test_expect_success 'counters and held jobs stay correct over twenty removals and loads' '
	mf doc assoc 5001 A max_running_jobs=1 project "*" >doc &&
	reload_plugin doc && a=$(mf submit 5001) && wait_running $a &&
	b=$(mf submit 5001) && wait_held_by $b max-running-jobs-user-limit &&
	for i in $(seq 20); do mf remove mf_priority.so && mf load "$PLUGIN" doc || return 1; done && wait_settled &&
	is_state DEPEND $b && mf counts 5001 A active=2 run=1 held=1 && cancel $a && wait_running $b && cancel $b && wait_ended $b
'
test_expect_success 'a plugin loads with a document of all kinds of records' '
	mf doc assoc 5001 A fairshare=0.25 queues=gold,silver assoc 5001 B assoc 5002 B active=0 \
		queue gold priority=7 max_running_jobs=3 queue silver project p1 project p2 bank A 2.5 \
		factor fairshare 1000 factor bank 2 config deny_unknown_queues=false >doc &&
	reload_plugin doc
'
test_expect_success 'the query shows the associations of the document given at load' '
	test "$(mf query "[[u[\"userid\"], b[\"bank_name\"], b[\"fairshare\"], b[\"queues\"], b[\"active\"]]
		for u in q[\"mf_priority_map\"] for b in u[\"banks\"]]")" = \
		"[[5001, \"A\", 0.25, [\"gold\", \"silver\"], 1], [5001, \"B\", 0.5, [], 1], [5002, \"B\", 0.5, [], 0]]"
'
test_expect_success 'the query shows the queues and projects of the document given at load' '
	test "$(mf query "[q[\"queues\"][\"gold\"][\"priority\"], q[\"queues\"][\"gold\"][\"max_running_jobs\"], q[\"projects\"]]")" = \
		"[7, 3, [\"p1\", \"p2\"]]"
'
test_expect_success 'unknown keys of a document are ignored, at the top and in records' '
	jq ".novelty = {} | .associations[0].novelty = [] | .queues[0].novelty = null" <doc >newer &&
	reload_plugin newer && mf counts 5001 A active=0
'
test_expect_success 'each part of a document may be absent' '
	echo "{}" >none && reload_plugin none &&
	jq "{associations}" <doc >some && reload_plugin some && mf counts 5001 B active=0
'
test_expect_success 'a fair-share may be an integer' '
	jq ".associations[0].fairshare = 1" <doc >int && reload_plugin int
'

# check_refused_load FILTER TEXT: checks that ./doc, changed by FILTER, fails to load and that the log has TEXT.
check_refused_load() {
	jq "$1" <doc >bad && clear_log && ! load_plugin bad && log_has "error initializing plugin with JSON object: " &&
	{ log_has "$2" || { flux dmesg | grep "error init"; false; }; } && ! flux jobtap list | grep mf_priority
}
test_expect_success 'a load fails if an association lacks a key' '
	remove_plugin && check_refused_load "del(.associations[1].max_nodes)" "associations[1].max_nodes"
'
test_expect_success 'a load fails if an association is not an object' 'check_refused_load ".associations[2] = 7" "associations[2]"'
test_expect_success 'a load fails if a queue has a value of the wrong type' 'check_refused_load ".queues[1].priority = \"x\"" "queues[1].priority"'
test_expect_success 'a load fails if a project has a value of the wrong type' 'check_refused_load ".projects[0].project = null" "projects[0].project"'
test_expect_success 'a load fails if a bank has a value of the wrong type' 'check_refused_load ".banks[0].priority = []" "banks[0].priority"'
test_expect_success 'a load fails if a weight has a value of the wrong type' 'check_refused_load ".priority_factors[0].weight = true" "priority_factors[0].weight"'
test_expect_success 'a load fails if the config has a value of the wrong type' 'check_refused_load ".config.deny_unknown_queues = 1" "deny_unknown_queues"'
test_expect_success 'a load fails if the associations are not an array' 'check_refused_load ".associations = {}" "associations"'
test_expect_success 'the plugin loads and prioritizes a job after all refused loads' '
	load_plugin doc && id=$(mf submit 5001) && wait_running $id && prio_is $id 255
'
test_expect_success 'a document in the configuration file of the broker is in force for the first submission' '
	cancel_all && write_conf "$(with_plugin doc)" && restart_instance &&
	id=$(mf submit 5001) && wait_running $id && prio_is $id 255 && mf counts 5001 A active=1 run=1
'
finish
