#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Installs what was built, and takes it away again.
#
# usage: etc/install.sh [--prefix DIR] [--destdir DIR] [--from DIR] [--keep-upstream] [--uninstall]
#   --prefix DIR     where Flux is (default: that of pkg-config's flux-core, else /usr/local)
#   --destdir DIR    put everything below DIR, for packages and trials
#   --from DIR       where the plugin and the command were built (default: target/release)
#   --keep-upstream  leave flux-accounting's mf_priority.so where it is; ours goes into a directory of its own, and is
#                    loaded by its path
#   --uninstall      remove what this installed, and put flux-accounting's plugin back
#
# Without --keep-upstream flux-accounting's plugin is kept as flux-fairshare/flux-accounting/mf_priority.so in Flux's library
# directory. There Flux does not look for plugins, and by its name it cannot be loaded along with ours. An upgrade of its package
# would put it back in our place: on such a machine --keep-upstream is the safe way.
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

# of_flux NAME DEFAULT: a directory of the Flux that is installed below the prefix, if it is this one.
flux_prefix=$(pkg-config --variable=prefix flux-core 2>/dev/null || true)
prefix=${prefix:-${flux_prefix:-/usr/local}}
of_flux() {
	local told=
	[ "$prefix" != "$flux_prefix" ] || told=$(pkg-config --variable="$1" flux-core)
	echo "${told:-$2}"
}
if [ "$prefix" = "$flux_prefix" ] && [ -z "$uninstall" ] && ! pkg-config --atleast-version=0.81.0 flux-core; then
	die "flux-core $(pkg-config --modversion flux-core) is too old: the plugin can't be loaded into one before 0.81.0"
fi
etc=$prefix/etc
[ "$prefix" != /usr ] || etc=/etc
libdir=$(of_flux fluxlibdir "$prefix/lib/flux")
cmddir=$(of_flux fluxcmddir "$prefix/libexec/flux/cmd")
confdir=$(of_flux fluxconfdir "$etc/flux")
data=$prefix/share
manifest=$dest$data/flux-fairshare/installed

so=$libdir/job-manager/plugins/mf_priority.so
theirs=$libdir/flux-fairshare/flux-accounting/mf_priority.so
# Where earlier versions kept it. From there Flux loads it along with ours.
earlier=$so.flux-accounting
own=$libdir/flux-fairshare/mf_priority.so

# is_ours FILE: it says at load what only ours says.
is_ours() { grep -qa 'mf_priority: loaded (version' "$1"; }

# forget: removes what is on the list, and directories that are left empty.
forget() {
	local file directory
	while IFS= read -r file; do
		# Flux-accounting may have been installed anew in its place.
		case $file in
		*/mf_priority.so) [ ! -e "$dest$file" ] || is_ours "$dest$file" || { say "left: $file is not ours any more"; continue; } ;;
		esac
		rm -f "$dest$file"
		directory=$(dirname "$file")
		case $directory in */flux-fairshare) rmdir "$dest$directory" 2>/dev/null || true ;; esac
	done <"$manifest"
	rm -f "$manifest"
	rmdir "$(dirname "$manifest")" 2>/dev/null || true
	put_back
}

# put_back: flux-accounting's plugin goes where it was, unless there is one.
put_back() {
	if [ -e "$dest$theirs" ] && [ ! -e "$dest$so" ]; then
		mv "$dest$theirs" "$dest$so"
		say "put back: $so (flux-accounting's)"
		rmdir "$dest${theirs%/*}" "$dest${own%/*}" 2>/dev/null || true
	fi
}

# move_earlier: takes over what an earlier version kept.
move_earlier() {
	[ -e "$dest$earlier" ] || return 0
	install -d "$dest${theirs%/*}"
	mv -f "$dest$earlier" "$dest$theirs"
}

if [ -n "$uninstall" ]; then
	[ -e "$manifest" ] || die "nothing of this is installed below ${dest}${prefix} ($manifest is not there)"
	move_earlier
	forget
	say 'removed. A plugin that is loaded stays until: flux jobtap remove mf_priority.so'
	exit 0
fi

for file in "$from/libmf_priority.so" "$from/flux-fairshare"; do
	[ -e "$file" ] || die "$file is not there; build first:
  cargo build --release"
done
is_ours "$from/libmf_priority.so" || die "$from/libmf_priority.so is another plugin"

list=()
# put MODE FILE PLACE: a new file each time, never written into one that a broker has loaded.
put() {
	install -D -m "$1" "$2" "$dest$3"
	list+=("$3")
}

place=$so
[ -z "$keep" ] || place=$own
put 755 "$from/flux-fairshare" "$cmddir/flux-fairshare"
for page in "$here"/man[17]/*.[17]; do put 644 "$page" "$data/man/man${page##*.}/${page##*/}"; done
put 644 "$here/completions/flux-fairshare.bash" "$etc/bash_completion.d/flux-fairshare.bash"
put 644 "$here/completions/_flux-fairshare" "$data/zsh/site-functions/_flux-fairshare"
put 644 "$here/completions/flux-fairshare.fish" "$data/fish/vendor_conf.d/flux-fairshare.fish"
put 755 "$here/rc1.d/02-flux-fairshare" "$confdir/rc1.d/02-flux-fairshare"

made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
flux=$prefix/bin/flux
for unit in "$here"/*.service "$here"/*.timer; do
	sed "s|^ExecStart=/usr/bin/flux |ExecStart=$flux |" "$unit" >"$made/${unit##*/}"
	put 644 "$made/${unit##*/}" "$prefix/lib/systemd/system/${unit##*/}"
done
loaded=mf_priority.so
[ -z "$keep" ] || loaded=$place
sed "s|load = \"mf_priority.so\"|load = \"$loaded\"|" "$here/flux-fairshare.toml" >"$made/flux-fairshare.toml"
put 644 "$made/flux-fairshare.toml" "$data/flux-fairshare/flux-fairshare.toml"

install -d "$(dirname "$manifest")"
printf '%s\n' "$place" "${list[@]}" >"$made/installed"

# The plugins change places last, when nothing else can fail any more.
install -D -m 755 "$from/libmf_priority.so" "$dest$place.new"
move_earlier
if [ -z "$keep" ] && [ -e "$dest$so" ] && ! is_ours "$dest$so"; then
	install -d "$dest${theirs%/*}"
	mv -f "$dest$so" "$dest$theirs"
	say "kept aside: $theirs (flux-accounting's)"
	package=$(dpkg -S "$so" 2>/dev/null | cut -d: -f1 || true)
	[ -z "$package" ] ||
		say "note: $so belongs to the package $package; its next upgrade puts its own file there: --keep-upstream avoids that"
fi
mv -f "$dest$place.new" "$dest$place"
# One in the other of the two places is an earlier version of ours.
for other in "$so" "$own"; do
	if [ "$other" != "$place" ] && [ -e "$dest$other" ] && is_ours "$dest$other"; then
		rm -f "$dest$other"
		rmdir "$dest$(dirname "$own")" 2>/dev/null || true
	fi
done
[ -z "$keep" ] || put_back
# What an earlier version had and this one has not goes.
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
