#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='jobspecs with countable sizes, with uncountable sizes, and malformed jobspecs'
# Rules: L13

. "$(dirname "$0")/lib.sh"

# The instance has no queues, because with queues Flux checks the size before the plugin does.
test_expect_success 'an instance has the plugin without data' 'start_instance && stop_queues && load_plugin'

text="unable to count resources for job"
node='"type":"node","count":1' slot='"type":"slot","label":"task"' core='{"type":"core","count":1}'
check_refused_sizes() {
	local resources
	while read -r resources; do
		check_refused "$text" mf submit 5001 --resources "$resources" || { echo "for $resources"; return 1; }
	done <<-EOF
	[$core]
	[]
	{}
	7
	[7]
	[{$node}]
	[{$node,"with":[$core]}]
	[{$slot,"count":1}]
	[{$slot,"count":1,"with":[]}]
	[{$slot,"count":1,"with":[{"type":"gpu","count":1}]}]
	[{$slot,"count":1,"with":[{"count":1}]}]
	[{$slot,"count":1,"with":[{"type":7,"count":1}]}]
	[{$slot,"count":0,"with":[$core]}]
	[{$slot,"count":-1,"with":[$core]}]
	[{$slot,"count":"1","with":[$core]}]
	[{$slot,"count":1.5,"with":[$core]}]
	[{$slot,"count":null,"with":[$core]}]
	[{$slot,"with":[$core]}]
	[{$slot,"count":{"min":1,"max":2,"operator":"+","operand":1},"with":[$core]}]
	EOF
}
test_expect_success 'a size that cannot be counted is refused before data' 'check_refused_sizes'
test_expect_success 'a size that cannot be counted is refused with data' 'mf push assoc 5001 A project "*" && check_refused_sizes && mf counts 5001 A active=0'
test_expect_success 'a job without a duration is refused' '
	check_refused "$text" mf submit 5001 --set attributes.system.duration=DELETE
'
test_expect_success 'a malformed jobspec is refused with a message' '
	mf push assoc 5001 A project "*" &&
	for change in attributes=7 attributes=DELETE attributes.system=7 attributes.system=DELETE attributes.system=[] \
		version=DELETE resources=DELETE "attributes.system.duration=\"1h\"" attributes=null resources=null; do
		mf submit 5001 --set "$change" >out 2>&1 && { echo "accepted: $change"; return 1; }
		test -s out || { echo "no text: $change"; return 1; }
	done && mf alive && mf counts 5001 A active=0
'
# check_size WANT RESOURCES: checks the [nodes, cores] that the plugin counts for a held job.
check_size() {
	local id dec want=$1
	shift
	mf push assoc 5002 A max_sched_jobs=0 project "*" && id=$(mf submit 5002 "$@") && wait_held_by "$id" max-sched-jobs-user-limit && dec=$(flux job id "$id") &&
	mf query "[[j[\"nnodes\"], j[\"ncores\"]] for u in q[\"mf_priority_map\"] for b in u[\"banks\"]
		for i, j in b[\"held_jobs\"].items() if i == \"$dec\"][0]" >size && echo "$want" >want && test_cmp want size
}
test_expect_success 'a jobspec without nodes counts one node and all its cores' '
	check_size "[1, 1]" && check_size "[1, 8]" -n 4 -c 2
'
test_expect_success 'a jobspec with nodes counts nodes, slots and cores' 'check_size "[2, 24]" -N 2 -n 6 -c 4'
test_expect_success 'a jobspec with sockets between node and slot counts the product along the path' '
	check_size "[2, 12]" --resources "[{\"type\":\"node\",\"count\":2,\"with\":[{\"type\":\"socket\",\"count\":3,\"with\":[
		{$slot,\"count\":1,\"with\":[{\"type\":\"core\",\"count\":2}]}]}]}]"
'
test_expect_success 'GPUs in a slot do not change the count of nodes and cores' '
	check_size "[1, 3]" --resources "[{$slot,\"count\":3,\"with\":[$core,{\"type\":\"gpu\",\"count\":9}]}]"
'
test_expect_success 'counts whose product exceeds 64 bits do not wrap' '
	mf push assoc 5003 A max_cores=1000000 &&
	for n in 4611686018427387904 9223372036854775807; do
		mf submit 5003 -n $n -c $n >out 2>&1 && { echo "accepted $n"; return 1; }
		grep -e "^unable to count resources for job" -e "^job size (" out || { cat out; return 1; }
	done && mf counts 5003 A active=0
'
test_expect_success 'the job manager accepts a valid job after all refused ones' '
	mf push assoc 5001 A project "*" && mf alive && id=$(mf submit 5001) && wait_scheduled $id && mf counts 5001 A active=1
'
finish
