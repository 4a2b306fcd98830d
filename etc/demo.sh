#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Builds the plugin and the command, loads the plugin for a small site, submits jobs, and ends some of them. The
# commands of flux fairshare show the priorities of the jobs and the limits that hold jobs.
#
#   bash etc/demo.sh              in a real one-node Flux instance if flux is on PATH, else in the embedded job manager
#   DEMO_HOST=embedded|flux       selects one of the two
#   DEMO_SITE=FILE                uses another site than etc/demo-site.json
#
# Needs Rust, a C compiler, Debian's libjansson-dev (installed if root or through sudo) and the package registries.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 2

steps=4
step=0
# begin TEXT: announces the next step, with the time since the start.
begin() {
	step=$((step + 1))
	printf '%d of %d (%d s): %s\n' "$step" "$steps" "$SECONDS" "$1"
}

fail() {
	printf 'demo: %s\n' "$*" >&2
	exit 2
}

# has_header NAME: succeeds if the C compiler finds the header, in any directory.
has_header() {
	printf '#include <%s>\n' "$1" | cc -E -x c - >/dev/null 2>&1
}

install_missing() {
	local missing=() run=()
	command -v cc >/dev/null || missing+=(gcc libc6-dev)
	has_header jansson.h || missing+=(libjansson-dev)
	test ${#missing[@]} -gt 0 || return 0
	if test "$(id -u)" -ne 0; then
		# A demo does not ask for a password.
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

# build PACKAGE...: compiles the packages, and shows the number of compiled crates and the elapsed time. Prints cargo's output only if
# cargo fails.
build() {
	local log=target/demo/build.log packages=() package all=0 done=0 line tty= began=$SECONDS
	for package; do packages+=(-p "$package"); done
	test -t 1 && tty=1
	all=$(cargo tree -q --prefix none -e normal,build "${packages[@]}" 2>/dev/null | sed 's/ (\*)$//' | sort -u | grep -c .)
	while read -r line; do
		case $line in
		*Compiling*)
			done=$((done + 1))
			test -z "$tty" || printf '\r  crate %d of at most %d, %d s ' "$done" "$all" $((SECONDS - began))
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
		printf '\r\033[K'
	fi
}

SECONDS=0
begin 'checking for a C compiler and libjansson'
command -v cargo >/dev/null || fail "cargo is not on PATH: install Rust, see https://rustup.rs"
install_missing
command -v cc >/dev/null || fail "cc is not on PATH"

target=${CARGO_TARGET_DIR:-target}
mkdir -p target/demo
begin 'building plugin, command and demo, about 60 s the first time'
# Building without debug information and incremental compilation takes less time.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0
build mf-priority flux-fairshare fairshare-embedded
# The users of the site have no accounts here, and the embedded job manager has no broker that libflux-core could reach.
libraries=target/demo/lib
mkdir -p $libraries
for library in users.c=users.so flux.c=libflux-core.so.2; do
	cc -O1 -shared -fPIC -o "$libraries/${library#*=}" "testing/embedded/client/${library%=*}" || exit 2
done
# Flux identifies the plugin by its file name.
plugin=target/demo/mf_priority.so
cp -f --remove-destination "$target/debug/libmf_priority.so" "$plugin" || exit 2
program=$target/debug/fairshare-embedded
commands=(--command "$target/debug/flux-fairshare" --libraries "$libraries")
site=${DEMO_SITE:-etc/demo-site.json}

host=${DEMO_HOST:-}
if test -z "$host"; then
	command -v flux >/dev/null && host=flux || host=embedded
fi
# try_next: prints what to try after the demo.
try_next() {
	begin 'done; what to try next'
	cat <<-'END'
	  DEMO_SITE=FILE etc/demo.sh  runs your changed copy of etc/demo-site.json
	  cargo build --release       builds the plugin and the command for your site
	  docs/user.md                why a job waits, and when it may start
	  docs/admin.md               installs the plugin, and makes the first push
	END
}

begin 'running the plugin on a small site'
echo
case $host in
embedded)
	"$program" demo --host embedded --plugin "$plugin" "${commands[@]}" "$site" || exit
	;;
flux)
	command -v flux >/dev/null || fail "flux is not on PATH"
	# Flux runs mock tasks, because the users of the demo do not exist on this machine. The file $site defines
	# the cluster and the queues.
	"$program" demo --host flux --print-config --plugin "$plugin" "$site" >target/demo/flux.json || exit 2
	# The rc scripts must not use the settings of an enclosing instance.
	unset FLUX_URI FLUX_CONF_DIR
	export FLUX_DISABLE_JOB_CLEANUP=t # otherwise Flux cancels each remaining job, with a line in the log
	flux start -s1 -c target/demo/flux.json -Slog-stderr-level=3 \
		"$program" demo --host flux --plugin "$plugin" "${commands[@]}" "$site" || exit
	;;
*)
	fail "DEMO_HOST is flux or embedded"
	;;
esac
echo
try_next
