#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Runs a command as root of a machine that is this one, and of which nothing is left when it ends.
#
# usage: t/scripts/private-root.sh COMMAND [ARGUMENT...]
#
# / is an overlay over this machine's in a mount namespace of its own: what is written goes into memory. So it is with the tree of
# these sources, wherever that lies. The working directory alone is the real one, for what is to be kept. Exit status 125: no
# such place can be made here (that takes root, mount namespaces and overlayfs).
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [ -z "${PRIVATE_ROOT:-}" ]; then
	[ "$(id -u)" = 0 ] && [ -d /mnt ] && unshare --mount true 2>/dev/null || exit 125
	PRIVATE_ROOT=1 exec unshare --mount --propagation private bash "$0" "$@"
fi
unset PRIVATE_ROOT

# over NUMBER DIRECTORY: an overlay over a directory, in its place below the new root.
over() {
	mkdir -p "/mnt/$1/new" "/mnt/$1/work" "/mnt/root$2" &&
		mount -t overlay overlay -o "lowerdir=$2,upperdir=/mnt/$1/new,workdir=/mnt/$1/work" "/mnt/root$2"
}
{
	mount -t tmpfs private /mnt && over 0 / &&
		{ [ -e "/mnt/root$top/etc/install.sh" ] || over 1 "$top"; } &&
		for place in /proc /sys /dev; do mount --rbind "$place" "/mnt/root$place" || exit 125; done &&
		mkdir -p "/mnt/root$PWD" && mount --bind "$PWD" "/mnt/root$PWD"
} 2>/dev/null || exit 125
exec chroot /mnt/root bash -c 'cd "$1" && shift && exec "$@"' bash "$PWD" "$@"
