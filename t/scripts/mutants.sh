#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Runs mutation tests of the core. Needs cargo-mutants and python3.
#
# usage: t/scripts/mutants.sh [--since REV] [--shard K/N] [--sample PERCENT] [--list] [MODULE...]
#   MODULE          ids, priority, accounts, limits, budgets, standing, engine, fairshare, or a part as engine/live (default: all)
#   --since REV     only mutants of code that changed since a commit
#   --shard K/N     the K-th part of N, from 0
#   --sample N      about N percent of the mutants, the same ones each time
#   --list          only the number of mutants
# Each mutant runs with the unit tests of its crate, which take seconds; a survivor runs with all tests in Rust. A mutant whose tests do
# not end in time is caught too.
# Exit status 1: a survivor is not in mutants-accepted.txt, a mutant in that list was caught, or over 3 % of the viable mutants
# of a module survive. The results are kept in target/mutants.
set -u
cd "$(dirname "$0")/../.." || exit 2
here=t/scripts out=target/mutants since=() shard=() sample= list= modules=()
mkdir -p "$out"
while [ $# -gt 0 ]; do
	case $1 in
	--since) git diff "$2" -- crates >"$out/since.diff" || exit 2; since=(--in-diff "$out/since.diff"); shift 2 ;;
	--shard) shard=(--shard "$2"); shift 2 ;;
	--sample) sample=$2; shift 2 ;;
	--list) list=1; shift ;;
	-h | --help) sed -n '3,15s/^# \{0,1\}//p' "$0"; exit 0 ;;
	-*) echo "mutants.sh: unknown option $1" >&2; exit 2 ;;
	*) modules+=("$1"); shift ;;
	esac
done
[ ${#modules[@]} -gt 0 ] || modules=(ids priority accounts limits budgets standing engine fairshare)
cargo mutants --version >/dev/null 2>&1 || { echo "please run: cargo install cargo-mutants --locked" >&2; exit 2; }

files=()
for module in "${modules[@]}"; do
	case $module in
	fairshare*) files+=(-f "crates/fairshare/src${module#fairshare}/**") ;;
	ids) files+=(-f crates/engine/src/ids.rs -f 'crates/engine/src/ids/**') ;;
	*) files+=(-f "crates/engine/src/$module/**") ;;
	esac
done
cargo mutants --workspace --list --json "${files[@]}" "${since[@]}" >"/tmp/mutants.$$.json" || exit 2
# Without changes cargo mutants prints nothing.
[ -s "/tmp/mutants.$$.json" ] || { rm -f "/tmp/mutants.$$.json"; echo "no mutants"; exit 0; }
mv "/tmp/mutants.$$.json" "$out/list.json"
if [ -n "$list" ]; then
	exec python3 $here/mutants.py count "$out/list.json"
fi

# Builds without debug information are much faster. Property tests run fewer cases and do not shrink failures, so that
# they stay within the time limit.
export CARGO_PROFILE_DEV_DEBUG=0 PROPTEST_CASES=${PROPTEST_CASES:-64} PROPTEST_MAX_SHRINK_ITERS=0
common=(--workspace --no-shuffle --no-times --colors never -j "${JOBS:-1}")
chosen=()
[ -z "$sample" ] || chosen=(-F "$(python3 $here/mutants.py sample "$out/list.json" "$sample")")
rm -rf "$out/first" "$out/second"
# The tests with extreme sizes take a minute, so they run only with mutants that survive the other tests.
cargo mutants "${common[@]}" "${files[@]}" "${since[@]}" "${shard[@]}" "${chosen[@]}" -o "$out/first" \
	--minimum-test-timeout 30 -- --lib -- --skip ::extremes::
case $? in 0 | 2 | 3) ;; *) exit 2 ;; esac
if left=$(python3 $here/mutants.py survivors "$out/first") && [ -n "$left" ]; then
	# Run the surviving mutants with all tests. Some of these tests build and load the plugin, so this run has a baseline and a time limit of
	# its own.
	unset PROPTEST_CASES
	cargo mutants "${common[@]}" "${files[@]}" -F "$left" -o "$out/second" --test-workspace=true --minimum-test-timeout 120
	case $? in 0 | 2 | 3) ;; *) exit 2 ;; esac
fi
exec python3 $here/mutants.py table "$out" $here/mutants-accepted.txt
