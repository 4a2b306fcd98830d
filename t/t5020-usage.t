#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare sync equals flux account-update-usage, except where update-usage has a fault'
# Rules: U1, U2, U3, U4, U7, U9, U10, U11

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# check_fault NUMBER THEIRS OURS RECOUNT: checks row NUMBER of ./faults. THEIRS is the usage by update-usage, and OURS is the usage by sync.
# RECOUNT is a pattern for the differences that recount reports.
check_fault() {
	local line
	line=$(grep "^$1 | " faults) && echo "$line" &&
	test "$(echo "$line" | awk -F' [|] ' '{ print $3, $4 }')" = "$2 $3" &&
	echo "$line" | awk -F' [|] ' '{ print $5 }' | grep -qx "$4"
}

# USAGE_SITES sets the number of random sites.
test_expect_success 'without a boundary or a late record all tables equal those of update-usage, to the last digit' '
	flux python "$T_DIR/scripts/usage-compat.py" "$FAIRSHARE_UNDER_TEST" same "${USAGE_SITES:-100}"
'
test_expect_success 'the rule named flux-accounting equals update-usage across boundaries and outages, faults included' '
	flux python "$T_DIR/scripts/usage-compat.py" "$FAIRSHARE_UNDER_TEST" faults "${USAGE_SITES:-100}"
'
test_expect_success 'each of eleven faults appears with update-usage and not with sync' '
	flux python "$T_DIR/scripts/usage-faults.py" "$FAIRSHARE_UNDER_TEST" >faults; rc=$?; cat faults; test $rc = 0 && test $(wc -l <faults) = 11
'
test_expect_success 'fault 1: the past counts once after a boundary' 'check_fault 1 1110 610 "A 1110>610, u1 1110>610"'
test_expect_success 'fault 2: a job just before a boundary does not keep the past from decay' 'check_fault 2 1100 550 "A 1100>550, u1 1100>550"'
test_expect_success 'fault 3: three users with equal usage get equal results' 'check_fault 3 1110/1100/500 610/550/500 "A 2710>1660, u1 1110>610, u2 1100>550"'
test_expect_success 'fault 4: one run catches up on all boundaries of an outage, and recount shows them as due before' 'check_fault 4 500 125 "A 500>125 due, u1 500>125 due"'
test_expect_success 'fault 5: the first decay happens at the first boundary' 'check_fault 5 1000 500 "A 1000>500, u1 1000>500"'
test_expect_success 'fault 6: a job counts in the period in which it ended' 'check_fault 6 1010 510 "A 1010>510, u1 1010>510"'
test_expect_success 'fault 7: a record that arrives late counts' 'check_fault 7 100 1100 "A 100>1100, u1 100>1100"'
test_expect_success 'fault 8: the usage of a bank includes users next to sub-banks' 'check_fault 8 10 1010 "A 10>1010 due"'
test_expect_success 'fault 9: a job without a bank counts in the default bank' 'check_fault 9 0 1000 "A 0>1000 due, u1 0>1000 due"'
test_expect_success 'fault 10: a failure ends with exit status 2 and the reason' 'check_fault 10 0 2 ".*no row for cluster.*"'
test_expect_success 'fault 11: a change of half-life keeps the history' 'check_fault 11 10 510 "A 10>510, u1 10>510"'
test_done
