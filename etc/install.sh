#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Installs or removes the plugin, the command and their files.
#
# usage: etc/install.sh [--prefix DIR] [--destdir DIR] [--from DIR] [--keep-upstream] [--uninstall]
#   --prefix DIR     the prefix of Flux (default: that of pkg-config's flux-core, else /usr/local)
#   --destdir DIR    install below DIR, for packages and trials
#   --from DIR       the directory with the built plugin and command (default: target/release)
#   --keep-upstream  leave flux-accounting's mf_priority.so in its place; install ours into its own directory, to be loaded by path
#   --uninstall      remove the installed files, and put flux-accounting's plugin back
#
# Without --keep-upstream, flux-accounting's plugin is moved to flux-fairshare/flux-accounting/mf_priority.so in Flux's library
# directory. Flux does not search plugins there, and both plugins cannot be loaded at once, because they have the same name. An upgrade
# of flux-accounting's package would overwrite our plugin. If flux-accounting is installed as a package, use --keep-upstream.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
prefix='' dest='' from=$here/../target/release keep='' uninstall=''

die() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }
say() { printf '%s\n' "$*"; }

while [ $# -gt 0 ]; do
	case $1 in
	--prefix | --destdir | --from)
		[ $# -ge 2 ] && [ -n "$2" ] || die "$1 wants a directory"
		case $2 in /*) value=$2 ;; *) value=$PWD/$2 ;; esac
		case $1 in --prefix) prefix=${value%/} ;; --destdir) dest=${value%/} ;; --from) from=$value ;; esac
		shift 2
		;;
	--keep-upstream) keep=1; shift ;;
	--uninstall) uninstall=1; shift ;;
	-h | --help) sed -n '3,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
	*) die "unknown argument \"$1\"; see --help" ;;
	esac
done

# find_dir NAME DEFAULT: prints the directory that pkg-config names, if Flux is installed below the prefix; otherwise DEFAULT.
flux_prefix=$(pkg-config --variable=prefix flux-core 2>/dev/null || true)
prefix=${prefix:-${flux_prefix:-/usr/local}}
find_dir() {
	local dir=
	[ "$prefix" != "$flux_prefix" ] || dir=$(pkg-config --variable="$1" flux-core)
	echo "${dir:-$2}"
}
if [ "$prefix" = "$flux_prefix" ] && [ -z "$uninstall" ] && ! pkg-config --atleast-version=0.81.0 flux-core; then
	die "flux-core $(pkg-config --modversion flux-core) is too old: the plugin can't be loaded into one before 0.81.0"
fi
etc=$prefix/etc
[ "$prefix" != /usr ] || etc=/etc
libdir=$(find_dir fluxlibdir "$prefix/lib/flux")
cmddir=$(find_dir fluxcmddir "$prefix/libexec/flux/cmd")
confdir=$(find_dir fluxconfdir "$etc/flux")
data=$prefix/share
manifest=$dest$data/flux-fairshare/installed

so=$libdir/job-manager/plugins/mf_priority.so
theirs=$libdir/flux-fairshare/flux-accounting/mf_priority.so
# The path to which earlier versions moved flux-accounting's plugin. Flux could load it together with our plugin,
# because the file names differ.
earlier=$so.flux-accounting
own=$libdir/flux-fairshare/mf_priority.so

# is_ours FILE: succeeds if the file contains the text that only our plugin logs at load.
is_ours() { grep -qa 'mf_priority: loaded (version' "$1"; }

# remove_listed: removes the files of the list, and directories that become empty.
remove_listed() {
	local file directory
	while IFS= read -r file; do
		# The file may be flux-accounting's plugin, if its package was installed again.
		case $file in
		*/mf_priority.so) [ ! -e "$dest$file" ] || is_ours "$dest$file" || { say "left: $file is not ours any more"; continue; } ;;
		esac
		rm -f "$dest$file"
		directory=$(dirname "$file")
		case $directory in */flux-fairshare) rmdir "$dest$directory" 2>/dev/null || true ;; esac
	done <"$manifest"
	rm -f "$manifest"
	rmdir "$(dirname "$manifest")" 2>/dev/null || true
	restore_upstream
}

# restore_upstream: moves flux-accounting's plugin back to its original path, unless that file exists already.
restore_upstream() {
	if [ -e "$dest$theirs" ] && [ ! -e "$dest$so" ]; then
		mv "$dest$theirs" "$dest$so"
		say "put back: $so (flux-accounting's)"
		rmdir "$dest${theirs%/*}" "$dest${own%/*}" 2>/dev/null || true
	fi
}

# move_earlier_copy: moves flux-accounting's plugin from the place that earlier versions used.
move_earlier_copy() {
	[ -e "$dest$earlier" ] || return 0
	install -d "$dest${theirs%/*}"
	mv -f "$dest$earlier" "$dest$theirs"
}

if [ -n "$uninstall" ]; then
	[ -e "$manifest" ] || die "nothing of this is installed below ${dest}${prefix} ($manifest is not there)"
	move_earlier_copy
	remove_listed
	say 'removed. A plugin that is loaded stays until: flux jobtap remove mf_priority.so'
	exit 0
fi

for file in "$from/libmf_priority.so" "$from/flux-fairshare"; do
	[ -e "$file" ] || die "$file is not there; build first:
  cargo build --release"
done
is_ours "$from/libmf_priority.so" || die "$from/libmf_priority.so is another plugin"

list=()
# install_file MODE FILE PLACE: installs FILE as a new file. Never writes into a file that a broker may have loaded.
install_file() {
	install -D -m "$1" "$2" "$dest$3"
	list+=("$3")
}

place=$so
[ -z "$keep" ] || place=$own
install_file 755 "$from/flux-fairshare" "$cmddir/flux-fairshare"
for page in "$here"/man[17]/*.[17]; do install_file 644 "$page" "$data/man/man${page##*.}/${page##*/}"; done
install_file 644 "$here/completions/flux-fairshare.bash" "$etc/bash_completion.d/flux-fairshare.bash"
install_file 644 "$here/completions/_flux-fairshare" "$data/zsh/site-functions/_flux-fairshare"
install_file 644 "$here/completions/flux-fairshare.fish" "$data/fish/vendor_conf.d/flux-fairshare.fish"
install_file 644 "$here/help.d/fairshare.json" "$data/flux/help.d/fairshare.json"
install_file 755 "$here/rc1.d/02-flux-fairshare" "$confdir/rc1.d/02-flux-fairshare"

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
flux=$prefix/bin/flux
for unit in "$here"/*.service "$here"/*.timer; do
	sed "s|^ExecStart=/usr/bin/flux |ExecStart=$flux |" "$unit" >"$made/${unit##*/}"
	install_file 644 "$made/${unit##*/}" "$prefix/lib/systemd/system/${unit##*/}"
done
loaded=mf_priority.so
[ -z "$keep" ] || loaded=$place
sed "s|load = \"mf_priority.so\"|load = \"$loaded\"|" "$here/flux-fairshare.toml" >"$made/flux-fairshare.toml"
install_file 644 "$made/flux-fairshare.toml" "$data/flux-fairshare/flux-fairshare.toml"

install -d "$(dirname "$manifest")"
printf '%s\n' "$place" "${list[@]}" >"$made/installed"

# The plugins are moved last, after all steps that can fail.
install -D -m 755 "$from/libmf_priority.so" "$dest$place.new"
move_earlier_copy
if [ -z "$keep" ] && [ -e "$dest$so" ] && ! is_ours "$dest$so"; then
	install -d "$dest${theirs%/*}"
	mv -f "$dest$so" "$dest$theirs"
	say "kept aside: $theirs (flux-accounting's)"
	package=$(dpkg -S "$so" 2>/dev/null | cut -d: -f1 || true)
	[ -z "$package" ] ||
		say "note: $so belongs to the package $package; its next upgrade puts its own file there: --keep-upstream avoids that"
fi
mv -f "$dest$place.new" "$dest$place"
# Removes our plugin if an earlier installation put it at the path that this installation does not use.
for other in "$so" "$own"; do
	if [ "$other" != "$place" ] && [ -e "$dest$other" ] && is_ours "$dest$other"; then
		rm -f "$dest$other"
		rmdir "$dest$(dirname "$own")" 2>/dev/null || true
	fi
done
[ -z "$keep" ] || restore_upstream
# Removes files of an earlier version that this version does not have.
if [ -e "$manifest" ]; then
	{ grep -vxFf "$made/installed" "$manifest" || true; } | while IFS= read -r file; do
		case $file in */mf_priority.so) ;; *) rm -f "$dest$file" ;; esac
	done
fi
install -m 644 "$made/installed" "$manifest"

say "installed: $place, $cmddir/flux-fairshare and $((${#list[@]} - 1)) more files, listed in $data/flux-fairshare/installed"
say "to load it now:    flux jobtap load -r .priority-default $loaded && flux fairshare push"
say "in place of flux-accounting's, which is loaded:"
say "                   flux jobtap load -r mf_priority.so $loaded && flux fairshare push"
say "at every boot:     see $data/flux-fairshare/flux-fairshare.toml"
