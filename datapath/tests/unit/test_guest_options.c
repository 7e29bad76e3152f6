/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of ktsn-relay-vhost. Descriptors 0 to 2 are open in every test.
 */
#include "options_vhost.h"

#include "unit_test.h"

#include "command_line.h"

static struct vhost_options options;
static char message[TEXT_BYTES]; /* on standard error */

static int parse(const char *line)
{
	char *argv[ARGUMENTS_MAX + 1];
	struct capture capture;
	int argc = command_line_split("ktsn-relay-vhost", line, argv), err;

	capture_begin(&capture, STDERR_FILENO);
	err = vhost_options_parse(argc, argv, &options);
	capture_end(&capture, message);
	return err;
}

#define REQUIRED                                                                                             \
	"--vhost-socket /run/v.sock --packet-fd 0 --link-fd 1 --socket-dir-fd 2 --socket-name app.sock "     \
	"--counters-fd 0"

TEST(options_are_stored)
{
	assert_int_equal(parse(REQUIRED), 0);
	assert_string_equal(options.vhost_socket, "/run/v.sock");
	assert_int_equal(options.link_fd, 1);
	assert_int_equal(options.past_fd, -1);
	assert_false(options.connects);
	assert_false(options.records);
	assert_int_equal(options.class_by, CLASS_BY_RECORD);
	assert_int_equal(parse(REQUIRED " --connect --records --class queue --past-fd 2"), 0);
	assert_int_equal(options.past_fd, 2);
	assert_true(options.connects);
	assert_true(options.records);
	assert_int_equal(options.class_by, CLASS_BY_QUEUE);
	assert_int_equal(parse(REQUIRED " --class pcp"), 0);
	assert_int_equal(options.class_by, CLASS_BY_PCP);
	assert_int_equal(parse(REQUIRED " --class record"), 0);
	assert_int_equal(options.class_by, CLASS_BY_RECORD);
}

TEST(bad_lines_get_a_message)
{
	static const struct {
		const char *line, *wanted;
	} wrong[] = {
		{"", "ktsn-relay-vhost: --vhost-socket is missing; see ktsn-relay-vhost --help\n"},
		{REQUIRED " --class queues", "--class queues: must be"},
		{REQUIRED " --class all", "ktsn-relay-vhost: --class all: must be record, pcp or queue\n"},
		{REQUIRED " --vhost-socket v.sock",
		 "--vhost-socket v.sock: must be an absolute path of at most 103 bytes\n"},
		{REQUIRED " --link-fd 900",
		 "ktsn-relay-vhost: --link-fd 900: must be the number of an open file descriptor\n"},
		{REQUIRED " more", "ktsn-relay-vhost: more: not an option; see ktsn-relay-vhost --help\n"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_true(parse(wrong[i].line) < 0);
		assert_non_null(strstr(message, wrong[i].wanted));
	}
}
