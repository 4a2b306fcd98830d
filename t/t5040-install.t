#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='etc/install.sh installs next to or in place of the plugin of flux-accounting, into a live instance, and uninstalls'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence
unset FLUX_EXEC_PATH # flux finds the installed command

SETUP="$T_DIR/../etc/install.sh"
dest=$PWD/dest
lib=$(pkg-config --variable=fluxlibdir flux-core)
cmd=$(pkg-config --variable=fluxcmddir flux-core)
share=$(pkg-config --variable=prefix flux-core)/share
so=$dest$lib/job-manager/plugins/mf_priority.so
kept=$dest$lib/flux-fairshare/flux-accounting/mf_priority.so
# install.sh installs the plugin and the command under test.
mkdir built && cp "$FAIRSHARE_UNDER_TEST" built/flux-fairshare && cp "$PLUGIN_UNDER_TEST" built/libmf_priority.so
run_install() { bash "$SETUP" --destdir "$dest" --from built "$@"; }
list_files() { (cd "$dest" && find . -type f | sort); }
# install_theirs: installs another plugin as the package of flux-accounting does.
install_theirs() { install -D -m 755 "$lib/job-manager/plugins/alloc-bypass.so" "$so"; }
is_theirs() { cmp "$lib/job-manager/plugins/alloc-bypass.so" "$1"; }

test_expect_success 'install.sh refuses unknown arguments and a directory without a build, and changes nothing' '
	test_must_fail run_install --frobnicate 2>err && grep "unknown argument \"--frobnicate\"" err &&
	test_must_fail bash "$SETUP" --destdir "$dest" --from /nonexistent 2>err && grep "build first" err && ! test -e "$dest"
'
test_expect_success 'install.sh keeps another plugin aside' '
	install_theirs && run_install >out && is_theirs "$kept" && cmp built/libmf_priority.so "$so"
'
test_expect_success 'the list of installed files is complete' '
	sed "s/^/./" "$dest$share/flux-fairshare/installed" | sort >listed &&
	list_files | grep -v -e "flux-accounting/mf_priority.so$" -e "flux-fairshare/installed$" >there && test_cmp there listed
'
test_expect_success 'a second run of install.sh changes nothing' '
	list_files >before && run_install >out && list_files >after && test_cmp before after && is_theirs "$kept"
'
test_expect_success 'a live instance loads the installed plugin' '
	start_instance && flux jobtap load "$so" && flux jobtap list | grep mf_priority.so &&
	mf push assoc 5001 A fairshare=0.5 project "*" && a=$(mf submit 5001) && wait_for start $a
'
test_expect_success 'a live instance replaces the loaded plugin by a new version, and jobs go on' '
	run_install >out && mf push assoc 5001 A fairshare=0.5 project "*" && flux jobtap load -r mf_priority.so "$so" && mf push assoc 5001 A fairshare=0.5 project "*" &&
	b=$(mf submit 5001) && wait_for start $b
'
test_expect_success 'flux finds the installed command' '
	FLUX_EXEC_PATH_PREPEND="$dest$cmd" flux fairshare --version
'
test_expect_success 'the systemd units name the flux of the prefix, and the man pages are installed' '
	grep "^ExecStart=$(dirname "$share")/bin/flux fairshare sync --watch" "$dest$(dirname "$share")/lib/systemd/system/flux-fairshare-sync.service" &&
	test -s "$dest$share/man/man1/flux-fairshare-why.1"
'
test_expect_success 'flux help lists the command' '
	FLUX_CMDHELP_PATTERN="$dest$share/flux/help.d/*.json" flux help >out 2>&1 && grep "^   fairshare .*explain priorities" out
'
test_expect_success 'the boot script ends with success without a plugin, and without a database' '
	boot=$(dirname "$(find "$dest" -name 02-flux-fairshare)")/02-flux-fairshare && flux jobtap remove mf_priority.so && FLUX_EXEC_PATH_PREPEND="$dest$cmd" bash "$boot" >out 2>&1 && test_must_be_empty out &&
	flux jobtap load "$so" && FLUX_FAIRSHARE_DATABASE=/nonexistent FLUX_EXEC_PATH_PREPEND="$dest$cmd" bash "$boot" >out 2>&1 && grep "has no data of this boot" out
'
test_expect_success 'the boot script pushes the database into the plugin' '
	make_site && stop_service && FLUX_FAIRSHARE_DATABASE=$PWD/$DB FLUX_EXEC_PATH_PREPEND="$dest$cmd" bash "$boot" &&
	mf query | jq -e ".mf_priority_map[] | select(.userid == 5004) | .banks[0].max_active_jobs == 3"
'
test_expect_success '--keep-upstream restores the other plugin and writes the path of ours into the sample' '
	run_install --keep-upstream >out && is_theirs "$so" && ! test -e "$kept" && cmp built/libmf_priority.so "$dest$lib/flux-fairshare/mf_priority.so" &&
	grep "load = \"$lib/flux-fairshare/mf_priority.so\"" "$dest$share/flux-fairshare/flux-fairshare.toml"
'
test_expect_success 'a live instance loads the plugin from the directory of --keep-upstream' '
	flux jobtap load -r mf_priority.so "$dest$lib/flux-fairshare/mf_priority.so" && mf push assoc 5001 A fairshare=0.5 project "*"
'
test_expect_success 'install.sh without --keep-upstream replaces the other plugin again' '
	run_install >out && is_theirs "$kept" && cmp built/libmf_priority.so "$so" && ! test -e "$dest$lib/flux-fairshare/mf_priority.so"
'
test_expect_success 'a live instance refuses to load the plugin that is kept aside next to ours' '
	flux jobtap load -r mf_priority.so "$so" && test_must_fail flux jobtap load "$kept" 2>err && cat err && flux jobtap list >out && test $(grep -c mf_priority out) = 1 &&
	test_must_fail flux jobtap load mf_priority.so.flux-accounting
'
test_expect_success 'install.sh moves a plugin that an earlier version kept on the plugin path' '
	mv "$kept" "$so.flux-accounting" && run_install >out && is_theirs "$kept" && ! test -e "$so.flux-accounting"
'
test_expect_success 'install.sh --uninstall leaves a plugin that an upgrade of flux-accounting put back' '
	install_theirs && run_install --uninstall >out && grep "is not ours any more" out && is_theirs "$so"
'
test_expect_success 'install.sh --uninstall restores the files from before the installation' '
	rm -r "$dest" && install_theirs && run_install >out && run_install --uninstall >out && list_files >after && echo ".$lib/job-manager/plugins/mf_priority.so" >before &&
	test_cmp before after && is_theirs "$so"
'
test_expect_success 'a second install.sh --uninstall reports that nothing is installed' '
	test_must_fail run_install --uninstall 2>err && grep "nothing of this is installed" err
'
finish
