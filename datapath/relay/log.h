/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines to the operator, on standard error. Each place in the code writes one a second, and three at once;
 * what it left out is counted with its next line.
 */
#ifndef KTSN_RELAY_LOG_H
#define KTSN_RELAY_LOG_H

#include <stdint.h>

/* In front of each line; set before anything is logged. */
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
