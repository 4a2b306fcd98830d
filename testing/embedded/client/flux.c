// SPDX-License-Identifier: LGPL-3.0-only
// The demo's libflux-core.so.2: sends the requests of `flux fairshare` to the embedded job manager, which has no broker.
//
// Standard input is a socket. A request consists of a topic and a payload, and a response of an errno and a
// text. Each of these ends with a NUL byte. The command loads the functions below by name, in place of the
// functions of Flux's library.
#define _GNU_SOURCE
#include <errno.h>
#include <langinfo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char DIGITS[] = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

struct message {
	uint32_t tag;
	int errnum;
	char *topic;
	char *text;
	struct message *next;
};

// Flux's struct flux_match.
struct match {
	int typemask;
	uint32_t matchtag;
	const char *topic_glob;
};

// Responses that the command has not read yet.
static struct message *responses;

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

void flux_msg_destroy(struct message *message)
{
	free(message->topic);
	free(message->text);
	free(message);
}

struct message *flux_request_encode(const char *topic, const char *payload)
{
	struct message *message = calloc(1, sizeof *message);
	if (message && (message->topic = strdup(topic)) && (message->text = strdup(payload ? payload : "")))
		return message;
	if (message)
		flux_msg_destroy(message);
	return NULL;
}

uint32_t flux_matchtag_alloc(FILE *handle)
{
	static uint32_t tag;
	(void)handle;
	return ++tag;
}

void flux_matchtag_free(FILE *handle, uint32_t tag)
{
	(void)handle, (void)tag;
}

int flux_msg_set_matchtag(struct message *message, uint32_t tag)
{
	message->tag = tag;
	return 0;
}

int flux_msg_get_matchtag(const struct message *message, uint32_t *tag)
{
	*tag = message->tag;
	return 0;
}

// Sends a request, and appends its response to `responses`.
int flux_send(FILE *handle, const struct message *request, int flags)
{
	(void)flags;
	if (dprintf(fileno(handle), "%s%c%s%c", request->topic, '\0', request->text, '\0') < 0)
		return -1;
	char *errnum = read_text(handle);
	struct message *response = errnum ? calloc(1, sizeof *response) : NULL;
	if (!response || !(response->text = read_text(handle))) {
		free(errnum);
		free(response);
		return -1;
	}
	response->errnum = atoi(errnum);
	response->tag = request->tag;
	free(errnum);
	struct message **last = &responses;
	while (*last)
		last = &(*last)->next;
	*last = response;
	return 0;
}

struct message *flux_recv(FILE *handle, struct match match, int flags)
{
	(void)handle, (void)match, (void)flags;
	struct message *response = responses;
	if (response)
		responses = response->next;
	else
		errno = ENOMSG;
	return response;
}

int flux_response_decode(const struct message *response, const char **topic, const char **text)
{
	(void)topic;
	if (response->errnum) {
		errno = response->errnum;
		return -1;
	}
	if (text)
		*text = *response->text ? response->text : NULL;
	return 0;
}

int flux_response_decode_error(const struct message *response, const char **text)
{
	*text = response->text;
	return response->errnum && *response->text ? 0 : -1;
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
NOT_OFFERED(int, flux_pollfd, -1)
NOT_OFFERED(int, flux_pollevents, -1)
