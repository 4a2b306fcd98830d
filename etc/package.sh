#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Makes packages of the files that etc/install.sh --keep-upstream installs below /usr.
#
# usage: etc/package.sh [--from DIR] [--out DIR] [--quick] deb|rpm...
#   --from DIR  the directory with the built plugin and command (default: target/release)
#   --out DIR   the directory for the packages (default: target/packages)
#   --quick     make larger packages in much less time
#
# Needs cargo-deb and cargo-generate-rpm on PATH. `--tools DIR` installs tested versions of both below DIR, and uses them. The script does
# not compile the plugin: build first, as CONTRIBUTING.md says.
set -eu
cd "$(dirname "$0")/.."
from=target/release out=target/packages tools='' wanted=() deb=() rpm=()
CARGO_DEB=3.8.0 CARGO_GENERATE_RPM=0.21.1

die() { printf 'package.sh: %s\n' "$*" >&2; exit 1; }
while [ $# -gt 0 ]; do
	case $1 in
	--from | --out | --tools)
		[ $# -ge 2 ] && [ -n "$2" ] || die "$1 wants a directory"
		declare "${1#--}=$2"
		shift 2
		;;
	--quick) deb=(--fast) rpm=(--payload-compress gzip); shift ;;
	deb | rpm) wanted+=("$1"); shift ;;
	-h | --help) sed -n '3,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
	*) die "unknown argument \"$1\"; see --help" ;;
	esac
done
[ ${#wanted[@]} -gt 0 ] || die 'which? deb, rpm, or both'

# require_tool NAME VERSION: makes sure that the tool is on PATH.
require_tool() {
	[ -z "$tools" ] || PATH=$tools/bin:$PATH
	command -v "$1" >/dev/null && return
	[ -n "$tools" ] || die "$1 is not on PATH: cargo install --locked $1@$2, or --tools DIR"
	cargo install --quiet --locked --root "$tools" "$1@$2" || die "cannot install $1"
}

# Installs everything into one tree, for a Flux below /usr. PKG_CONFIG_LIBDIR hides the Flux of this machine from
# pkg-config.
rm -rf target/package
PKG_CONFIG_LIBDIR=/nonexistent PKG_CONFIG_PATH='' bash etc/install.sh --prefix /usr --keep-upstream --destdir "$PWD/target/package" --from "$from" >/dev/null
# The package manager has its own list of installed files.
rm target/package/usr/share/flux-fairshare/installed
mkdir -p "$out"
for kind in "${wanted[@]}"; do
	case $kind in
	deb)
		require_tool cargo-deb "$CARGO_DEB"
		cargo deb --quiet --no-build --no-strip "${deb[@]}" --output "$out"
		ls -t "$out"/*.deb | head -1
		;;
	rpm)
		require_tool cargo-generate-rpm "$CARGO_GENERATE_RPM"
		cargo generate-rpm "${rpm[@]}" --output "$out"
		ls -t "$out"/*.rpm | head -1
		;;
	esac
done
