/* SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stddef.h>
#include <string.h>

#include "option_table.h"

_Static_assert(offsetof(struct sockaddr_in, sin_port) == offsetof(struct sockaddr_in6, sin6_port),
	       "parse_endpoint");

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

/* Parses the address between brackets. */
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

/* `*rest` becomes the text after the address: nothing, or the port with its colon. */
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
		/* The port has the same offset in both families. */
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

int parse_start(const char *text, struct parse_start *start)
{
	bool from_now = text[0] == '+';
	int error = parse_duration(from_now ? text + 1 : text, &start->offset_ns);

	if (!error)
		start->from_now = from_now;
	return error;
}

int parse_endpoint_option(const char *text, void *field)
{
	return parse_endpoint(text, true, field);
}

int parse_address_option(const char *text, void *field)
{
	return parse_endpoint(text, false, field);
}

int parse_start_option(const char *text, void *field)
{
	return parse_start(text, field);
}
