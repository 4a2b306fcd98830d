# SPDX-License-Identifier: LGPL-3.0-only
# Functions for the tests of packages. Source this file after fairshare.sh. The packages contain the plugin and the command under test. Each
# package is made only once. $home is the user's home directory, because sharness changes HOME to a directory without a Rust toolchain.
#
#   PACKAGE_TOOLS  directory of cargo-deb and cargo-generate-rpm, which are installed if missing (default: in the user's cache)

unset FLUX_EXEC_PATH # flux finds the installed command
TOP=$(cd "$T_DIR/.." && pwd)
tools=${PACKAGE_TOOLS:-${XDG_CACHE_HOME:-$home/.cache}/flux-fairshare-tools}
packages=${MF_SHARED:-$PWD}/packages
mkdir built && cp "$FAIRSHARE_UNDER_TEST" built/flux-fairshare && cp "$PLUGIN_UNDER_TEST" built/libmf_priority.so

# pack deb|rpm: makes a package in $packages. Builds the tools if they are missing. A lock lets one test pack at a time, because the
# packed files lie in the source tree.
pack() {
	HOME=$home CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 timeout 300 \
		flock "$TOP/target" sh -c 'test -e "$1"/*."$2" ||
			{ bash "$0" --from "$3" --out "$1.part" --tools "$4" --quick "$2" && mkdir -p "$1" && mv "$1.part"/*."$2" "$1"; }' \
		"$TOP/etc/package.sh" "$packages" "$1" "$PWD/built" "$tools" >"$1.out" 2>&1
}
