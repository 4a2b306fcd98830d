# SPDX-License-Identifier: LGPL-3.0-only
# The sharness tests with each broker under a checker of memory; part of t/run.sh, with its functions and variables.

# judged TROUBLE: each broker has left a report in $out/$under; one that matches TROUBLE fails the run, and so do none at all.
judged() {
	local report n=0 bad=0
	for report in "$out/$under"/*.log*; do
		[ -s "$report" ] || continue
		n=$((n + 1))
		grep -qE "$1" "$report" || continue
		bad=$((bad + 1))
		grep -E "$1|definitely lost:" "$report" | cut -c1-300
	done
	say "$under: $n brokers, $bad with errors"
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
	judged 'ERROR SUMMARY: [^0]'
}

# asan_plugin: the plugin with AddressSanitizer in it, which a toolchain of nightly alone can build.
asan_plugin() {
	local host
	host=$(rustc -vV | sed -n 's/^host: //p')
	say 'building with AddressSanitizer'
	cargo +nightly --version >"$out/build.log" 2>&1 || rustup toolchain install nightly --profile minimal >>"$out/build.log" 2>&1
	RUSTFLAGS=-Zsanitizer=address cargo +nightly build --lib --no-default-features --target "$host" --target-dir target/asan \
		>>"$out/build.log" 2>&1 || { tail -30 "$out/build.log"; return 1; }
	plugin=$PWD/target/asan/$host/debug/libmf_priority.so
}

# Under AddressSanitizer the runtime has to be there before the broker is: gcc's, which rustc's instructions fit. Leaks are
# for valgrind, as this one can't name who left what after a module has been taken out of memory. A broker that ends in order says so.
under_asan() {
	local runtime
	[ -n "$plugin" ] || asan_plugin || { failed=$((failed + 1)); return; }
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
}
