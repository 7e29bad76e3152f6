/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of ktsn-relay. Descriptors 0 to 2 are open in every test.
 */
#include "options.h"

#include <errno.h>

#include "unit_test.h"

#include "command_line.h"

static struct relay_options options;
static char message[TEXT_BYTES]; /* on standard error */

static int parse(const char *line)
{
	char *argv[ARGUMENTS_MAX + 1];
	struct capture capture;
	int argc = command_line_split("ktsn-relay", line, argv), err;

	capture_begin(&capture, STDERR_FILENO);
	err = relay_options_parse(argc, argv, &options);
	capture_end(&capture, message);
	return err;
}

#define REQUIRED "--source-fd 0 --packet-fd 1 --socket-dir-fd 2 --socket-name app.sock --counters-fd 0"

TEST(options_are_stored)
{
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

TEST(bad_lines_get_a_message)
{
	static const struct {
		const char *line, *wanted;
	} cases[] = {
		{"", "ktsn-relay: --source-fd is missing; see ktsn-relay --help\n"},
		{"--source-fd 0 --packet-fd 1 --socket-dir-fd 2 --counters-fd 0",
		 "ktsn-relay: --socket-name is missing; see ktsn-relay --help\n"},
		{REQUIRED " --all", "ktsn-relay: --heartbeat-fd is missing; see ktsn-relay --help\n"},
		{"--source-fd x",
		 "ktsn-relay: --source-fd x: must be the number of an open file descriptor\n"},
		{"--source-fd -1",
		 "ktsn-relay: --source-fd -1: must be the number of an open file descriptor\n"},
		{"--packet-fd 99999999999",
		 "ktsn-relay: --packet-fd 99999999999: must be the number of an open file descriptor\n"},
		{"--counters-fd 987654",
		 "ktsn-relay: --counters-fd 987654: must be the number of an open file descriptor\n"},
		{"--socket-name /run/app.sock",
		 "ktsn-relay: --socket-name /run/app.sock: must be the name of a file, without a slash\n"},
		{REQUIRED " more", "ktsn-relay: more: not an option; see ktsn-relay --help\n"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse(cases[i].line), -EINVAL);
		assert_string_equal(message, cases[i].wanted);
	}
}
