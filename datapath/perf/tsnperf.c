/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tsnperf: an ordinary application with timed UDP traffic that measures a network. It uses SO_TXTIME, knows
 * nothing of KuberneTSN, and runs on any Linux.
 */
#include <stdio.h>
#include <string.h>

#include "listener.h"
#include "process.h"
#include "talker.h"
#include "version.h"

static const struct subcommand {
	const char *name;
	int (*run)(int argc, char **argv); /* argv[0] is the name; returns the exit status */
	const char *description;
} subcommands[] = {
	{"talker", talker_main, "send one message per cycle, each with its transmit time"},
	{"listener", listener_main,
	 "receive messages, and record when each arrived and whether it is intact"},
};

static void print_usage(FILE *file)
{
	fprintf(file, "Usage: tsnperf <command> [options]\n\nCommands:\n");
	for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++)
		fprintf(file, "  %-10s %s\n", subcommands[i].name, subcommands[i].description);
	fprintf(file, "\nOptions:\n"
		      "  --help     this text; `tsnperf <command> --help` for the options of a command\n"
		      "  --version  the version\n");
}

static const struct subcommand *find_subcommand(const char *name)
{
	for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++) {
		if (!strcmp(name, subcommands[i].name))
			return &subcommands[i];
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	const struct subcommand *subcommand = find_subcommand(word);

	if (subcommand)
		return subcommand->run(argc - 1, argv + 1);
	if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
		print_usage(stdout);
		return EXIT_OK;
	}
	if (!strcmp(word, "--version")) {
		puts("tsnperf " KTSN_VERSION_TEXT);
		return EXIT_OK;
	}
	if (argc < 2) {
		print_usage(stderr);
		return EXIT_USAGE;
	}
	fprintf(stderr,
		"tsnperf: \"%s\" is not a command; accepted are talker, listener, --help and --version.\n",
		word);
	return EXIT_USAGE;
}
