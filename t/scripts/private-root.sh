#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Runs a command as root on a private copy of this machine, and drops all changes when the command ends.
#
# usage: t/scripts/private-root.sh COMMAND [ARGUMENT...]
#
# In a new mount namespace, / and the source tree are overlays, whose changes stay in memory. Only the working directory is the real one, so results
# can be kept there. Exit status 125: this machine cannot make a private root, which needs root, mount namespaces and overlayfs.
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [ -z "${PRIVATE_ROOT:-}" ]; then
	[ "$(id -u)" = 0 ] && [ -d /mnt ] && unshare --mount true 2>/dev/null || exit 125
	PRIVATE_ROOT=1 exec unshare --mount --propagation private bash "$0" "$@"
fi
unset PRIVATE_ROOT

# over NUMBER DIRECTORY: mounts an overlay of a directory in the same place below the new root.
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
