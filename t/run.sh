#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Runs all tests: those in Rust, then every t/tNNNN-*.t in a real Flux instance if flux is on PATH.
#
# usage: t/run.sh [--plugin PATH] [--valgrind | --asan] [-j N] [TEST...]
#        t/run.sh --tsan
#        t/run.sh --random [SECONDS] [--plugin PATH]
#        t/run.sh --long [MINUTES]
#   --plugin PATH  only the sharness tests, on that mf_priority.so (also: PLUGIN_UNDER_TEST=PATH)
#   --valgrind     only the sharness tests, each broker under valgrind (see t/README.md)
#   --asan         the same with AddressSanitizer, which needs the nightly toolchain; then tests of the embedded job manager
#   --tsan         only the tests of the command's threads, with ThreadSanitizer
#   -j N           number of sharness tests at a time (default: five for two processors, since they often wait)
#   --random [S]   only the random driver (t/random), for S seconds (default 60)
#   --long [M]     only the long tests: each fuzzing target for M minutes (default 5, may be 0.2), properties with M * 4,000 cases, a
#                  panic in eight calls of each kind and place, 200 failures of jansson's allocations, 10,000 loads and removals, a push
#                  of a million associations, random histories for M * 6 minutes, a soak test of M * 12 minutes, the sharness tests under
#                  valgrind, and the tests of --asan and --tsan. LONG="fuzz cycles" selects some of: advisories fuzz properties panics
#                  memory cycles million random soak valgrind asan tsan
#   TEST           only these sharness tests: names or beginnings of names, such as t1005
# The last line is "N passed, N failed, N skipped"; exit 0 only if none failed. Logs of failed tests are kept.
set -u
cd "$(dirname "$0")/.." || exit 2

plugin=${PLUGIN_UNDER_TEST:-} under= jobs=$((5 * $(nproc) / 2)) only=() random= long=
while [ $# -gt 0 ]; do
	case $1 in
	--plugin) plugin=$2; shift 2 ;;
	--valgrind | --asan | --tsan) under=${1#--}; shift ;;
	-j) jobs=$2; shift 2 ;;
	--random)
		random=60
		case ${2:-} in [1-9]*) random=$2; shift ;; esac
		shift
		;;
	--long)
		long=5
		case ${2:-} in [0-9]*) long=$2; shift ;; esac
		shift
		;;
	-h | --help) sed -n '3,22s/^# \{0,1\}//p' "$0"; exit 0 ;;
	-*) echo "t/run.sh: unknown option $1" >&2; exit 2 ;;
	*) only+=("$(basename "$1")"); shift ;;
	esac
done
rust=1
[ -n "$plugin$under" ] || [ ${#only[@]} -gt 0 ] && rust=

. t/scripts/checkers.sh
passed=0 failed=0 skipped=0
out=$(mktemp -d "${TMPDIR:-/tmp}/mf-run.XXXXXX")

say() { printf '== %s\n' "$*"; }
finish() {
	[ $failed -eq 0 ] && [ "${keep:-}" = "" ] && rm -rf "$out"
	echo "$passed passed, $failed failed, $skipped skipped"
	[ $failed -eq 0 ]
	exit
}

# install_packages PACKAGE...: installs missing packages. Without root or sudo, prints the command that installs them.
install_packages() {
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

# add_counts LOG: adds the counts of cargo test.
add_counts() {
	local p f i
	while read -r p f i; do
		passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + i))
	done < <(sed -nE 's/^test result: .* ([0-9]+) passed; ([0-9]+) failed; ([0-9]+) ignored.*/\1 \2 \3/p' "$1")
}

# take_programs: copies the built command and embedded job manager to target/tested, without symbols. The sharness tests use the copies, because
# other tests build in target/debug meanwhile.
take_programs() {
	local variable name
	mkdir -p target/tested
	for name in flux-fairshare fairshare-embedded; do
		variable=FAIRSHARE_UNDER_TEST
		[ $name = flux-fairshare ] || variable=EMBEDDED_UNDER_TEST
		[ -z "${!variable:-}" ] || continue
		export $variable=$PWD/target/tested/$name
		rm -f "target/tested/$name"
		strip -o "target/tested/$name" "target/debug/$name" || failed=$((failed + 1))
	done
}

run_rust_tests() {
	local log=$out/cargo.log n
	install_packages gcc libc6-dev libjansson-dev bsdutils || { failed=$((failed + 1)); return; }
	say 'cargo test'
	# Many of these tests wait for processes that they start.
	RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) + 1))} cargo test --workspace --exclude fairshare-benches --color never --no-fail-fast 2>&1 | tee "$log" | grep -E '^(test .* FAILED|error|warning: unused|failures:|---- )'
	local rc=${PIPESTATUS[0]}
	add_counts "$log"
	if [ "$rc" -ne 0 ] && [ $failed -eq 0 ]; then
		tail -30 "$log"
		failed=1
	fi
	# If no test has run, the build may have failed. The built programs may then be old, so they are not copied.
	! grep -q '^test result' "$log" || take_programs
	say "Rust: $passed passed, $failed failed, $skipped ignored"
}

build_programs() {
	# The tests load a release build of the plugin. The programs are debug builds, which cargo test makes if it runs.
	{ [ -z "$random" ] && { [ -n "$rust" ] || ! list_tests | xargs -r grep -qlE 'fairshare\.sh|FAIRSHARE|EMBEDDED'; } ||
		cargo build -p flux-fairshare -p fairshare-embedded
	} >"$out/build.log" 2>&1 &&
		cargo build --release -p mf-priority >>"$out/build.log" 2>&1
}

# build_missing_command TEST...: builds the command if one of the tests needs it and neither a build nor FAIRSHARE_UNDER_TEST provides it.
# --plugin, --asan and a first run of single tests build only the plugin, or nothing.
build_missing_command() {
	local n
	n=$(grep -lE 'fairshare\.sh|FAIRSHARE' "$@" | wc -l)
	[ "$n" -gt 0 ] && [ ! -x "${FAIRSHARE_UNDER_TEST:-target/release/flux-fairshare}" ] || return 0
	say "building flux-fairshare, which $n of the files need"
	cargo build -p flux-fairshare >"$out/build.log" 2>&1 && export FAIRSHARE_UNDER_TEST=$PWD/target/debug/flux-fairshare && return
	tail -30 "$out/build.log"
	say "the build failed; FAIRSHARE_UNDER_TEST=PATH names a built flux-fairshare"
	failed=$((failed + 1))
	wait
	return 1
}

# wait_for_build PID: waits for the build, and ends the run if it failed.
wait_for_build() {
	wait "$1" && { [ ! -x target/debug/fairshare-embedded ] || [ -n "$rust" ] || take_programs; return; }
	tail -30 "$out/build.log"
	failed=$((failed + 1))
	finish
}

# run_in_background NAME COMMAND...: runs a command in the background; `add_background_counts` prints its output and adds its counts.
run_in_background() {
	local name=$1
	shift
	(
		passed=0 failed=0 skipped=0 keep=
		"$@" >"$out/$name.out" 2>&1
		echo "$passed $failed $skipped $keep" >"$out/$name.count"
	) &
}

# add_background_counts NAME: prints the output of an ended background command, and adds its numbers of passed, failed and skipped tests.
add_background_counts() {
	local p f s kept
	cat "$out/$1.out"
	read -r p f s kept <"$out/$1.count" || { say "$1 ended early"; p=0 f=1 s=0; }
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s)) keep=${kept:-${keep:-}}
}

# list_tests: prints the selected sharness tests.
list_tests() {
	local t name
	for t in t/t[0-9][0-9][0-9][0-9]-*.t; do
		if [ ${#only[@]} -eq 0 ]; then
			case ${t##*/} in
			# Tests of the command. They do not run with another plugin or under a memory checker.
			t5*) [ -z "$plugin$under" ] || continue ;;
			# These tests load the plugin into a program without AddressSanitizer.
			t0*) [ "$under" != asan ] || continue ;;
			esac
			echo "$t"
			continue
		fi
		for name in "${only[@]}"; do
			case ${t##*/} in "$name"*) echo "$t"; break ;; esac
		done
	done
}

# run_test_file TEST COUNT: runs a test, with its TAP in a file, and prints its outcome and how many of COUNT files have ended. A test that ends
# without a plan has failed.
run_test_file() {
	local name=${1##*/}
	local tap=$out/${name%.t}.tap dir=$out/${name%.t}
	mkdir -p "$dir"
	SHARNESS_TEST_DIRECTORY=$dir timeout "${MF_TEST_TIMEOUT:-900}" bash "$1" -v >"$tap" 2>&1 </dev/null
	local rc=$?
	grep -q '^1\.\.[0-9]' "$tap" || echo "not ok - $name ended early (exit $rc)" >>"$tap"
	# If a file is skipped as a whole, each of its tests counts as skipped.
	if grep -q '^1\.\.0 *# *SKIP' "$tap"; then
		grep '^[[:space:]]*test_expect_success' "$1" | sed 's/.*/ok # skip/' >>"$tap"
		echo "!! ${name%.t} is SKIPPED: $(sed -n 's/^1\.\.0 *# *SKIP *//p' "$tap")"
	fi
	# Prints the warnings of tests, but not the findings of doctor, which have a code after "!! ".
	grep -a '^!! ' "$tap" | grep -avE '^!! [a-z-]+: '
	local bad
	bad=$(grep -c '^not ok' "$tap")
	grep -E '^(ok|not ok)' "$tap" >"$out/${name%.t}.results"
	printf '%-26s %-10s %3d of %d files, %d s\n' "${name%.t}" "$([ "$bad" -eq 0 ] && echo ok || echo "FAILED: $bad")" \
		"$(find "$out" -maxdepth 1 -name '*.results' | wc -l)" "$2" $SECONDS
	# Prints each failed test with the last 30 lines of its output.
	awk '/^expecting success/ { n = 0 } { said[n++ % 30] = $0 }
		/^not ok/ { for (i = n > 30 ? n - 30 : 0; i < n; i++) print "    " said[i % 30]; n = 0 }' "$tap" | cut -c1-300
	[ "$bad" -eq 0 ] && [ -z "${MF_KEEP:-}" ] && rm -rf "$dir" "$tap"
	return 0
}

run_sharness() {
	local tests t p f s
	# Tests that make packages take longest, so they start first.
	mapfile -t tests < <(list_tests | grep -E '/t504[57]'; list_tests | grep -vE '/t504[57]')
	# Without this loop, a name that matches no test would not be a failure.
	for t in "${only[@]}"; do
		[[ " ${tests[*]}" == *" t/$t"* ]] || { say "there is no test $t"; failed=$((failed + 1)); }
	done
	if [ ${#tests[@]} -eq 0 ]; then
		say 'no sharness test to run'
		failed=$((failed + 1))
		wait
		return
	fi
	rm -f "$out"/*.results # of an earlier run under a checker
	if [ -z "$plugin$under" ] && [ ${#only[@]} -eq 0 ] && [ ${#tests[@]} -ne "$(ls t/t[0-9][0-9][0-9][0-9]-*.t | wc -l)" ]; then
		say 'not all sharness tests are selected'
		failed=$((failed + 1))
	fi
	if ! command -v flux >/dev/null; then
		wait
		s=$(cat "${tests[@]}" | grep -c '^[[:space:]]*test_expect_success')
		echo
		echo "!! flux is not on PATH: $s sharness tests in ${#tests[@]} files were SKIPPED (real Flux not tested)"
		echo
		skipped=$((skipped + s))
		return
	fi
	install_packages sharness jq libfaketime || { failed=$((failed + 1)); wait; return; }
	# Programs that inspect packages. If they are missing, the tests print the checks that they skip.
	! printf '%s\n' "${tests[@]}" | grep -q '/t504[57]' || install_packages rpm cpio man-db binutils || :
	build_missing_command "${tests[@]}" || return
	[ -z "$plugin" ] || export PLUGIN_UNDER_TEST=$plugin
	export MF_SHARED=$out/shared
	mkdir -p "$MF_SHARED"
	say "sharness: ${#tests[@]} files in real Flux, plugin ${PLUGIN_UNDER_TEST:-target/release/libmf_priority.so}"
	for t in "${tests[@]}"; do
		while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
		run_test_file "$t" ${#tests[@]} &
	done
	wait
	t=$(ls "$out"/*.results 2>/dev/null | wc -l)
	if [ "$t" -ne ${#tests[@]} ]; then
		say "of ${#tests[@]} files only $t came to an end"
		failed=$((failed + 1)) keep=1
	fi
	p=$(cat "$out"/*.results | grep '^ok' | grep -vc '# skip')
	f=$(cat "$out"/*.results | grep -c '^not ok')
	s=$(cat "$out"/*.results | grep -c '^ok.*# skip')
	say "sharness: $p passed, $f failed, $s skipped"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	[ "$f" -eq 0 ] || say "logs are kept in $out"
}

# test_page: tests the page of flux fairshare report in headless Chromium.
test_page() {
	local log=$out/page.log p f s
	if ! t/report/run --browser >/dev/null && ! install_packages chromium; then
		s=$(python3 t/report/run --count)
		echo
		echo "!! there is no chromium and it can't be installed: $s tests of the report's page were SKIPPED"
		echo
		skipped=$((skipped + s))
		return
	fi
	say 'the report in headless Chromium'
	python3 t/report/run >"$log" 2>&1
	grep -vE '^ok [^#]*$' "$log"
	read -r p f s < <(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' "$log")
	[ -n "$p" ] || p=0 f=1 s=0
	[ "$s" -eq 0 ] || { echo; echo "!! $s tests of the report's page were SKIPPED: axe-core needs npm and its registry"; echo; }
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	[ "$f" -eq 0 ] || { keep=1; say "the log is $log"; }
}

# run_random SECONDS: runs the tests of the oracle, the shrunk histories that once failed, and then random histories.
run_random() {
	local log=$out/random.log only=() python=python3 rc n found place command=${EMBEDDED_UNDER_TEST:-target/debug/fairshare-embedded}
	install_packages gcc libc6-dev || { failed=$((failed + 1)); return; }
	say "random histories: $1 s, plugin ${plugin:-target/release/libmf_priority.so}"
	if (cd t/random && python3 -m unittest -q test_oracle test_scopes test_budgets test_player) >"$log" 2>&1; then
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
	if [ ! -x "$command" ]; then
		say "no $command: the random histories in the embedded job manager are skipped"
		skipped=$((skipped + 4))
		only=(--only flux)
	fi
	# Replays the histories that failed in the past. The value "place" in a file is the job manager in which the
	# history failed: flux or embedded.
	for found in t/random/found/*.json; do
		place=$(sed -n 's/^ *"place": "\(.*\)",/\1/p' "$found")
		case "$place:${only[*]}" in flux:*embedded | embedded:*flux) skipped=$((skipped + 1)); continue ;; esac
		if $python t/random/run ${plugin:+--plugin "$plugin"} --command "$command" --replay "$found" >"$log" 2>&1; then
			passed=$((passed + 1))
		else
			tail -20 "$log"
			say "again: $found"
			failed=$((failed + 1))
		fi
	done
	$python t/random/run --seconds "$1" ${plugin:+--plugin "$plugin"} --command "$command" "${only[@]}" 2>&1 | tee "$log"
	rc=${PIPESTATUS[0]}
	n=$(grep -c '^DIFFERENCE' "$log")
	[ "$n" -gt 0 ] || [ "$rc" -eq 0 ] || n=1
	failed=$((failed + n)) passed=$((passed + $(grep -cE '^(flux|embedded), seed' "$log") - n))
}

# multiply M FACTOR: prints the product, rounded to a whole number.
multiply() { awk -v m="$1" -v factor="$2" 'BEGIN { printf "%d", m * factor + 0.5 }'; }

# begin_step NAME: succeeds if this step is selected.
steps='advisories fuzz properties panics memory cycles million random soak valgrind asan tsan'
begin_step() {
	case " ${LONG:-$steps} " in *" $1 "*) say "$1"; began=$SECONDS ;; *) return 1 ;; esac
}

# run_long_test PATTERN COMMAND...: runs a command and prints the lines that match. If no line matches, the test has failed.
run_long_test() {
	local what=$1 log=$out/long.log rc
	shift
	"$@" >"$log" 2>&1
	rc=$?
	grep -aE "$what|FAILED|minimal failing" "$log" | cut -c1-300
	if [ $rc -eq 0 ] && grep -qaE "$what" "$log"; then passed=$((passed + 1)); else
		failed=$((failed + 1))
		cp "$log" "$out/long-failed-$failed.log"
		keep=1
	fi
	say "took $((SECONDS - began)) s"
}

# run_ignored_test VARIABLES TEST: runs an ignored test with these variables.
run_ignored_test() { env $1 cargo test -p fairshare-embedded --color never --test abi -- --ignored --exact "abi::$2" --nocapture; }

# run_long_tests M: runs the long tests. Each fuzzing target prints its seed, its time and its number of runs.
run_long_tests() {
	local name
	for name in ${LONG:-}; do
		case " $steps " in *" $name "*) ;; *) say "LONG: there is no $name, but $steps"; failed=$((failed + 1)) ;; esac
	done
	[ $failed -eq 0 ] || return
	install_packages gcc libc6-dev libjansson-dev || { failed=$((failed + 1)); return; }
	say "at $(git rev-parse --short HEAD 2>/dev/null): each fuzzing target for $1 min"
	if begin_step advisories; then
		for name in 'deny check' audit; do
			if command -v "cargo-${name%% *}" >/dev/null; then
				run_long_test '(advisories|licenses) ok|Loaded .* advisories' cargo $name
			else
				say "to look for advisories: cargo install --locked cargo-${name%% *}"
				skipped=$((skipped + 1))
			fi
		done
	fi
	if begin_step fuzz; then
		export FUZZ_SECONDS
		FUZZ_SECONDS=$(multiply "$1" 60)
		run_long_test 'fuzz [a-z-]+: ' cargo test -p fairshare-engine --color never --lib -- any_sequence_of_events properties::fuzzed --nocapture --test-threads 1
		run_long_test 'fuzz [a-z-]+: ' cargo test -p fairshare-embedded --color never --test abi fuzz:: -- --nocapture --test-threads 1
		run_long_test 'fuzz [a-z-]+: ' cargo test -p flux-fairshare --color never --test cli fuzz:: -- --nocapture --test-threads 1
	fi
	if begin_step properties; then
		run_long_test '^test result' env PROPTEST_CASES="$(multiply "$1" 4000)" cargo test --workspace --color never --lib properties
	fi
	if begin_step panics; then run_long_test '^test result' env STRIKES=8 cargo test -p fairshare-embedded --color never --test abi abi::panics; fi
	if begin_step memory; then run_long_test '[0-9]+ histories' run_ignored_test STEP=${STEP:-97} memory::job_histories_survive_failed_jansson_allocations; fi
	if begin_step cycles; then
		run_long_test 'bytes more' run_ignored_test "CYCLES=10000 GLIBC_TUNABLES=glibc.malloc.tcache_count=0" cycles::a_thousand_load_cycles_leak_no_memory
	fi
	[ -n "$plugin" ] || { build_programs & wait_for_build $!; }
	if begin_step million; then
		run_long_test 'associations|longest|a job' run_ignored_test \
			"N=1000000 PLUGIN_UNDER_TEST=$(realpath "${plugin:-target/release/libmf_priority.so}")" push_cost::a_million_associations_are_pushed_in_short_calls
	fi
	if begin_step random; then run_random "$(multiply "$1" 360)"; fi
	if begin_step soak; then
		if command -v flux >/dev/null; then
			MINUTES=$(multiply "$1" 12) JOBS=$(multiply "$1" 100000) \
				run_long_test '^ +[0-9]|^minute|jobs|hour|quarter|verdict|what was' bash t/soak/soak.sh "${plugin:-target/release/libmf_priority.so}"
		else
			skipped=$((skipped + 1))
		fi
	fi
	if begin_step valgrind; then
		if command -v valgrind >/dev/null; then under=valgrind && run_under_valgrind; else skipped=$((skipped + 1)); fi
	fi
	if begin_step asan; then unset FUZZ_SECONDS && plugin= under=asan && run_under_asan; fi
	if begin_step tsan; then under=tsan && run_under_tsan; fi
	[ -z "${keep:-}" ] || say "logs are kept in $out"
}

# Bash reads a { } block completely before it runs the block, so this file may be edited during a run.
{
	if [ -n "$long" ]; then
		random=1 run_long_tests "$long"
		finish
	fi
	[ -n "$plugin" ] || [ -z "$rust" ] || install_packages gcc libc6-dev libjansson-dev || { failed=$((failed + 1)); finish; }
	# The tests in Rust run during the build for release, which keeps one processor busy for minutes.
	[ -n "$plugin" ] || [[ $under = [at]san ]] || { say 'building for release'; build_programs & builder=$!; }
	[ -n "$rust" ] && [ -z "$random" ] && run_rust_tests
	[ -z "${builder:-}" ] || wait_for_build "$builder"
	if [ -n "$random" ]; then
		run_random "$random"
	elif [ -n "$under" ]; then
		"run_under_$under"
	else
		# The next two tests run in the background of the sharness tests.
		[ -z "$rust" ] || {
			t/report/run --browser >/dev/null || install_packages chromium || : # before two ask apt at once
			run_in_background page test_page
			run_in_background random run_random 60
		}
		run_sharness
		[ -z "$rust" ] || { add_background_counts page; add_background_counts random; }
	fi
	finish
}
