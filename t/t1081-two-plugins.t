#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='a second priority plugin whose answers Flux uses instead of ours'
# Rules: K30, P15

. "$(dirname "$0")/lib.sh"
TWO_PLUGINS=1
. "$T_DIR/fairshare.sh"
in_sequence

print_flux_priority() { flux job eventlog -f json "$1" | jq -s 'map(select(.name == "priority"))[-1].context.priority'; }
count_log_lines() { flux dmesg | grep -c "$1"; }

test_expect_success 'the plugin alone decides priorities' '
	write_conf "$(with_plugin)" && start_instance && make_site && flux fairshare push -p $DB && flux queue stop --all &&
	one=$(mf submit 5001) && flux job wait-event -t $MF_WAIT $one priority && test $(print_flux_priority $one) -gt 16 &&
	mf rpc check "{}" | sed "s/^ok //" | jq -e ".overruled == null" && flux fairshare jobs -A 2>err && test_must_be_empty err
'
test_expect_success 'the plugin detects a plugin that answers after it, and logs that once' '
	flux jobtap load .priority-default && two=$(mf submit 5001) && three=$(mf submit 5001) &&
	flux job wait-event -t $MF_WAIT $three priority && test $(print_flux_priority $two) = 16 &&
	mf rpc check "{}" | sed "s/^ok //" | jq -e ".overruled | .in_flux == 16 and .posted > 16" &&
	test $(count_log_lines "another priority plugin decides: job .* has priority 16 in Flux") = 1
'
test_expect_success 'every command warns about the second plugin' '
	flux fairshare jobs -A 2>err && cat err && grep "warning: another priority plugin decides: job .* has priority 16" err &&
	flux fairshare why $two 2>err && grep "another priority plugin decides" err &&
	flux fairshare standing -A 2>err && grep "another priority plugin decides" err &&
	test_expect_code 1 flux fairshare status -p $DB >out && grep "^priority *another priority plugin decides" out &&
	flux fairshare metrics >metrics.txt && grep "^flux_fairshare_overruled 1$" metrics.txt &&
	test_expect_code 1 flux fairshare doctor -p $DB >out && cat out && grep "another priority plugin is loaded: .priority-default" out
'
test_expect_success 'the remedy of doctor makes our plugin decide again' '
	$(sed -n "s/.*\(flux jobtap remove [^ ]*\).*/\1/p" out | head -1) && four=$(mf submit 5001) &&
	flux job wait-event -t $MF_WAIT $four priority && test $(print_flux_priority $four) -gt 16 &&
	mf rpc check "{}" | sed "s/^ok //" | jq -e ".overruled == null" &&
	test $(count_log_lines "Flux takes the priorities of mf_priority again") = 1 && flux fairshare jobs -A 2>err && test_must_be_empty err
'
flux queue start --all
cancel_all
finish
