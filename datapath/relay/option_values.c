/* SPDX-License-Identifier: Apache-2.0 */
#include "option_values.h"

#include "log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number_parse(const char *text, int *number)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || *end || errno || value > INT_MAX)
		return -EINVAL;
	*number = (int)value;
	return 0;
}

int option_fd_parse(const char *name, const char *text, int *fd)
{
	if (number_parse(text, fd)) {
		fprintf(stderr, "%s: --%s: \"%s\" is no number of a file descriptor\n", relay_program, name,
			text);
		return -EINVAL;
	}
	if (fcntl(*fd, F_GETFD) < 0) {
		fprintf(stderr, "%s: --%s: file descriptor %d is not open; pass it on to %s\n", relay_program,
			name, *fd, relay_program);
		return -EINVAL;
	}
	return 0;
}

int option_name_parse(const char *text, const char **name)
{
	if (!*text || strchr(text, '/')) {
		fprintf(stderr, "%s: --socket-name: \"%s\" is no name of a file in a folder\n", relay_program,
			text);
		return -EINVAL;
	}
	*name = text;
	return 0;
}
