/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include "clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 512, BURST = 3 };

#define INTERVAL_NS INT64_C(1000000000)

const char *relay_program = "ktsn-relay";

/* Writes the line with one call, so that lines of several programs stay whole. */
static void line_write(const char *line)
{
	(void)!write(STDERR_FILENO, line, strlen(line));
}

/* Returns whether the line may be written now; else it counts as suppressed. */
static bool may_write(struct log_site *site, int64_t now_ns)
{
	if (site->next_ns < now_ns)
		site->next_ns = now_ns;
	if (site->next_ns - now_ns >= BURST * INTERVAL_NS) {
		site->suppressed++;
		return false;
	}
	site->next_ns += INTERVAL_NS;
	return true;
}

void relay_log_at(struct log_site *site, const char *format, ...)
{
	int64_t now_ns = monotonic_ns();
	char text[LINE_BYTES], line[LINE_BYTES + 96];
	va_list arguments;

	if (!may_write(site, now_ns))
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (site->suppressed)
		snprintf(line, sizeof(line), "%s: %s (and %" PRIu64 " times more since)\n", relay_program,
			 text, site->suppressed);
	else
		snprintf(line, sizeof(line), "%s: %s\n", relay_program, text);
	line_write(line);
	site->suppressed = 0;
}
