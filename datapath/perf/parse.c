/* SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "timing.h"

_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
	       "parse_endpoint");

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
	/* NOLINTNEXTLINE(clang-analyzer-core.*): set where there is no error */
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
	/* NOLINTNEXTLINE(clang-analyzer-core.*): set where there is no error */
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

/* What stands in brackets. */
static int parse_ipv6(const char *text, struct sockaddr_in6 *address)
{
	char copy[INET6_ADDRSTRLEN + IF_NAMESIZE];
	char *interface;

	if (strlen(text) >= sizeof(copy))
		return -EINVAL;
	strcpy(copy, text);
	interface = strchr(copy, '%');
	if (interface) {
		*interface++ = '\0';
		address->sin6_scope_id = if_nametoindex(interface);
		if (!address->sin6_scope_id)
			return -EINVAL;
	}
	address->sin6_family = AF_INET6;
	return inet_pton(AF_INET6, copy, &address->sin6_addr) == 1 ? 0 : -EINVAL;
}

static int parse_ipv4(const char *text, struct sockaddr_in *address)
{
	address->sin_family = AF_INET;
	return inet_pton(AF_INET, text, &address->sin_addr) == 1 ? 0 : -EINVAL;
}

/* `*rest` is what follows the address: nothing, or the port with its colon. */
static int parse_address(const char *text, union parse_endpoint *endpoint, const char **rest)
{
	bool ipv6 = text[0] == '[';
	const char *end = text + strcspn(text, ipv6 ? "]" : ":");
	char address[INET6_ADDRSTRLEN + IF_NAMESIZE];
	size_t chars;

	if (ipv6 && *end != ']')
		return -EINVAL;
	text += ipv6;
	chars = (size_t)(end - text);
	*rest = end + ipv6;
	if (chars >= sizeof(address))
		return -EINVAL;
	memcpy(address, text, chars);
	address[chars] = '\0';
	return ipv6 ? parse_ipv6(address, &endpoint->ipv6) : parse_ipv4(address, &endpoint->ipv4);
}

int parse_endpoint(const char *text, bool port_required, union parse_endpoint *endpoint)
{
	union parse_endpoint parsed;
	const char *rest;
	int error;

	memset(&parsed, 0, sizeof(parsed));
	error = parse_address(text, &parsed, &rest);
	if (error)
		return error;
	if (!*rest && port_required)
		return -EINVAL;
	if (*rest) {
		/* At the same place in both. */
		error = *rest == ':' ? parse_port(rest + 1, &parsed.ipv4.sin_port) : -EINVAL;
	}
	if (!error)
		*endpoint = parsed;
	return error;
}

socklen_t parse_endpoint_bytes(const union parse_endpoint *endpoint)
{
	return endpoint->family == AF_INET ? sizeof(endpoint->ipv4) : sizeof(endpoint->ipv6);
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
