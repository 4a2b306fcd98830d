#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='callers of each method, payloads with forged credentials, and texts of users in the log'
# Rules: K10, K34

. "$(dirname "$0")/lib.sh"

methods=$(sed -nE 's/^\s*records_method!\(c"([a-z_]+)".*/owner:\1/p; s/^\s*Method \{ name: c"([a-z_]+)", role: (\w+),.*/\L\2:\1/p' \
	"$SHARNESS_TEST_SRCDIR/../src/plugin/methods.rs")
print_forged() { echo "{\"owner\":true,\"rolemask\":1,\"userid\":5002,\"cred\":{\"userid\":5002,\"rolemask\":1},$1}"; }
# call_as UID METHOD PAYLOAD: calls a method as the guest UID.
call_as() { mf rpc --as "$@"; }

test_expect_success 'an instance has running jobs of two users' '
	test $(echo "$methods" | wc -l) -ge 20 &&
	write_conf "$(with_queues q r) | $(with_frobnicator)" && start_instance && load_plugin &&
	mf push assoc 5001 A queues=q assoc 5002 A queues=q queue q project "*" bank A 0 &&
	one=$(mf submit 5001 -q q -t 3600) && other=$(mf submit 5002 -q q -t 3600) && wait_running $one $other && wait_settled
'
test_expect_success 'guests are refused by every method of the owner, whatever the payload says, and change nothing' '
	mf query "q[\"mf_priority_map\"]" >before &&
	for method in $(echo "$methods" | sed -nE "s/(owner|admin)://p"); do
		for payload in "{}" "$(print_forged "\"data\":[]")" "$(print_forged "\"user\":5002")"; do
			call_as 5001 $method "$payload" >out 2>&1
			grep -q -e "owner credentials" -e "insufficient privilege" out || { echo "$method $payload:"; cat out; return 1; }
		done
	done &&
	mf query "q[\"mf_priority_map\"]" >after && diff before after
'
test_expect_success 'guests read no data of another user by the methods that they may call' '
	their=$(flux job id $other) &&
	for method in $(echo "$methods" | sed -n "s/guest://p"); do
		for more in "\"jobs\":[$their]" "\"user\":5002" "\"user\":5002,\"bank\":\"A\"" "\"queue\":\"q\""; do
			for payload in "{$more}" "$(print_forged "$more")"; do
				call_as 5001 $method "$payload" >out 2>&1
				! grep -q "\"userid\": *5002" out || { echo "$method $payload:"; cat out; return 1; }
			done
		done
	done
'
test_expect_success 'the owner may call every method' '
	for method in $(echo "$methods" | sed "s/.*://"); do
		mf rpc $method "{}" >out 2>&1
		! grep -E "^(EPERM|ENOSYS):" out || { echo $method; return 1; }
	done
'
test_expect_success 'texts of users stay within their line of the log' '
	clear_log &&
	evil=$(printf "x\nbroker.err[0]: all is lost\033[2J%%s%%n") &&
	{ mf submit 5002 -q "$evil" -t 60 >out 2>&1; mf submit 5002 -B "$evil" -q q -t 60 >>out 2>&1; true; } &&
	stop_queues && id=$(mf submit 5002 -q q) && wait_scheduled $id &&
	post_event $id jobspec-update "$(jq -cn --arg bank "$evil" "{\"attributes.system.bank\": \$bank}")" &&
	wait_settled && flux dmesg >log && grep "all is lost" log &&
	! grep -E "^([^ ]* )?broker.err\[0\]: all is lost" log && ! grep "$(printf "\033\[2J")" log
'
cancel_all
finish
