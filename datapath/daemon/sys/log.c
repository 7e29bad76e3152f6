/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include "clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

/* Whether a message may be written now; counts it as suppressed if not. */
static bool log_limit_take(struct log_limit *limit, int64_t now_ns)
{
	const int64_t full_ns = (int64_t)LOG_LIMIT_BURST * LOG_LIMIT_INTERVAL_NS;

	if (limit->empty_until_ns < now_ns - full_ns)
		limit->empty_until_ns = now_ns - full_ns;
	if (limit->empty_until_ns > now_ns - LOG_LIMIT_INTERVAL_NS) {
		limit->suppressed++;
		return false;
	}
	limit->empty_until_ns += LOG_LIMIT_INTERVAL_NS;
	return true;
}

/* Whether the bucket is full again: nothing was written for as long as that takes. */
static bool log_limit_full(const struct log_limit *limit, int64_t now_ns)
{
	return limit->empty_until_ns <= now_ns - (int64_t)LOG_LIMIT_BURST * LOG_LIMIT_INTERVAL_NS;
}

enum { TICK_MS = 500 };

static void standard_error_write(enum log_level level, const char *line)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "ktsnd: %s\n", line);
	else
		fprintf(stderr, "<%d>ktsnd: %s\n", (int)level, line);
}

static int64_t monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static const struct log_output standard_error = {standard_error_write, monotonic_ns};
static const struct log_output *output = &standard_error;
static enum log_level highest = LOG_LEVEL_INFO;
static struct log_site *suppressing; /* sites with suppressed messages that were not reported yet */

void log_output_set(const struct log_output *other)
{
	output = other ? other : &standard_error;
}

void log_level_set(enum log_level level)
{
	highest = level;
}

static void suppressed_log(struct log_site *site)
{
	char line[256];

	if (!site->limit.suppressed)
		return;
	snprintf(line, sizeof(line), "%" PRIu64 " messages suppressed, of the kind \"%s\"",
		 site->limit.suppressed, site->format);
	output->write(site->level, line);
	site->limit.suppressed = 0;
}

void log_at(struct log_site *site, enum log_level level, const char *format, ...)
{
	char line[1024];
	va_list arguments;

	if (level > highest)
		return;
	site->level = level;
	site->format = format;
	if (!log_limit_take(&site->limit, output->now_ns())) {
		if (!site->listed) {
			site->next = suppressing;
			suppressing = site;
		}
		site->listed = 1;
		return;
	}
	suppressed_log(site);
	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	output->write(level, line);
}

int log_tick(void)
{
	int64_t now_ns = suppressing ? output->now_ns() : 0;
	struct log_site **at = &suppressing;

	while (*at) {
		struct log_site *site = *at;

		if (site->limit.suppressed && !log_limit_full(&site->limit, now_ns)) {
			at = &site->next;
			continue;
		}
		suppressed_log(site);
		site->listed = 0;
		*at = site->next;
	}
	return suppressing ? TICK_MS : -1;
}

/* ---- refused requests ---- */

int refuse(struct refusal *refusal, const char *field, const char *format, ...)
{
	va_list arguments;

	snprintf(refusal->field, sizeof(refusal->field), "%s", field);
	va_start(arguments, format);
	vsnprintf(refusal->message, sizeof(refusal->message), format, arguments);
	va_end(arguments);
	return -EINVAL;
}
