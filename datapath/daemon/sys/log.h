/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the operator, on standard error, each with its level as systemd reads it (sd-daemon(3)) when
 * standard error is not a terminal. The path of a packet in the loop thread never logs: it counts.
 *
 * Each place in the code may log ten messages a second, and twenty at once (struct log_limit), so that
 * applications and clients cannot fill the log. Suppressed messages are counted and reported later.
 *
 * Control thread, or before there are others. Part of sys: below all other modules.
 */
#ifndef KTSN_SYS_LOG_H
#define KTSN_SYS_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum { LOG_LIMIT_BURST = 20, LOG_LIMIT_INTERVAL_NS = 100000000 };

/*
 * A token bucket: each message takes one token, ten are added a second, and it holds twenty. All zero at
 * first: the bucket is full.
 */
struct log_limit {
	int64_t empty_until_ns; /* the bucket fills from here on */
	uint64_t suppressed;    /* messages since the last one that was allowed */
};

enum log_level { LOG_LEVEL_ERROR = 3, LOG_LEVEL_WARNING = 4, LOG_LEVEL_INFO = 6, LOG_LEVEL_DEBUG = 7 };

/* A place in the code that logs. */
struct log_site {
	struct log_limit limit;
	enum log_level level;
	const char *format; /* describes suppressed messages */
	struct log_site *next;
	int listed; /* in the list of sites with suppressed messages */
};

/* The destination of lines and the clock, replaced by tests. NULL: standard error and CLOCK_MONOTONIC. */
struct log_output {
	void (*write)(enum log_level level, const char *line);
	int64_t (*now_ns)(void);
};
void log_output_set(const struct log_output *output);

/* Messages of a higher number than `level` are not written. */
void log_level_set(enum log_level level);

/* Reports suppressed messages of places that have been quiet since. Returns ms until it must be called again,
 * or -1. */
int log_tick(void);

__attribute__((format(printf, 3, 4))) void log_at(struct log_site *site, enum log_level level,
						  const char *format, ...);

#define LOG_AT(level, ...)                                                                                   \
	do {                                                                                                 \
		static struct log_site log_site_here;                                                        \
		log_at(&log_site_here, level, __VA_ARGS__);                                                  \
	} while (0)

#define log_error(...)   LOG_AT(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) LOG_AT(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...)    LOG_AT(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...)   LOG_AT(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* ---- refused requests ---- */

enum { REFUSAL_FIELD_CHARACTERS = 127 };

struct refusal {
	char field[REFUSAL_FIELD_CHARACTERS + 1]; /* path of the field; "" when no single field is at fault */
	char message[384];
};

/* Fills in the refusal and returns -EINVAL. */
__attribute__((format(printf, 3, 4))) int refuse(struct refusal *refusal, const char *field,
						 const char *format, ...);

#endif
