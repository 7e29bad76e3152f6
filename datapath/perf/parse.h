/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the text of a command-line argument to its value. Pure; any thread.
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

/* "A.B.C.D:PORT"; ":PORT" may be absent, and is then 0, if !port_required. */
int parse_endpoint(const char *text, bool port_required, struct sockaddr_in *endpoint);

/* "tai", "realtime" or "monotonic". */
int parse_clock(const char *text, clockid_t *clock);

/* A point in time: "+DURATION" counts from now, "NS" from the clock's epoch. */
struct parse_start {
	int64_t offset_ns;
	bool from_now;
};
int parse_start(const char *text, struct parse_start *start);

#endif
