#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures the time of `flux fairshare update` and flux-accounting's `flux account-update-fshare` on the same databases, one after the
# other, and compares their results.
#
#   t/bench/fairshare-update.sh [ASSOCIATIONS BANKS]...     default: 1000 10 10000 100 100000 1000
#
# PROGRAM: the command (default: the release build). LIMIT: time limit of the original in seconds (default 600).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
program=${PROGRAM:-$here/../../target/release/flux-fairshare}
work=$(mktemp -d "${TMPDIR:-/tmp}/fairshare-update.XXXXXX")
trap 'rm -rf "$work"' EXIT
test $# -gt 0 || set -- 1000 10 10000 100 100000 1000
flux account -p "$work/empty.db" create-db >/dev/null 2>&1

# Banks are in two levels below the root. Usages are whole numbers, which flux-accounting does not round.
fill() {
	flux python - "$1" "$2" "$3" <<-'EOF'
	import random, sqlite3, sys
	path, associations, banks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
	pick = random.Random(1)
	db = sqlite3.connect(path)
	rows = [("root", "", 1)]
	rows += [(f"top{i}", "root", pick.randint(1, 100)) for i in range(10)]
	rows += [(f"b{i}", f"top{i % 10}", pick.randint(1, 1000)) for i in range(banks)]
	db.executemany("insert into bank_table (bank, parent_bank, shares) values (?, ?, ?)", rows)
	db.executemany(
	    "insert into association_table (creation_time, username, userid, bank, default_bank, shares, job_usage)"
	    " values (0, ?, ?, ?, ?, ?, ?)",
	    ((f"u{i}", 10000 + i, f"b{i % banks}", f"b{i % banks}", pick.randint(1, 10),
	      pick.choice([0, pick.randint(1, 10**6)])) for i in range(associations)))
	db.commit()
	EOF
}

agree() {
	flux python - "$1" "$2" <<-'EOF'
	import sqlite3, sys
	read = lambda path: sqlite3.connect(path).execute(
	    "select fairshare from association_table order by username, bank").fetchall()
	apart = max((abs(a[0] - b[0]) for a, b in zip(read(sys.argv[1]), read(sys.argv[2]))), default=0)
	print("same" if apart < 5.1e-7 else f"they differ by up to {apart}")
	EOF
}

seconds() {
	local start=$EPOCHREALTIME
	"$@" || return
	awk "BEGIN { printf \"%.3f\", $EPOCHREALTIME - $start }"
}

printf '%12s %8s %10s %12s %8s  %s\n' associations banks ours/s original/s ratio values
while test $# -ge 2; do
	cp "$work/empty.db" "$work/ours.db" && fill "$work/ours.db" "$1" "$2"
	cp "$work/ours.db" "$work/original.db" && sync "$work"/*.db
	ours=$(seconds "$program" update -p "$work/ours.db")
	if original=$(seconds timeout "${LIMIT:-600}" flux account-update-fshare -p "$work/original.db"); then
		values=$(agree "$work/ours.db" "$work/original.db")
		ratio=$(awk "BEGIN { printf \"%.1f\", $original / $ours }")
	else
		original='-' ratio='-' values="the original took over ${LIMIT:-600} s"
	fi
	printf '%12s %8s %10s %12s %8s  %s\n' "$1" "$2" "$ours" "$original" "$ratio" "$values"
	shift 2
done
