/* SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "timing.h"

/* strtoll() alone would also take leading blanks and signs. */
static int leading_number(const char *text, int64_t *number, const char **rest)
{
	long long parsed;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	parsed = strtoll(text, &end, 10);
	if (errno)
		return -errno;
	*number = parsed;
	*rest = end;
	return 0;
}

int parse_number(const char *text, int64_t *number)
{
	const char *rest;
	int64_t parsed;
	int error = leading_number(text, &parsed, &rest);

	if (error)
		return error;
	if (*rest)
		return -EINVAL;
	*number = parsed;
	return 0;
}

/* 0 for an unknown suffix. */
static int64_t suffix_ns(const char *suffix)
{
	static const struct {
		const char *suffix;
		int64_t ns;
	} units[] = {{"", 1}, {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", TIMING_NS_PER_S}};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (!strcmp(suffix, units[i].suffix))
			return units[i].ns;
	}
	return 0;
}

int parse_duration(const char *text, int64_t *duration_ns)
{
	const char *suffix;
	int64_t number, product_ns, unit_ns;
	int error = leading_number(text, &number, &suffix);

	if (error)
		return error;
	unit_ns = suffix_ns(suffix);
	if (unit_ns == 0)
		return -EINVAL;
	if (__builtin_mul_overflow(number, unit_ns, &product_ns))
		return -ERANGE;
	*duration_ns = product_ns;
	return 0;
}

static int parse_port(const char *text, in_port_t *port_be)
{
	int64_t port;
	int error = parse_number(text, &port);

	if (error)
		return error;
	if (port > UINT16_MAX)
		return -ERANGE;
	*port_be = htons((uint16_t)port);
	return 0;
}

int parse_endpoint(const char *text, bool port_required, struct sockaddr_in *endpoint)
{
	const char *colon = strchr(text, ':');
	size_t address_chars = colon ? (size_t)(colon - text) : strlen(text);
	struct sockaddr_in parsed = {.sin_family = AF_INET};
	char address[INET_ADDRSTRLEN];
	int error = 0;

	if ((!colon && port_required) || address_chars >= sizeof(address))
		return -EINVAL;
	memcpy(address, text, address_chars);
	address[address_chars] = '\0';
	if (inet_pton(AF_INET, address, &parsed.sin_addr) != 1)
		return -EINVAL;
	if (colon)
		error = parse_port(colon + 1, &parsed.sin_port);
	if (!error)
		*endpoint = parsed;
	return error;
}

int parse_clock(const char *text, clockid_t *clock)
{
	static const clockid_t clocks[] = {CLOCK_TAI, CLOCK_REALTIME, CLOCK_MONOTONIC};

	for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
		if (!strcmp(text, timing_clock_name(clocks[i]))) {
			*clock = clocks[i];
			return 0;
		}
	}
	return -EINVAL;
}

int parse_start(const char *text, struct parse_start *start)
{
	bool from_now = text[0] == '+';
	int error = parse_duration(from_now ? text + 1 : text, &start->offset_ns);

	if (!error)
		start->from_now = from_now;
	return error;
}
