// SPDX-License-Identifier: LGPL-3.0-only
// Gives the users of the demo their names, because they have no accounts on this machine. The demo preloads this library into the
// command. DEMO_USERS lists the users: "alice:5001 bob:5002".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Looks up a user by `name`, or by `uid` if `name` is NULL. Returns 1 if the user is in the list and `entry` is filled in.
static int find(const char *name, uid_t uid, struct passwd *entry, char *buffer, size_t size)
{
	const char *list = getenv("DEMO_USERS");
	char listed[64];
	unsigned id;
	int length;
	for (; list && sscanf(list, " %63[^:]:%u%n", listed, &id, &length) == 2; list += length) {
		if ((name ? strcmp(name, listed) != 0 : id != uid) || strlen(listed) >= size)
			continue;
		strcpy(buffer, listed);
		char *empty = buffer + strlen(buffer);
		*entry = (struct passwd){ .pw_name = buffer, .pw_uid = id, .pw_gid = id, .pw_passwd = empty,
			.pw_gecos = empty, .pw_dir = empty, .pw_shell = empty };
		return 1;
	}
	return 0;
}

int getpwuid_r(uid_t uid, struct passwd *entry, char *buffer, size_t size, struct passwd **found)
{
	if (find(NULL, uid, entry, buffer, size)) {
		*found = entry;
		return 0;
	}
	__typeof__(&getpwuid_r) next = (__typeof__(&getpwuid_r))dlsym(RTLD_NEXT, "getpwuid_r");
	return next ? next(uid, entry, buffer, size, found) : ENOSYS;
}

int getpwnam_r(const char *name, struct passwd *entry, char *buffer, size_t size, struct passwd **found)
{
	if (find(name, 0, entry, buffer, size)) {
		*found = entry;
		return 0;
	}
	__typeof__(&getpwnam_r) next = (__typeof__(&getpwnam_r))dlsym(RTLD_NEXT, "getpwnam_r");
	return next ? next(name, entry, buffer, size, found) : ENOSYS;
}
