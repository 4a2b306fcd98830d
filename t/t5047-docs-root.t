#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='the documented commands of root, each on a private root'

# Each test has a private root (t/scripts/private-root.sh), and its changes are dropped. Packages are made once.
home=$HOME
. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
. "$T_DIR/packages.sh"
export TOP docs="$TOP/t/scripts/docs.sh" admin="$TOP/docs/admin.md"

# make_package KIND: makes a package in this directory, which is the only directory that a private root shares with this machine.
make_package() { pack "$1" && cp "$packages"/*."$1" .; }
if bash "$TOP/t/scripts/private-root.sh" true; then
	test_set_prereq ROOT
	make_package deb && test_set_prereq DEB || { tail -5 deb.out >&2; echo "!! cargo-deb cannot be had: what docs/admin.md does with the Debian package is NOT run" >&2; }
	command -v rpm >/dev/null && make_package rpm && test_set_prereq RPM ||
		{ tail -5 rpm.out >&2; echo "!! rpm or cargo-generate-rpm cannot be had: what docs/admin.md does with the RPM is NOT run" >&2; }
else
	echo "!! no root of its own can be made here (root, mount namespaces, overlayfs): what root does in the documents is NOT run" >&2
fi

# The configuration in docs/admin.md that loads the plugin, and its form for a plugin that install.sh
# installed.
sed -n '/^```toml$/,/^```$/{/^```/d;p;}' "$admin" >boot.toml
sed 's|/usr/lib/flux/flux-fairshare/||' boot.toml >boot-sources.toml
# in_broker FILE COMMAND: starts a broker with a configuration and a database, and runs a command in it.
cat >in_broker <<-'END'
	flux start -c "$1" -Slog-stderr-level=3 bash -ec '
		rm -f site.db && export FLUX_FAIRSHARE_DATABASE=$PWD/site.db
		flux account -p "$FLUX_FAIRSHARE_DATABASE" create-db && flux account-service -p "$FLUX_FAIRSHARE_DATABASE" -t
		stop() { flux python -c "import flux; flux.Flux().rpc(\"accounting.shutdown_service\").get()"; }
		trap stop EXIT
		flux account add-bank root 1 && flux account add-bank --parent-bank=root A 1 && flux account add-user --username=ann --userid=5001 --bank=A
		eval "$0"
		flux jobtap list | grep ^mf_priority.so
		flux fairshare status | grep -v ^$ | head -3' "$2"
END
printf '[job-manager]\nplugins = []\n' >empty.toml
run_in_root() {
	local rc
	bash "$TOP/t/scripts/private-root.sh" bash -e "$@" >out 2>&1
	rc=$?
	cat out
	return $rc
}

test_expect_success ROOT 'a private root keeps its changes from this machine' '
	echo "touch /usr/lib/private-root \"\$TOP/private-root\" kept; test -e /usr/lib/private-root" >script && run_in_root script &&
	test -e kept && ! test -e /usr/lib/private-root && ! test -e "$TOP/private-root"
'
cat >deb.sh <<-'END'
	bash "$docs" --live deb "$admin"
	dpkg -s flux-fairshare | grep "ok installed"
	man -w flux-fairshare-plugin
	export FLUX_EXEC_PATH=/usr/libexec/flux/cmd # the default of a Flux below /usr
	bash in_broker boot.toml "flux fairshare push"
	bash in_broker empty.toml 'bash "$docs" --live deb-running "$admin"'
	dpkg -r flux-fairshare
	! test -e /usr/lib/flux/flux-fairshare/mf_priority.so
END
test_expect_success ROOT,DEB 'dpkg installs the Debian package, brokers load the plugin from it, and dpkg removes it' '
	run_in_root deb.sh && test "$(grep -c " 0 wrong" out)" = 2 && test "$(grep -c "^mf_priority.so" out)" = 2
'
cat >rpm.sh <<-'END'
	# On Debian, rpm installs nothing without --force-debian, and has no list of the installed libraries.
	rpm() { case $1 in -i | -e) test ! -e /etc/debian_version || set -- --force-debian --nodeps "$@" ;; esac; command rpm "$@"; }
	export -f rpm
	bash "$docs" --live rpm "$admin"
	rpm -q flux-fairshare
	cmp built/libmf_priority.so /usr/lib/flux/flux-fairshare/mf_priority.so
	/usr/libexec/flux/cmd/flux-fairshare --version
	rpm -e flux-fairshare
	! test -e /usr/lib/flux/flux-fairshare/mf_priority.so
END
test_expect_success ROOT,RPM 'rpm installs and removes the RPM as documented' 'run_in_root rpm.sh && grep " 0 wrong" out'
cat >sources.sh <<-'END'
	there=$(pkg-config --variable=fluxlibdir flux-core)/job-manager/plugins/mf_priority.so
	! test -e "$there" || cp "$there" before
	mkdir -p "$TOP/target/release"
	cp built/* "$TOP/target/release/"
	# Splits the document into installation and removal, so that the installation can be checked before the removal. The blocks of both parts
	# have the same label "sources".
	sed '/^## Upgrade, and remove/,$d' "$admin" >install.md
	sed -n '/^## Upgrade, and remove/,$p' "$admin" >remove.md
	run() { (cd "$TOP" && bash "$docs" --live sources "$OLDPWD/$1"); }
	run install.md
	cmp built/libmf_priority.so "$there"
	bash in_broker boot-sources.toml "flux fairshare push"
	run remove.md
	if test -e before; then cmp before "$there"; else ! test -e "$there"; fi
END
test_expect_success ROOT 'install.sh installs from the sources, a broker boots with the plugin, and --uninstall restores the machine' '
	run_in_root sources.sh && test "$(grep -c " 0 wrong" out)" = 2 && grep "^mf_priority.so" out
'
# Makes dpkg assume that the plugin belongs to a package flux-accounting.
cat >packaged.sh <<-'END'
	there=$(pkg-config --variable=fluxlibdir flux-core)/job-manager/plugins/mf_priority.so
	cp "$(dirname "$there")/alloc-bypass.so" "$there"
	printf 'Package: flux-accounting\nStatus: install ok installed\nMaintainer: nobody\nArchitecture: all\nVersion: 1\nDescription: x\n\n' >>/var/lib/dpkg/status
	printf '/.\n%s\n' "$there" >/var/lib/dpkg/info/flux-accounting.list
	bash "$TOP/etc/install.sh" --from built
	bash "$TOP/etc/install.sh" --from built --keep-upstream
	cmp "$(dirname "$there")/alloc-bypass.so" "$there"
END
command -v dpkg >/dev/null && test_set_prereq DPKG
test_expect_success ROOT,DPKG 'install.sh warns about a file of another package and names the safe option' '
	run_in_root packaged.sh && grep "^kept aside: .*flux-accounting" out && grep "^note: .* belongs to the package flux-accounting; .*--keep-upstream avoids that" out &&
	grep "^put back: .*/mf_priority.so" out
'
test_done
