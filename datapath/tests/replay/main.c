/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ktsn-shaper-replay: reads lines in the format of parse.h from its standard input and prints the actions of
 * the shaper.
 */
#include "parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct replay_parser parser;

int main(void)
{
	char line[256];
	int error = 0;

	for (unsigned int number = 1; !error && fgets(line, sizeof(line), stdin); number++) {
		error = replay_line(&parser, line);
		if (error)
			fprintf(stderr, "ktsn-shaper-replay: line %u: %s: %s", number, strerror(-error),
				line);
	}
	replay_fini(&parser.replay);
	return error || ferror(stdin) || fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
