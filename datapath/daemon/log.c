/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static enum log_level highest = LOG_LEVEL_INFO;

void log_level_set(enum log_level level)
{
	highest = level;
}

static void write_line(enum log_level level, const char *format, va_list arguments)
{
	char line[1024];

	if (level > highest)
		return;
	vsnprintf(line, sizeof(line), format, arguments);
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "ktsnd: %s\n", line);
	else
		fprintf(stderr, "<%d>ktsnd: %s\n", (int)level, line);
}

#define DEFINE(name, level)                                                                                  \
	void name(const char *format, ...)                                                                   \
	{                                                                                                    \
		va_list arguments;                                                                           \
                                                                                                             \
		va_start(arguments, format);                                                                 \
		write_line(level, format, arguments);                                                        \
		va_end(arguments);                                                                           \
	}

DEFINE(log_error, LOG_LEVEL_ERROR)
DEFINE(log_warning, LOG_LEVEL_WARNING)
DEFINE(log_info, LOG_LEVEL_INFO)
DEFINE(log_debug, LOG_LEVEL_DEBUG)
