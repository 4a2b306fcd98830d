# SPDX-License-Identifier: LGPL-3.0-only
# The sharness tests with each broker under a checker of memory; part of t/run.sh, with its functions and variables.

# judged TROUBLE [END [EARLY]]: each broker has left a report in $out/$under; one that matches TROUBLE fails the run, and so do none
# at all. A report without END was cut off when its broker was killed: it counts as skipped, unless it matches EARLY, trouble that
# is written as soon as it happens.
judged() {
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

under_valgrind() {
	need valgrind || { failed=$((failed + 1)); return; }
	mkdir -p "$out/valgrind"
	export MF_WAIT=${MF_WAIT:-180} MF_TEST_TIMEOUT=${MF_TEST_TIMEOUT:-1800}
	export MF_WRAP="valgrind,--leak-check=full,--show-leak-kinds=definite,--errors-for-leak-kinds=definite"
	MF_WRAP+=",--trace-children=no,--child-silent-after-fork=yes,--num-callers=40,--error-exitcode=0"
	MF_WRAP+=",--gen-suppressions=all,--suppressions=$PWD/t/valgrind.supp,--log-file=$out/valgrind/%p.log"
	sharness
	judged 'ERROR SUMMARY: [^0]' 'ERROR SUMMARY: ' 'Invalid (read|write|free)|uninitialised|Mismatched free|Jump to the invalid|Process terminating with default action of signal (6|11)'
}

# nightly: sanitizers are for a toolchain of nightly alone.
nightly() {
	need gcc libc6-dev libjansson-dev || { failed=$((failed + 1)); return 1; }
	cargo +nightly --version >"$out/nightly.log" 2>&1 || rustup toolchain install nightly --profile minimal >>"$out/nightly.log" 2>&1 ||
		{ tail -5 "$out/nightly.log"; failed=$((failed + 1)); return 1; }
}

# sanitized KIND COMMAND...: with the sanitizer in what cargo builds, Rust and C, but not in what it runs to build it. A little
# optimised, as what is instrumented takes many times as long; integers are checked for overflow as in every build for tests.
sanitized() {
	local kind=$1
	shift
	env RUSTFLAGS=-Zsanitizer=$kind CFLAGS=-fsanitize=$kind CARGO_PROFILE_DEV_OPT_LEVEL=1 CARGO_UNSTABLE_TARGET_APPLIES_TO_HOST=true \
		CARGO_TARGET_APPLIES_TO_HOST=false "$@"
}

# sanitized_tests KIND ARGUMENTS-OF-CARGO-TEST...: each must pass, and a report of any process is a failure.
sanitized_tests() {
	local kind=$1 log=$out/$under-tests.log report before=$failed
	shift
	mkdir -p "$out/$under-tests"
	say "$under: cargo test $*"
	# Its frames are large: what a test nests deeply needs more than a test's thread has.
	RUST_MIN_STACK=67108864 ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:log_path=$out/$under-tests/r.log TSAN_OPTIONS=log_path=$out/$under-tests/r.log \
		sanitized "$kind" cargo +nightly test --color never --target-dir "target/$under" "$@" >"$log" 2>&1
	local rc=$?
	grep -aE '^(test .* FAILED|error|test result)' "$log"
	tally "$log"
	for report in "$out/$under-tests"/*; do
		[ -s "$report" ] || continue
		grep -aE 'ERROR|WARNING|SUMMARY' "$report" | cut -c1-300
		failed=$((failed + 1))
	done
	[ $failed -eq "$before" ] && [ $rc -ne 0 ] && failed=$((failed + 1))
	[ $failed -eq "$before" ] || { keep=1; say "reports are kept in $out"; }
}

# Under AddressSanitizer the runtime has to be there before the broker is: gcc's, which rustc's instructions fit. Leaks are
# for valgrind, as this one can't name who left what after a module has been taken out of memory. A broker that ends in order
# says so. Then what has the runtime in itself: the embedded job manager, C and Rust, with the .so in it; not the tests that
# measure what is allocated, or how long it takes.
under_asan() {
	local runtime so=$plugin
	nightly || return
	if [ -z "$plugin" ]; then
		say 'building with AddressSanitizer'
		sanitized address cargo +nightly build -p mf-priority --target-dir target/asan/so >"$out/build.log" 2>&1 ||
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
	# It can't work where a module looks for functions in itself first.
	export MF_WRAP="env,FLUX_LOAD_WITH_DEEPBIND=0,LD_PRELOAD=$runtime,ASAN_OPTIONS=detect_leaks=0:log_path=$out/asan/r.log"
	MF_WRAP+=":detect_stack_use_after_return=1:strict_string_checks=1:include_if_exists=$out/asan/of/%b"
	sharness
	judged '^==.*(ERROR|WARNING)|CHECK failed'
	unset MF_WRAP PLUGIN_UNDER_TEST
	plugin=$so
	[ -n "$plugin" ] || [ ${#only[@]} -gt 0 ] || sanitized_tests address -p fairshare-embedded --test abi -- abi:: embedded:: fuzz:: \
		--skip abi::cost --skip abi::growth --skip abi::memory --skip abi::push_cost --skip cycles::a_thousand
	[ -n "$plugin" ] || [ ${#only[@]} -gt 0 ] || sanitized_tests address -p flux-fairshare --test cli -- fuzz::
}

# The parts of the command that start threads, with ThreadSanitizer in all of it, the standard library and SQLite too. The
# .so has no threads, which t5045 and .ci/layering hold.
under_tsan() {
	local host
	nightly || return
	rustup component add rust-src --toolchain nightly >"$out/nightly.log" 2>&1
	host=$(rustc -vV | sed -n 's/^host: //p')
	sanitized_tests thread -Zbuild-std --target "$host" -p flux-fairshare --lib -- metrics::listen simulate
	sanitized_tests thread -Zbuild-std --target "$host" -p flux-fairshare --test cli -- simulate table::progress
}
