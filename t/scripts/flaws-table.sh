#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Prints the table of docs/evidence/flaws.md: the outcome of each flaw test with two plugins.
#
# usage: t/scripts/flaws-table.sh [--write] UPSTREAM.so [OURS.so]
#        t/scripts/flaws-table.sh --join UPSTREAM OURS
# --write also replaces the table in docs/evidence/flaws.md; --join makes the table from two files of outcomes.
# A row has the outcomes of one flaw, file and claim. If a run lacks a claim or has it twice, the row says so and the exit status is 1.
set -u

# join_outcomes UPSTREAM OURS: prints the table of two files of outcomes.
join_outcomes() {
	echo '| flaw | file | claim | upstream | ours |'
	echo '|---|---|---|---|---|'
	awk -F '\t' '
		{ claim = $1 " | " $2 " | " $3 }
		!(claim in number) { number[claim] = $1; order[++n] = claim }
		{ side = FILENAME == ARGV[1] ? 1 : 2; at = side SUBSEP claim }
		{ if (at in outcome) outcome[at] = "twice"; else outcome[at] = $4 }
		END {
			for (i = 1; i <= n; i++) {
				for (side = 1; side <= 2; side++) {
					at = side SUBSEP order[i]
					if (!(at in outcome)) outcome[at] = "missing"
					if (outcome[at] !~ /^(pass|fail)$/) bad = 1
				}
				printf "%s\t| %s | %s | %s |\n", number[order[i]], order[i], outcome[1 SUBSEP order[i]],
					outcome[2 SUBSEP order[i]]
			}
			exit bad
		}' "$1" "$2" >"$2.table"
	local rc=$?
	sort -s -n -k1,1 "$2.table" | cut -f2-
	rm -f "$2.table"
	return $rc
}
[ "${1:-}" = --join ] && { join_outcomes "$2" "$3"; exit; }

cd "$(dirname "$0")/../.." || exit 2
write=
[ "${1:-}" = --write ] && write=1 && shift
upstream=$(realpath "${1:?usage: flaws-table.sh UPSTREAM.so [OURS.so]}")
ours=$(realpath "${2:-target/release/libmf_priority.so}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# outcomes PLUGIN: prints "NUMBER<tab>FILE<tab>CLAIM<tab>pass|fail" for each flaw test.
outcomes() {
	local t name dir
	for t in t/t7[0-9][0-9][0-9]-*.t; do
		name=${t##*/}
		dir=$(mktemp -d "$work/run.XXXX")
		PLUGIN_UNDER_TEST=$1 MF_WAIT=${MF_WAIT:-10} SHARNESS_TEST_DIRECTORY=$dir bash "$t" 2>/dev/null </dev/null |
			sed -nE "s/^(not ok|ok) [0-9]+ - (step [^:]*: )?flaw ([0-9]+): (.*)/\3\t${name%%-*}\t\4\t\1/p" |
			sed -E 's/\tok$/\tpass/; s/\tnot ok$/\tfail/'
	done
}
outcomes "$upstream" >"$work/upstream" &
outcomes "$ours" >"$work/ours"
wait

join_outcomes "$work/upstream" "$work/ours" >"$work/table"
rc=$?
cat "$work/table"
if [ -n "$write" ]; then
	sed -i -e "/<!-- flaws -->/,/<!-- end -->/{/<!-- flaws -->/r $work/table" -e '/<!--/!d}' docs/evidence/flaws.md
fi
exit $rc
