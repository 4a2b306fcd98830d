#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Print the table of t/README.md: each flaw test, and what came of it with two plugins.
#
# usage: t/scripts/flaws-table.sh UPSTREAM.so [OURS.so]
# --write also puts the table between the marks in t/README.md.
set -u
cd "$(dirname "$0")/../.." || exit 2
write=
[ "${1:-}" = --write ] && write=1 && shift
upstream=$(realpath "${1:?usage: flaws-table.sh UPSTREAM.so [OURS.so]}")
ours=$(realpath "${2:-target/release/libmf_priority.so}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# outcomes PLUGIN: "NUMBER<tab>FILE<tab>CLAIM<tab>pass|fail" for each flaw test.
outcomes() {
	local t name dir
	for t in t/t7[0-9][0-9][0-9]-*.t; do
		name=${t##*/}
		dir=$(mktemp -d "$work/run.XXXX")
		PLUGIN_UNDER_TEST=$1 MF_WAIT=${MF_WAIT:-10} SHARNESS_TEST_DIRECTORY=$dir bash "$t" 2>/dev/null </dev/null |
			sed -nE "s/^(not ok|ok) [0-9]+ - flaw ([0-9]+): (.*)/\2\t${name%%-*}\t\3\t\1/p" |
			sed -E 's/\tok$/\tpass/; s/\tnot ok$/\tfail/'
	done
}
outcomes "$upstream" >"$work/upstream" &
outcomes "$ours" >"$work/ours"
wait

{
	echo '| flaw | file | claim | upstream | ours |'
	echo '|---|---|---|---|---|'
	paste -d '\t' "$work/upstream" <(cut -f4 "$work/ours") | sort -s -n -k1,1 |
		awk -F '\t' '{ printf "| %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5 }'
} >"$work/table"
cat "$work/table"
if [ -n "$write" ]; then
	sed -i -e "/<!-- flaws -->/,/<!-- end -->/{/<!-- flaws -->/r $work/table" -e '/<!--/!d}' t/README.md
fi
