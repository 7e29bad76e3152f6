/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsers of addresses and start times on the command line. Pure, except that names of interfaces are looked
 * up; any thread.
 *
 * Each returns 0, -EINVAL when the text is malformed, or -ERANGE when the value does not fit. On failure the
 * result is untouched.
 */
#ifndef KTSN_PERF_PARSE_H
#define KTSN_PERF_PARSE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/* An IP address and a port; family 0: none. */
union parse_endpoint {
	sa_family_t family;
	struct sockaddr any;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
};

/* Parses "A.B.C.D:PORT" or "[IPV6]:PORT"; link-local addresses have an interface, "[fe80::1%eth0]:PORT".
 * Without port_required, ":PORT" may be absent; the port is 0 then. */
int parse_endpoint(const char *text, bool port_required, union parse_endpoint *endpoint);

/* Returns the length of the address for the kernel. */
socklen_t parse_endpoint_bytes(const union parse_endpoint *endpoint);

/* A point in time: "+DURATION" counts from now, "NS" from the clock's epoch. */
struct parse_start {
	int64_t offset_ns;
	bool from_now;
};
int parse_start(const char *text, struct parse_start *start);

/* Parsers for option_spec: an endpoint with its port, one with an optional port, and a start. */
int parse_endpoint_option(const char *text, void *field);
int parse_address_option(const char *text, void *field);
int parse_start_option(const char *text, void *field);

#endif
