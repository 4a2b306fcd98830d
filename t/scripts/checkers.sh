# SPDX-License-Identifier: LGPL-3.0-only
# Runs the sharness tests with each broker under a memory checker. t/run.sh sources this file, which uses functions and variables of t/run.sh.

# judge_reports TROUBLE [END [EARLY]]: checks the reports in the directory $out/$under, one for each broker. The arguments are patterns.
# The run fails if a report matches TROUBLE, or if there is no report.
# A report that does not match END is incomplete, because its broker was killed. An incomplete report is an error if it matches EARLY;
# otherwise it counts as skipped.
judge_reports() {
	local report trouble n=0 bad=0 cut=0
	for report in "$out/$under"/*.log*; do
		[ -s "$report" ] || continue
		trouble=$1
		if ! grep -qE "${2:-}" "$report"; then
			trouble=${3:-}
			[ -n "$trouble" ] && grep -qE "$trouble" "$report" || { cut=$((cut + 1)); continue; }
		fi
		n=$((n + 1))
		grep -qE "$trouble" "$report" || continue
		bad=$((bad + 1))
		grep -E "$trouble|definitely lost:" "$report" | cut -c1-300
	done
	say "$under: $n brokers, $bad with errors; $cut more were cut short"
	skipped=$((skipped + cut))
	[ $n -gt 0 ] && passed=$((passed + n - bad)) failed=$((failed + bad)) || failed=$((failed + 1))
	[ $bad -eq 0 ] || { keep=1; say "reports are kept in $out/$under"; }
}

run_under_valgrind() {
	install_packages valgrind || { failed=$((failed + 1)); return; }
	mkdir -p "$out/valgrind"
	export MF_WAIT=${MF_WAIT:-180} MF_TEST_TIMEOUT=${MF_TEST_TIMEOUT:-1800} AMID_ROUNDS=${AMID_ROUNDS:-8}
	export MF_WRAP="valgrind,--leak-check=full,--show-leak-kinds=definite,--errors-for-leak-kinds=definite"
	MF_WRAP+=",--trace-children=no,--child-silent-after-fork=yes,--num-callers=40,--error-exitcode=0"
	MF_WRAP+=",--gen-suppressions=all,--suppressions=$PWD/t/valgrind.supp,--log-file=$out/valgrind/%p.log"
	run_sharness
	judge_reports 'ERROR SUMMARY: [^0]' 'ERROR SUMMARY: ' 'Invalid (read|write|free)|uninitialised|Mismatched free|Jump to the invalid|Process terminating with default action of signal (6|11)'
}

# install_nightly: installs the nightly toolchain, which sanitizers need.
install_nightly() {
	install_packages gcc libc6-dev libjansson-dev || { failed=$((failed + 1)); return 1; }
	cargo +nightly --version >"$out/nightly.log" 2>&1 || rustup toolchain install nightly --profile minimal >>"$out/nightly.log" 2>&1 ||
		{ tail -5 "$out/nightly.log"; failed=$((failed + 1)); return 1; }
}

# run_sanitized KIND COMMAND...: runs cargo with a sanitizer in the built Rust and C code, but not in build scripts. The code is optimised a
# little, because the sanitizer makes it many times slower; overflow checks stay on.
run_sanitized() {
	local kind=$1
	shift
	env RUSTFLAGS=-Zsanitizer=$kind CFLAGS=-fsanitize=$kind CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_UNSTABLE_TARGET_APPLIES_TO_HOST=true \
		CARGO_TARGET_APPLIES_TO_HOST=false "$@"
}

# run_sanitized_tests KIND ARGUMENTS-OF-CARGO-TEST...: runs tests; each report of a process counts as a failure.
run_sanitized_tests() {
	local kind=$1 log=$out/$under-tests.log report before=$failed
	shift
	mkdir -p "$out/$under-tests"
	say "$under: cargo test $*"
	# Sanitizers make stack frames larger, so tests with deep recursion need larger stacks. The tests call cargo to build the plugin, so
	# CARGO_TARGET_DIR must be in the environment.
	RUST_MIN_STACK=67108864 ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:log_path=$out/$under-tests/r.log TSAN_OPTIONS=log_path=$out/$under-tests/r.log \
		CARGO_TARGET_DIR=$PWD/target/$under run_sanitized "$kind" cargo +nightly test --color never "$@" >"$log" 2>&1
	local rc=$?
	grep -aE '^(test .* FAILED|error|test result)' "$log"
	add_counts "$log"
	for report in "$out/$under-tests"/*; do
		[ -s "$report" ] || continue
		grep -aE 'ERROR|WARNING|SUMMARY' "$report" | cut -c1-300
		failed=$((failed + 1))
	done
	[ $failed -eq "$before" ] && [ $rc -ne 0 ] && failed=$((failed + 1))
	[ $failed -eq "$before" ] || { keep=1; say "reports are kept in $out"; }
}

# run_under_asan: preloads gcc's runtime of AddressSanitizer, which works with code of rustc, into the
# brokers. The runtime does not look for leaks: unlike valgrind, AddressSanitizer cannot name the code of an
# unloaded module. A broker that ends in order writes a report. Then the tests of the embedded job manager
# run, except tests that measure allocations or times.
run_under_asan() {
	local runtime so=$plugin
	install_nightly || return
	if [ -z "$plugin" ]; then
		say 'building with AddressSanitizer'
		run_sanitized address cargo +nightly build -p mf-priority --target-dir target/asan/so >"$out/build.log" 2>&1 ||
			{ tail -30 "$out/build.log"; failed=$((failed + 1)); return; }
		plugin=$PWD/target/asan/so/debug/libmf_priority.so
	fi
	runtime=$(realpath "$(gcc -print-file-name=libasan.so)")
	if ! grep -qa __asan_report_load8 "$plugin" || [ ! -e "$runtime" ]; then
		say "no AddressSanitizer in $plugin, or no runtime of gcc for it"
		failed=$((failed + 1))
		return
	fi
	mkdir -p "$out/asan/of"
	echo atexit=1 >"$out/asan/of/flux-broker"
	export MF_WAIT=${MF_WAIT:-180} MF_TEST_TIMEOUT=${MF_TEST_TIMEOUT:-1800}
	# With RTLD_DEEPBIND, a module would not use the functions of the sanitizer in $runtime.
	export MF_WRAP="env,FLUX_LOAD_WITH_DEEPBIND=0,LD_PRELOAD=$runtime,ASAN_OPTIONS=detect_leaks=0:log_path=$out/asan/r.log"
	MF_WRAP+=":detect_stack_use_after_return=1:strict_string_checks=1:include_if_exists=$out/asan/of/%b"
	run_sharness
	judge_reports '^==.*(ERROR|WARNING)|CHECK failed'
	unset MF_WRAP PLUGIN_UNDER_TEST
	plugin=$so
	[ -n "$plugin" ] || [ ${#only[@]} -gt 0 ] || run_sanitized_tests address -p fairshare-embedded --test abi -- abi:: embedded:: fuzz:: \
		--skip abi::cost --skip abi::growth --skip abi::memory --skip abi::push_cost --skip cycles::a_thousand
	[ -n "$plugin" ] || [ ${#only[@]} -gt 0 ] || run_sanitized_tests address -p flux-fairshare --test cli -- fuzz::
}

# run_under_tsan: tests the parts of the command that start threads, with ThreadSanitizer also in the standard library and SQLite. The .so has
# no threads, which t5045 and .ci/layering check.
run_under_tsan() {
	local host
	install_nightly || return
	rustup component add rust-src --toolchain nightly >"$out/nightly.log" 2>&1
	host=$(rustc -vV | sed -n 's/^host: //p')
	run_sanitized_tests thread -Zbuild-std --target "$host" -p flux-fairshare --lib -- metrics::listen simulate
	run_sanitized_tests thread -Zbuild-std --target "$host" -p flux-fairshare --test cli -- simulate table::progress
}
