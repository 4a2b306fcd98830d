#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='contents and dependencies of the packages, and the installed packages'

#   PACKAGE_KINDS  kinds of packages to make (default: "deb rpm")
home=$HOME
. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
. "$T_DIR/packages.sh"
in_sequence

root=$PWD/root
so=usr/lib/flux/flux-fairshare/mf_priority.so cmd=usr/libexec/flux/cmd
is_requested() {
	case " ${PACKAGE_KINDS:-deb rpm} " in *" $1 "*) ;; *) echo "not asked for" >"$1.out"; return 1 ;; esac
}
# print_newest_glibc FILE: prints the newest version of glibc that the file needs.
print_newest_glibc() { readelf -VW "$1" | grep -o "GLIBC_[0-9.]*" | sed "s/GLIBC_//" | sort -Vu | tail -1; }
# The oldest supported version of glibc, according to docs/admin.md.
named=$(sed -n 's/^| glibc | \([0-9.]*\) or newer.*/\1/p' "$TOP/docs/admin.md")

is_requested deb && pack deb && test_set_prereq DEB || { tail -5 deb.out >&2; echo "!! cargo-deb cannot be had: the Debian package is NOT tested" >&2; }
is_requested rpm && pack rpm && test_set_prereq RPM || { tail -5 rpm.out >&2; echo "!! cargo-generate-rpm cannot be had: the RPM is NOT tested" >&2; }
command -v rpm2cpio >/dev/null && command -v cpio >/dev/null && test_set_prereq RPM_THERE || echo "!! rpm or cpio is not installed: only that the RPM is made is tested" >&2
test "$(uname -m)" = x86_64 && test_set_prereq X86_64

test_expect_success 'the plugin calls the listed functions of Flux and no others' '
	grep -v "^#" "$TOP/etc/flux-symbols.txt" >listed && nm -D --undefined-only "$PLUGIN_UNDER_TEST" | sed -n "s/.* \(flux_[a-z0-9_]*\).*/\1/p" | LC_ALL=C sort >needed &&
	test_cmp listed needed
'
test_expect_success X86_64 'plugin and command need no newer glibc than the documents name' '
	test -n "$named" && for file in "$PLUGIN_UNDER_TEST" "$FAIRSHARE_UNDER_TEST"; do
		test "$(printf "%s\n" "$named" "$(print_newest_glibc "$file")" | sort -V | tail -1)" = "$named" || { echo "$file needs $(print_newest_glibc "$file")"; return 1; }; done
'
test_expect_success 'the plugin starts no thread and no process' '
	nm -D --undefined-only "$PLUGIN_UNDER_TEST" >needed && grep -q " malloc@" needed &&
	! grep -wE "(pthread|thrd)_create|v?fork|clone[0-9]*|posix_spawnp?|exec[lv][a-z]*|system|popen|dlopen|dlm?open" needed
'
test_expect_success 'the plugin contains neither a database nor the command' '
	! strings "$PLUGIN_UNDER_TEST" | grep -q -e "SQLite format" -e "flux fairshare show"
'
test_expect_success 'install.sh installs below /usr' '
	PKG_CONFIG_LIBDIR=/nonexistent bash "$TOP/etc/install.sh" --prefix /usr --keep-upstream --destdir "$PWD/dest" --from built >out && test -e dest/$so
'
test_expect_success DEB 'the Debian package has the files of install.sh in the same places' '
	(cd dest && find . -type f ! -name installed | sort) >wanted && dpkg-deb -x "$packages"/*.deb deb &&
	(cd deb && find . -type f ! -path "./usr/share/doc/*" | sed "s/\.gz$//" | sort) >found && test_cmp wanted found && cmp dest/$so deb/$so
'
test_expect_success DEB 'the Debian package names its version and its dependencies' '
	dpkg-deb -f "$packages"/*.deb >control && cat control && grep "^Package: flux-fairshare$" control && grep "^Version: " control &&
	grep "^Depends: .*libc6" control && grep "^Depends: .*libjansson4" control && dpkg-deb -e "$packages"/*.deb deb-control && grep 02-flux-fairshare deb-control/conffiles
'
# dpkg installs below the directory $root. It checks the dependencies there, so $root has a copy of this machine's package list.
test_expect_success DEB 'dpkg installs the Debian package if its dependencies are installed' '
	mkdir -p "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/info" "$root/var/log" && cp /var/lib/dpkg/status "$root/var/lib/dpkg/status" &&
	fakeroot=$(test "$(id -u)" = 0 || echo fakeroot) && $fakeroot dpkg --root="$root" --force-not-root --force-script-chrootless --log=/dev/null -i "$packages"/*.deb >out 2>&1 ||
		{ cat out; return 1; }
	dpkg --root="$root" -s flux-fairshare | grep "Status: install ok installed" && test -x "$root/$cmd/flux-fairshare"
'
test_expect_success DEB 'the installed Debian package provides command, plugin and man pages' '
	FLUX_EXEC_PATH=$root/$cmd flux fairshare --version && start_instance && flux jobtap load "$root/$so" && make_site &&
	FLUX_EXEC_PATH_PREPEND=$root/$cmd flux fairshare push -p $DB && a=$(mf submit 5001) && wait_running $a && mf counts 5001 A run=1 &&
	MANPATH=$root/usr/share/man man 7 flux-fairshare-plugin | grep -i running-limits && MANPATH=$root/usr/share/man man flux-fairshare-migrate | grep -i upstream
'
test_expect_success DEB 'the service that edits the database ends' 'stop_service'
test_expect_success DEB 'dpkg removes all files of the Debian package' '
	fakeroot=$(test "$(id -u)" = 0 || echo fakeroot) && $fakeroot dpkg --root="$root" --force-not-root --force-script-chrootless --log=/dev/null -P flux-fairshare >out 2>&1 &&
	(cd "$root" && find . -type f ! -path "./var/*") >left && test_must_be_empty left
'
test_expect_success RPM 'the RPM exists' 'test -s "$(ls "$packages"/*.rpm)"'
test_expect_success RPM,RPM_THERE 'the RPM has the files of install.sh and names its dependencies' '
	(cd dest && find . -type f ! -name installed | sed "s/^\.//" | sort) >wanted && rpm -qpl "$packages"/*.rpm | sort >found && test_cmp wanted found &&
	rpm -qpR "$packages"/*.rpm >needs && grep "libjansson.so.4" needs && grep "libc.so.6" needs && rpm -qpi "$packages"/*.rpm | grep "^Name *: flux-fairshare"
'
test_expect_success RPM,RPM_THERE 'the RPM unpacks to the same plugin' '
	mkdir rpm && rpm2cpio "$packages"/*.rpm | (cd rpm && cpio -idm --quiet) && cmp rpm/$so dest/$so
'
finish
