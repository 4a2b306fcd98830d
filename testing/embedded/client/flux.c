// SPDX-License-Identifier: LGPL-3.0-only
// The demo's libflux-core.so.2: sends the requests of `flux fairshare` to the embedded job manager, which has no broker.
//
// Standard input is a socket. A request is its topic and its payload, a response is its errno and its text; each of the four ends
// with a NUL byte. The command loads the functions below by name, as those of Flux's library.
#define _GNU_SOURCE
#include <errno.h>
#include <langinfo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char DIGITS[] = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

struct future {
	int errnum;
	char *text;
};

FILE *flux_open_ex(const char *uri, int flags, char *error)
{
	(void)uri, (void)flags, (void)error;
	int socket = dup(STDIN_FILENO);
	FILE *handle = socket < 0 ? NULL : fdopen(socket, "r");
	if (!handle && socket >= 0)
		close(socket);
	return handle;
}

void flux_close(FILE *handle)
{
	fclose(handle);
}

// Reads a text up to its NUL byte.
static char *read_text(FILE *handle)
{
	char *text = NULL;
	size_t size = 0;
	if (getdelim(&text, &size, '\0', handle) > 0)
		return text;
	free(text);
	errno = ECONNRESET;
	return NULL;
}

void flux_future_destroy(struct future *future)
{
	free(future->text);
	free(future);
}

struct future *flux_rpc(FILE *handle, const char *topic, const char *payload, uint32_t rank, int flags)
{
	(void)rank, (void)flags;
	if (dprintf(fileno(handle), "%s%c%s%c", topic, '\0', payload ? payload : "", '\0') < 0)
		return NULL;
	struct future *future = calloc(1, sizeof *future);
	char *errnum = future ? read_text(handle) : NULL;
	if (!errnum || !(future->text = read_text(handle))) {
		free(errnum);
		free(future);
		return NULL;
	}
	future->errnum = atoi(errnum);
	free(errnum);
	return future;
}

int flux_rpc_get(struct future *future, const char **text)
{
	if (future->errnum) {
		errno = future->errnum;
		return -1;
	}
	*text = *future->text ? future->text : NULL;
	return 0;
}

const char *flux_future_error_string(struct future *future)
{
	return future->errnum ? future->text : NULL;
}

// Parses a job id in decimal or F58 form.
int flux_job_id_parse(const char *text, uint64_t *id)
{
	const char *digits = strncmp(text, "ƒ", strlen("ƒ")) == 0 ? text + strlen("ƒ") : text + (*text == 'f');
	const unsigned base = digits == text ? 10 : 58;
	uint64_t value = 0;
	errno = EINVAL;
	if (!*digits)
		return -1;
	for (; *digits; digits++) {
		const char *found = strchr(DIGITS, *digits);
		uint64_t digit = base == 58 ? (uint64_t)(found - DIGITS) : (uint64_t)(*digits - '0');
		if ((base == 58 && !found) || digit >= base || __builtin_mul_overflow(value, base, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return -1;
	}
	*id = value;
	return 0;
}

// Formats a job id in F58 form, with the prefix "ƒ" if the locale has this letter.
int flux_job_id_encode(uint64_t id, const char *type, char *buffer, size_t size)
{
	(void)type;
	char digits[16];
	char *first = digits + sizeof digits - 1;
	*first = '\0';
	do {
		*--first = DIGITS[id % 58];
		id /= 58;
	} while (id);
	const char *prefix = strcmp(nl_langinfo(CODESET), "UTF-8") == 0 ? "ƒ" : "f";
	int length = snprintf(buffer, size, "%s%s", prefix, first);
	return length < 0 || (size_t)length >= size ? -1 : 0;
}

// The commands of the demo do not need these functions, but the loader looks up all names.
#define NOT_OFFERED(type, name, failure)                                                                                        \
	type name(void)                                                                                                          \
	{                                                                                                                        \
		errno = ENOSYS;                                                                                                  \
		return failure;                                                                                                  \
	}
NOT_OFFERED(int, flux_opt_set, -1)
NOT_OFFERED(const char *, flux_attr_get, NULL)
NOT_OFFERED(uint32_t, flux_matchtag_alloc, 0)
NOT_OFFERED(void *, flux_request_encode, NULL)
NOT_OFFERED(int, flux_msg_set_matchtag, -1)
NOT_OFFERED(int, flux_msg_get_matchtag, -1)
NOT_OFFERED(int, flux_send, -1)
NOT_OFFERED(void *, flux_recv, NULL)
NOT_OFFERED(int, flux_pollfd, -1)
NOT_OFFERED(int, flux_pollevents, -1)
NOT_OFFERED(int, flux_response_decode, -1)
NOT_OFFERED(int, flux_response_decode_error, -1)

void flux_matchtag_free(void *handle, uint32_t tag)
{
	(void)handle, (void)tag;
}

void flux_msg_destroy(void *message)
{
	(void)message;
}
