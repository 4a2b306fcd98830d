#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures the time to fetch ended jobs from a real instance, with `flux fairshare sync --only fetch` and with flux-accounting's
# `flux account-fetch-job-records`. Both run in turn in the same instance. Compares the stored rows.
#
#   t/bench/fetch.sh [JOBS] [ROUNDS]         default: 10000 3
#
# PROGRAM: the command (default: the release build).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
program=$(realpath "${PROGRAM:-$here/../../target/release/flux-fairshare}")
work=$(mktemp -d "${TMPDIR:-/tmp}/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
unset FLUX_URI
cat >"$work/conf.json" <<EOF
{"fake-resources": {"nnodes": 16, "cores-per-node": 64}, "exec": {"testexec": {"allow-guests": true}},
 "ingest": {"validator": {"disable": true}}}
EOF
cat >"$work/run.sh" <<'EOF'
set -e
cd "$1" && program=$2 jobs=$3 rounds=$4 bench=$5
seconds() {
	local start=$EPOCHREALTIME
	"$@" >&2 || exit
	awk "BEGIN { printf \"%.3f\", $EPOCHREALTIME - $start }"
}
PYTHONPATH=$bench flux python -c "import bench; bench.submit($jobs, run='0.001s')" && flux queue idle --quiet
flux account -p "$PWD/empty.db" create-db >/dev/null 2>&1
printf '%8s %10s %12s %8s  %s\n' jobs ours/s original/s ratio rows
for round in $(seq "$rounds"); do
	cp empty.db ours.db && cp empty.db theirs.db && sync ours.db theirs.db
	original=$(seconds flux account-fetch-job-records -p theirs.db)
	ours=$(seconds "$program" sync --only fetch -p ours.db)
	rows=$(flux python -c 'import sqlite3
one, other = (sqlite3.connect(name).execute("SELECT * FROM jobs ORDER BY id").fetchall() for name in ("ours.db", "theirs.db"))
print("same" if one == other else "they differ", len(one))')
	printf '%8s %10s %12s %8s  %s\n' "$jobs" "$ours" "$original" "$(awk "BEGIN { printf \"%.1f\", $original / $ours }")" "$rows"
done
EOF
flux start -c "$work/conf.json" -Slog-stderr-level=0 bash "$work/run.sh" "$work" "$program" "${1:-10000}" "${2:-3}" "$here"
