/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of ktsn-relay. Descriptors 0 to 2 are open in every test.
 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { ARGUMENTS_MAX = 24, TEXT_BYTES = 512 };

static struct relay_options options;
static char said[TEXT_BYTES]; /* on standard error */

/* Of words with one space between. */
static int parse(const char *line)
{
	static char copy[TEXT_BYTES]; /* into which the options point */
	char name[] = "ktsn-relay", *argv[ARGUMENTS_MAX] = {name};
	int argc = 1, kept = dup(STDERR_FILENO), file = memfd_create("stderr", MFD_CLOEXEC), err;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	dup2(file, STDERR_FILENO);
	optind = 0; /* getopt begins anew */
	err = relay_options_parse(argc, argv, &options);
	dup2(kept, STDERR_FILENO);
	memset(said, 0, sizeof(said));
	assert_true(pread(file, said, sizeof(said) - 1, 0) >= 0);
	close(file);
	close(kept);
	return err;
}

#define REQUIRED "--source-fd 0 --packet-fd 1 --socket-dir-fd 2 --socket-name app.sock --counters-fd 0"

static void what_is_given_is_taken(void **state)
{
	(void)state;
	assert_int_equal(parse(REQUIRED), 0);
	assert_int_equal(options.source_fd, 0);
	assert_int_equal(options.packet_fd, 1);
	assert_int_equal(options.socket_dir_fd, 2);
	assert_string_equal(options.socket_name, "app.sock");
	assert_int_equal(options.counters_fd, 0);
	assert_false(options.all);
	assert_int_equal(parse(REQUIRED " --all --heartbeat-fd 1"), 0);
	assert_true(options.all);
	assert_int_equal(options.heartbeat_fd, 1);
}

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *line, *sentence;
	} cases[] = {
		{"", "ktsn-relay: --source-fd is missing; see ktsn-relay --help\n"},
		{"--source-fd 0 --packet-fd 1 --socket-dir-fd 2 --counters-fd 0",
		 "ktsn-relay: --socket-name is missing; see ktsn-relay --help\n"},
		{REQUIRED " --all", "ktsn-relay: --heartbeat-fd is missing; see ktsn-relay --help\n"},
		{"--source-fd x", "ktsn-relay: --source-fd: \"x\" is no number of a file descriptor\n"},
		{"--source-fd -1", "ktsn-relay: --source-fd: \"-1\" is no number of a file descriptor\n"},
		{"--packet-fd 99999999999",
		 "ktsn-relay: --packet-fd: \"99999999999\" is no number of a file descriptor\n"},
		{"--counters-fd 987654",
		 "ktsn-relay: --counters-fd: file descriptor 987654 is not open; pass it on to ktsn-relay\n"},
		{"--socket-name /run/app.sock",
		 "ktsn-relay: --socket-name: \"/run/app.sock\" is no name of a file in a folder\n"},
		{REQUIRED " more", "ktsn-relay: unexpected argument \"more\"; see ktsn-relay --help\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].line), -EINVAL);
		assert_string_equal(said, cases[i].sentence);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_given_is_taken),
		cmocka_unit_test(what_is_wrong_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
