#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# The plugin at work on a small site: builds it, loads it, submits jobs, shows who goes first and what holds the others.
#
#   bash etc/demo.sh              in a real one-node Flux instance if flux is on PATH, else in the embedded job manager
#   DEMO_HOST=embedded|flux       choose
#   DEMO_SITE=FILE                another site than etc/demo-site.json
#
# Needs Rust, a C compiler, Debian's libjansson-dev (installed if root or through sudo) and the package registries.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 2

fail() {
	printf 'demo: %s\n' "$*" >&2
	exit 2
}

# A header that the C compiler finds counts, wherever it came from.
has_header() {
	printf '#include <%s>\n' "$1" | cc -E -x c - >/dev/null 2>&1
}

install_missing() {
	local missing=() run=()
	command -v cc >/dev/null || missing+=(gcc libc6-dev)
	has_header jansson.h || missing+=(libjansson-dev)
	test ${#missing[@]} -gt 0 || return 0
	if test "$(id -u)" -ne 0; then
		# Without asking for a password: a demo does not.
		sudo -n true 2>/dev/null || fail "missing packages; install them with

    sudo apt-get install ${missing[*]}
"
		run=(sudo -n)
	fi
	command -v apt-get >/dev/null || fail "missing: ${missing[*]} (Debian's names; there is no apt-get here)"
	echo "Installing ${missing[*]} .."
	local log
	log=$(mktemp) || exit 2
	"${run[@]}" apt-get install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1 || {
		"${run[@]}" apt-get update >>"$log" 2>&1
		"${run[@]}" apt-get install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1
	} || {
		tail -n 15 "$log" >&2
		fail "can't install them; try: apt-get install ${missing[*]}"
	}
	rm -f "$log"
}

# build PACKAGE...: compiles them, and shows how many crates are done and for how long it has run. Prints what cargo says only if it
# fails.
build() {
	local log=target/demo/build.log packages=() package all=0 done=0 line tty=
	for package; do packages+=(-p "$package"); done
	test -t 1 && tty=1
	all=$(cargo tree -q --prefix none -e normal,build "${packages[@]}" 2>/dev/null | sed 's/ (\*)$//' | sort -u | grep -c .)
	test -n "$tty" || printf 'Building the plugin and the demo: '
	SECONDS=0
	while read -r line; do
		case $line in
		*Compiling*)
			done=$((done + 1))
			if test -n "$tty"; then
				printf '\rBuilding the plugin and the demo: crate %d of at most %d, %d s ' "$done" "$all" "$SECONDS"
			else
				printf .
			fi
			;;
		esac
	done < <(cargo build "${packages[@]}" 2>&1 | tee "$log"; echo "rc ${PIPESTATUS[0]}" >>"$log")
	wait $!
	if test "$(tail -n 1 "$log")" != "rc 0"; then
		echo " failed"
		tail -n 30 "$log" >&2
		fail "cargo build ${packages[*]} failed; all of its output is in $log"
	fi
	if test -n "$tty"; then
		printf '\r\033[KBuilt the plugin and the demo in %d s.\n' "$SECONDS"
	else
		printf ' done in %d s\n' "$SECONDS"
	fi
}

command -v cargo >/dev/null || fail "cargo is not on PATH: install Rust, see https://rustup.rs"
install_missing
command -v cc >/dev/null || fail "cc is not on PATH"

target=${CARGO_TARGET_DIR:-target}
mkdir -p target/demo
build mf-priority fairshare-embedded
# Flux knows the plugin by the name of its file.
plugin=target/demo/mf_priority.so
cp -f --remove-destination "$target/debug/libmf_priority.so" "$plugin" || exit 2
program=$target/debug/fairshare-embedded
site=${DEMO_SITE:-etc/demo-site.json}

host=${DEMO_HOST:-}
if test -z "$host"; then
	command -v flux >/dev/null && host=flux || host=embedded
fi
echo
case $host in
embedded)
	exec "$program" demo --host embedded --plugin "$plugin" "$site"
	;;
flux)
	command -v flux >/dev/null || fail "flux is not on PATH"
	# Mock tasks, so that jobs of users who exist nowhere can run; a cluster and queues as the site has them.
	"$program" demo --host flux --print-config --plugin "$plugin" "$site" >target/demo/flux.json || exit 2
	# The rc scripts of an instance inside another would find that one's settings.
	unset FLUX_URI FLUX_CONF_DIR
	export FLUX_DISABLE_JOB_CLEANUP=t # or the jobs that are left are cancelled one by one, with a line in the log
	exec flux start -s1 -c target/demo/flux.json -Slog-stderr-level=3 \
		"$program" demo --host flux --plugin "$plugin" "$site"
	;;
*)
	fail "DEMO_HOST is flux or embedded"
	;;
esac
