/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the text of a command-line argument to its value. Pure, but that the name of an interface is looked
 * up; any thread.
 *
 * Each returns 0, -EINVAL when the text is not of that kind, or -ERANGE when the value does not fit. The
 * whole text must be consumed: "10x" is no number. On failure the result is untouched.
 */
#ifndef KTSN_PERF_PARSE_H
#define KTSN_PERF_PARSE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Decimal digits; no sign, so never negative. */
int parse_number(const char *text, int64_t *number);

/* A number followed by ns, us, ms or s, or by nothing, which means ns. */
int parse_duration(const char *text, int64_t *duration_ns);

/* An IP address and a port; family 0: not asked for. */
union parse_endpoint {
	sa_family_t family;
	struct sockaddr any;
	struct sockaddr_in ipv4;
	struct sockaddr_in6 ipv6;
};

/* "A.B.C.D:PORT" or "[IPV6]:PORT", a link-local address with its interface, "[fe80::1%eth0]:PORT"; ":PORT"
 * may be absent, and is then 0, if !port_required. */
int parse_endpoint(const char *text, bool port_required, union parse_endpoint *endpoint);

/* Its length for the kernel. */
socklen_t parse_endpoint_bytes(const union parse_endpoint *endpoint);

/* "tai", "realtime" or "monotonic". */
int parse_clock(const char *text, clockid_t *clock);

/* A point in time: "+DURATION" counts from now, "NS" from the clock's epoch. */
struct parse_start {
	int64_t offset_ns;
	bool from_now;
};
int parse_start(const char *text, struct parse_start *start);

#endif
