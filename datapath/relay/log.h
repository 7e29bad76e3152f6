/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines on standard error. Each place in the code writes one line a second, and three at once; its next
 * line counts those that were suppressed.
 */
#ifndef KTSN_RELAY_LOG_H
#define KTSN_RELAY_LOG_H

#include <stdint.h>

/* relay_program is the prefix of each line; set before the first one. */
extern const char *relay_program;

struct log_site {
	int64_t next_ns; /* CLOCK_MONOTONIC: one a second ends there */
	uint64_t suppressed;
};

__attribute__((format(printf, 2, 3))) void relay_log_at(struct log_site *site, const char *format, ...);

#define relay_log(...)                                                                                       \
	do {                                                                                                 \
		static struct log_site log_site_here;                                                        \
		relay_log_at(&log_site_here, __VA_ARGS__);                                                   \
	} while (0)

#endif
