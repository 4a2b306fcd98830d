#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='the table of flaws joins the outcomes of two runs by claim'

. "$(dirname "$0")/lib.sh"

join_outcomes() { bash "$T_DIR/scripts/flaws-table.sh" --join "$@"; }
print_rows() { for row; do printf '%b\n' "$row"; done; }

test_expect_success 'the table joins the outcomes of two runs by claim, in any order' '
	print_rows "2\tt7001\ta\tfail" "1\tt7002\tb\tpass" "1\tt7002\tc\tpass" >upstream &&
	print_rows "1\tt7002\tc\tfail" "2\tt7001\ta\tpass" "1\tt7002\tb\tpass" >ours &&
	join_outcomes upstream ours >table &&
	grep -qxF "| 2 | t7001 | a | fail | pass |" table &&
	grep -qxF "| 1 | t7002 | b | pass | pass |" table &&
	grep -qxF "| 1 | t7002 | c | pass | fail |" table
'
test_expect_success 'a claim that a run lacks is shown as missing, and the claims after it keep their rows' '
	print_rows "1\tt7001\ta\tfail" "2\tt7001\tb\tfail" >upstream &&
	print_rows "2\tt7001\tb\tpass" >ours &&
	test_must_fail join_outcomes upstream ours >table &&
	grep -qxF "| 1 | t7001 | a | fail | missing |" table &&
	grep -qxF "| 2 | t7001 | b | fail | pass |" table
'
test_expect_success 'a claim that only our run has is shown as missing upstream' '
	print_rows "1\tt7001\ta\tfail" >upstream &&
	print_rows "1\tt7001\ta\tpass" "3\tt7001\tc\tpass" >ours &&
	test_must_fail join_outcomes upstream ours >table &&
	grep -qxF "| 3 | t7001 | c | missing | pass |" table
'
test_expect_success 'a claim that a run has twice is shown as twice' '
	print_rows "1\tt7001\ta\tfail" >upstream &&
	print_rows "1\tt7001\ta\tpass" "1\tt7001\ta\tpass" >ours &&
	test_must_fail join_outcomes upstream ours >table &&
	grep -qxF "| 1 | t7001 | a | fail | twice |" table
'
test_done
