# SPDX-License-Identifier: LGPL-3.0-only
# What the tests of packages share, after fairshare.sh: packages of what is being tested, made once. $home is the user's own
# directory: sharness gives a test one of its own, where no toolchain is.
#
#   PACKAGE_TOOLS  where cargo-deb and cargo-generate-rpm are, or are installed to (default: a directory in the user's cache)

unset FLUX_EXEC_PATH # the command that was installed
TOP=$(cd "$T_DIR/.." && pwd)
tools=${PACKAGE_TOOLS:-${XDG_CACHE_HOME:-$home/.cache}/flux-fairshare-tools}
packages=${MF_SHARED:-$PWD}/packages
mkdir built && cp "$FAIRSHARE_UNDER_TEST" built/flux-fairshare && cp "$PLUGIN_UNDER_TEST" built/libmf_priority.so

# pack deb|rpm: there is one in $packages. What is packed lies below the root of the sources: one at a time. Tools that are not there
# are built first: as quickly as may be, and for so long.
pack() {
	HOME=$home CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 timeout 300 \
		flock "$TOP/target" sh -c 'test -e "$1"/*."$2" ||
			{ bash "$0" --from "$3" --out "$1.part" --tools "$4" --quick "$2" && mkdir -p "$1" && mv "$1.part"/*."$2" "$1"; }' \
		"$TOP/etc/package.sh" "$packages" "$1" "$PWD/built" "$tools" >"$1.out" 2>&1
}
