/* SPDX-License-Identifier: Apache-2.0 */
#include "receive.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXTS = 8, TEXT = 160, SHOWN = 24 };

/* A buffer per line, so that threads and signal handlers need no lock: a line is one call. */
void print_fact(const char *format, ...)
{
	char line[4096];
	va_list list;
	int length;

	va_start(list, format);
	length = vsnprintf(line, sizeof(line) - 1, format, list);
	va_end(list);
	if (length > (int)sizeof(line) - 2)
		length = (int)sizeof(line) - 2;
	line[length] = '\n';
	if (write(STDOUT_FILENO, line, (size_t)length + 1) < 0)
		_exit(1);
}

void require(bool ok, const char *label)
{
	if (ok)
		return;
	fprintf(stderr, "ktsn-test-receive: cannot %s: %s\n", label, strerror(errno));
	exit(1);
}

static char *text_next(void)
{
	static _Thread_local char texts[TEXTS][TEXT];
	static _Thread_local int next;

	return texts[next++ % TEXTS];
}

const char *error_name(int error)
{
	static const struct {
		int error;
		const char *name;
	} names[] = {{EAGAIN, "EAGAIN"},     {EINTR, "EINTR"},       {EBADF, "EBADF"},
		     {EINVAL, "EINVAL"},     {ENOTCONN, "ENOTCONN"}, {ECONNREFUSED, "ECONNREFUSED"},
		     {EMSGSIZE, "EMSGSIZE"}, {ENOTSOCK, "ENOTSOCK"}, {EEXIST, "EEXIST"},
		     {ENOENT, "ENOENT"},     {EFAULT, "EFAULT"},     {EOPNOTSUPP, "EOPNOTSUPP"},
		     {EPERM, "EPERM"},       {ENOMEM, "ENOMEM"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].error == error)
			return names[i].name;
	return strerror(error);
}

const char *result_name(long result)
{
	char *text;

	if (result < 0)
		return error_name(errno);
	text = text_next();
	snprintf(text, TEXT, "%ld", result);
	return text;
}

const char *text_of(const void *data, long bytes)
{
	const uint8_t *at = data;
	char *text = text_next();
	uint32_t sum = 2166136261U;

	if (bytes <= SHOWN) {
		snprintf(text, TEXT, "\"%.*s\"", bytes < 0 ? 0 : (int)bytes, (const char *)data);
		return text;
	}
	for (long i = 0; i < bytes; i++)
		sum = (sum ^ at[i]) * 16777619U;
	snprintf(text, TEXT, "\"%.*s\"... of %ld, sum %08x", SHOWN, (const char *)data, bytes, sum);
	return text;
}

/* In IPv6 notation, with the port. */
static bool wide_of(const void *address, socklen_t bytes, struct sockaddr_in6 *wide)
{
	union socket_address given;

	memset(&given, 0, sizeof(given));
	memset(wide, 0, sizeof(*wide));
	memcpy(&given, address, bytes < sizeof(given) ? bytes : sizeof(given));
	if (given.any.sa_family == AF_INET6 && bytes >= sizeof(given.in6)) {
		wide->sin6_addr = given.in6.sin6_addr;
		wide->sin6_port = given.in6.sin6_port;
		return true;
	}
	memset(wide->sin6_addr.s6_addr + 10, 0xff, 2);
	memcpy(wide->sin6_addr.s6_addr + 12, &given.in.sin_addr, 4);
	wide->sin6_port = given.in.sin_port;
	return given.any.sa_family == AF_INET && bytes >= sizeof(given.in);
}

static bool same(const struct sockaddr_in6 *wanted, union socket_address address, bool with_port)
{
	struct sockaddr_in6 wide;

	return wide_of(&address, address_bytes(), &wide) &&
	       memcmp(&wanted->sin6_addr, &wide.sin6_addr, sizeof(wide.sin6_addr)) == 0 &&
	       (!with_port || wanted->sin6_port == wide.sin6_port);
}

const char *whose(const void *address, socklen_t bytes)
{
	static const char *const names[SOURCES] = {"peer", "peer's other port", "other address"};
	struct sockaddr_in6 wide;

	if (!wide_of(address, bytes, &wide))
		return "no whole address";
	for (int i = 0; i < SOURCES; i++)
		if (same(&wide, source_address(i), true))
			return names[i];
	return same(&wide, own_address(0), false) ? "own" : "unknown";
}

long print_received(const char *label, int fd, int flags)
{
	char data[ROOM];
	union socket_address from;
	socklen_t bytes = sizeof(from);
	long received = recvfrom(fd, data, sizeof(data), flags, &from.any, &bytes);

	if (received < 0)
		print_fact("%s: %s", label, result_name(received));
	else
		print_fact("%s: %ld %s from %s", label, received, text_of(data, received),
			   whose(&from, bytes));
	return received;
}

void print_rest(const char *label, int fd)
{
	while (print_received(label, fd, MSG_DONTWAIT) >= 0)
		;
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

void print_sorted(const char *label, int fd, int count)
{
	char(*texts)[TEXT] = calloc((size_t)count, TEXT);
	char data[ROOM];
	int came;

	wait_at_most(fd, 2000);
	for (came = 0; came < count; came++) {
		union socket_address from;
		socklen_t bytes = sizeof(from);
		long received = recvfrom(fd, data, sizeof(data), 0, &from.any, &bytes);

		if (received < 0)
			break;
		snprintf(texts[came], TEXT, "%s from %s", text_of(data, received), whose(&from, bytes));
	}
	qsort(texts, (size_t)came, TEXT, compare);
	for (int i = 0; i < came; i++)
		print_fact("%s: %s", label, texts[i]);
	if (came < count)
		print_fact("%s: %d of %d, then %s", label, came, count, error_name(errno));
	free(texts);
}
