#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Run all tests: Rust's, then every t/tNNNN-*.t in a real Flux instance when flux is on PATH.
#
# usage: t/run.sh [--plugin PATH] [--valgrind] [-j N] [TEST...]
#        t/run.sh --random [SECONDS] [--plugin PATH]
#        t/run.sh --long [MINUTES]
#   --plugin PATH  only the sharness tests, on that mf_priority.so (also: PLUGIN_UNDER_TEST=PATH)
#   --valgrind     only the sharness tests, each broker under valgrind (see t/README.md)
#   -j N           sharness tests at a time (default 2)
#   --random [S]   only the random driver (t/random), for S seconds (default 60)
#   --long [M]     only what takes long: each fuzzing target for M minutes (default 5), properties of 20,000 cases, random
#                  histories for 6 M minutes, the sharness tests under valgrind if it is installed
#   TEST           only these sharness tests: names or beginnings of names, as t1005
# The last line is "N passed, N failed, N skipped"; exit 0 only if none failed. Logs of failed tests are kept.
set -u
cd "$(dirname "$0")/.." || exit 2

plugin=${PLUGIN_UNDER_TEST:-} valgrind= jobs=2 only=() random= long=
while [ $# -gt 0 ]; do
	case $1 in
	--plugin) plugin=$2; shift 2 ;;
	--valgrind) valgrind=1; shift ;;
	-j) jobs=$2; shift 2 ;;
	--random)
		random=60
		case ${2:-} in [1-9]*) random=$2; shift ;; esac
		shift
		;;
	--long)
		long=5
		case ${2:-} in [1-9]*) long=$2; shift ;; esac
		shift
		;;
	-h | --help) sed -n '3,16s/^# \{0,1\}//p' "$0"; exit 0 ;;
	-*) echo "t/run.sh: unknown option $1" >&2; exit 2 ;;
	*) only+=("$(basename "$1")"); shift ;;
	esac
done
rust=1
[ -n "$plugin$valgrind" ] || [ ${#only[@]} -gt 0 ] && rust=

passed=0 failed=0 skipped=0
out=$(mktemp -d "${TMPDIR:-/tmp}/mf-run.XXXXXX")

say() { printf '== %s\n' "$*"; }
finish() {
	[ $failed -eq 0 ] && [ "${keep:-}" = "" ] && rm -rf "$out"
	echo "$passed passed, $failed failed, $skipped skipped"
	[ $failed -eq 0 ]
	exit
}

# need PACKAGE...: install what is missing; without root or sudo print the line that does it.
need() {
	local missing=() sudo= p
	for p; do dpkg -s "$p" >/dev/null 2>&1 || missing+=("$p"); done
	[ ${#missing[@]} -eq 0 ] && return 0
	command -v apt-get >/dev/null || { say "please install: ${missing[*]}"; return 1; }
	if [ "$(id -u)" != 0 ]; then
		sudo -n true 2>/dev/null || { say "please run: sudo apt-get install -y ${missing[*]}"; return 1; }
		sudo=sudo
	fi
	say "installing ${missing[*]}"
	{ $sudo apt-get install -y -q "${missing[@]}" || {
		$sudo apt-get update -q && $sudo apt-get install -y -q "${missing[@]}"
	}; } >"$out/apt.log" 2>&1 || { tail -5 "$out/apt.log"; say "cannot install: ${missing[*]}"; return 1; }
}

rust_tests() {
	local log=$out/cargo.log n
	need gcc libc6-dev libjansson-dev || { failed=$((failed + 1)); return; }
	say 'cargo test'
	cargo test --color never --no-fail-fast 2>&1 | tee "$log" | grep -E '^(test .* FAILED|error|warning: unused|failures:|---- )'
	local rc=${PIPESTATUS[0]}
	while read -r p f i; do
		passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + i))
	done < <(sed -nE 's/^test result: .* ([0-9]+) passed; ([0-9]+) failed; ([0-9]+) ignored.*/\1 \2 \3/p' "$log")
	if [ "$rc" -ne 0 ] && [ $failed -eq 0 ]; then
		tail -30 "$log"
		failed=1
	fi
	say "Rust: $passed passed, $failed failed, $skipped ignored"
}

build() {
	say 'building for release'
	# The plugin last: the command's build makes a .so too, one with the command's features in it.
	{ [ -z "$rust$random" ] && ! list | grep -q /t5 || cargo build --release --bin flux-fairshare; } >"$out/build.log" 2>&1 &&
		cargo build --release --lib --no-default-features >>"$out/build.log" 2>&1 && return
	tail -30 "$out/build.log"
	failed=$((failed + 1))
	finish
}

# The sharness tests asked for.
list() {
	local t name
	for t in t/t[0-9][0-9][0-9][0-9]-*.t; do
		if [ ${#only[@]} -eq 0 ]; then
			# t5xxx test the command: not on another plugin, nor with the broker under valgrind.
			case ${t##*/}:$plugin$valgrind in t5*:?*) ;; *) echo "$t" ;; esac
			continue
		fi
		for name in "${only[@]}"; do
			case ${t##*/} in "$name"*) echo "$t"; break ;; esac
		done
	done
}

# one TEST: run it, its TAP into a file. A test that ends without a plan has failed, whatever it printed.
one() {
	local name=${1##*/}
	local tap=$out/${name%.t}.tap dir=$out/${name%.t}
	mkdir -p "$dir"
	SHARNESS_TEST_DIRECTORY=$dir timeout "${MF_TEST_TIMEOUT:-900}" bash "$1" -v >"$tap" 2>&1 </dev/null
	local rc=$?
	grep -q '^1\.\.[0-9]' "$tap" || echo "not ok - $name ended early (exit $rc)" >>"$tap"
	local bad
	bad=$(grep -c '^not ok' "$tap")
	printf '%-34s %s\n' "${name%.t}" "$([ "$bad" -eq 0 ] && echo ok || echo "FAILED: $bad")"
	grep '^not ok' "$tap" | sed 's/^/    /'
	grep -E '^(ok|not ok)' "$tap" >"$out/${name%.t}.results"
	[ "$bad" -eq 0 ] && [ -z "${MF_KEEP:-}" ] && rm -rf "$dir" "$tap"
	return 0
}

sharness() {
	local tests t p f s
	mapfile -t tests < <(list)
	if ! command -v flux >/dev/null; then
		s=$(cat "${tests[@]}" | grep -c '^[[:space:]]*test_expect_success')
		echo
		echo "!! flux is not on PATH: $s sharness tests in ${#tests[@]} files were SKIPPED (real Flux not tested)"
		echo
		skipped=$((skipped + s))
		return
	fi
	need sharness jq || { failed=$((failed + 1)); return; }
	[ -z "$plugin" ] || export PLUGIN_UNDER_TEST=$plugin
	say "sharness: ${#tests[@]} files in real Flux, plugin ${PLUGIN_UNDER_TEST:-target/release/libmf_priority.so}"
	for t in "${tests[@]}"; do
		while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
		one "$t" &
	done
	wait
	p=$(cat "$out"/*.results | grep '^ok' | grep -vc '# skip')
	f=$(cat "$out"/*.results | grep -c '^not ok')
	s=$(cat "$out"/*.results | grep -c '^ok.*# skip')
	say "sharness: $p passed, $f failed, $s skipped"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	[ "$f" -eq 0 ] || say "logs are kept in $out"
}

# The random driver, for $1 seconds: its oracle's own cases, then one history a seed and place.
random() {
	local log=$out/random.log only=() python=python3 rc n found place
	need gcc libc6-dev || { failed=$((failed + 1)); return; }
	say "random histories: $1 s, plugin ${plugin:-target/release/libmf_priority.so}"
	if (cd t/random && python3 -m unittest -q test_oracle test_scopes) >"$log" 2>&1; then
		passed=$((passed + $(sed -nE 's/^Ran ([0-9]+) test.*/\1/p' "$log")))
	else
		cat "$log"
		failed=$((failed + 1))
	fi
	if command -v flux >/dev/null; then
		python="flux python"
	else
		echo
		echo "!! flux is not on PATH: the random histories in real Flux were SKIPPED (embedded job manager only)"
		echo
		skipped=$((skipped + 4))
		only+=(--only embedded)
	fi
	if [ ! -x target/release/flux-fairshare ]; then
		say "no target/release/flux-fairshare: the random histories in the embedded job manager are skipped"
		skipped=$((skipped + 4))
		only=(--only flux)
	fi
	# What was found once, where it was found.
	for found in t/random/found/*.json; do
		place=$(sed -n 's/^ *"place": "\(.*\)",/\1/p' "$found")
		case "$place:${only[*]}" in flux:*embedded | embedded:*flux) skipped=$((skipped + 1)); continue ;; esac
		if $python t/random/run ${plugin:+--plugin "$plugin"} --replay "$found" >"$log" 2>&1; then
			passed=$((passed + 1))
		else
			tail -20 "$log"
			say "again: $found"
			failed=$((failed + 1))
		fi
	done
	$python t/random/run --seconds "$1" ${plugin:+--plugin "$plugin"} "${only[@]}" 2>&1 | tee "$log"
	rc=${PIPESTATUS[0]}
	n=$(grep -c '^DIFFERENCE' "$log")
	[ "$n" -gt 0 ] || [ "$rc" -eq 0 ] || n=1
	failed=$((failed + n)) passed=$((passed + $(grep -cE '^(flux|embedded), seed' "$log") - n))
}

# Under valgrind each broker writes a report; a report with an error fails the run.
under_valgrind() {
	need valgrind || { failed=$((failed + 1)); return; }
	local root=$PWD report n=0 bad=0
	mkdir -p "$out/valgrind"
	export MF_WAIT=${MF_WAIT:-180} MF_TEST_TIMEOUT=${MF_TEST_TIMEOUT:-1800} MF_VALGRIND=1
	export MF_WRAP="valgrind,--leak-check=full,--show-leak-kinds=definite,--errors-for-leak-kinds=definite"
	MF_WRAP+=",--trace-children=no,--child-silent-after-fork=yes,--num-callers=40,--error-exitcode=0"
	MF_WRAP+=",--gen-suppressions=all,--suppressions=$root/t/valgrind.supp,--log-file=$out/valgrind/%p.log"
	sharness
	for report in "$out"/valgrind/*.log; do
		[ -e "$report" ] || continue
		grep -q 'ERROR SUMMARY' "$report" || continue
		n=$((n + 1))
		grep -q 'ERROR SUMMARY: 0 errors' "$report" && continue
		bad=$((bad + 1))
		grep -E 'ERROR SUMMARY|definitely lost:' "$report"
	done
	say "valgrind: $n brokers, $bad with errors"
	[ $n -gt 0 ] && passed=$((passed + n - bad)) failed=$((failed + bad)) || failed=$((failed + 1))
	[ $bad -eq 0 ] || { keep=1; say "reports are kept in $out/valgrind"; }
}

# What takes long. Each fuzzing target says with what seed it ran, for how long and how often.
long() {
	local log=$out/long.log n rc
	need gcc libc6-dev libjansson-dev || { failed=$((failed + 1)); return; }
	say "at $(git rev-parse --short HEAD 2>/dev/null): each fuzzing target for $1 min"
	n=$failed
	for what in '--lib any_sequence_of_events' '--test abi fuzz::'; do
		# shellcheck disable=SC2086
		FUZZ_SECONDS=$(($1 * 60)) cargo test --color never $what -- --nocapture --test-threads 1 >"$log" 2>&1
		rc=$?
		grep -aE '^fuzz |FAILED' "$log"
		passed=$((passed + $(grep -ac '^fuzz .* executions in ' "$log")))
		[ $rc -eq 0 ] || { failed=$((failed + 1)); cp "$log" "$out/long-failed-$failed.log"; }
	done
	say 'properties, 20,000 cases each'
	if PROPTEST_CASES=20000 cargo test --color never --lib properties >"$log" 2>&1; then
		passed=$((passed + 1))
	else
		grep -aE 'FAILED|minimal failing' "$log"
		failed=$((failed + 1))
	fi
	[ $failed -eq "$n" ] || { keep=1; say "logs are kept in $out"; }
	build
	random $(($1 * 360))
	if command -v valgrind >/dev/null; then under_valgrind; else skipped=$((skipped + 1)); fi
}

# One block, so that all of this file is read before anything runs: it may be edited meanwhile.
{
	if [ -n "$long" ]; then
		random=1 long "$long"
		finish
	fi
	[ -n "$rust" ] && [ -z "$random" ] && rust_tests
	[ -n "$plugin" ] || build
	if [ -n "$random" ]; then
		random "$random"
	elif [ -n "$valgrind" ]; then
		under_valgrind
	else
		sharness
		[ -z "$rust" ] || random 60
	fi
	finish
}
