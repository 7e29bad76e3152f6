/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of ktsn-relay-vhost. Descriptors 0 to 2 are open in every test.
 */
#include "log.h"
#include "options_vhost.h"

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

static struct vhost_options options;
static char said[TEXT_BYTES]; /* on standard error */

/* Of words with one space between. */
static int parse(const char *line)
{
	static char copy[TEXT_BYTES]; /* into which the options point */
	char name[] = "ktsn-relay-vhost", *argv[ARGUMENTS_MAX] = {name};
	int argc = 1, kept = dup(STDERR_FILENO), file = memfd_create("stderr", MFD_CLOEXEC), err;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		argv[argc++] = word;
	dup2(file, STDERR_FILENO);
	optind = 0; /* getopt begins anew */
	err = vhost_options_parse(argc, argv, &options);
	dup2(kept, STDERR_FILENO);
	memset(said, 0, sizeof(said));
	assert_true(pread(file, said, sizeof(said) - 1, 0) >= 0);
	close(file);
	close(kept);
	return err;
}

#define REQUIRED                                                                                             \
	"--vhost-socket /run/v.sock --packet-fd 0 --link-fd 1 --socket-dir-fd 2 --socket-name app.sock "     \
	"--counters-fd 0"

static void what_is_given_is_taken(void **state)
{
	(void)state;
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
}

static void what_is_wrong_is_said(void **state)
{
	static const struct {
		const char *line, *sentence;
	} wrong[] = {
		{"", "ktsn-relay-vhost: --vhost-socket is missing; see ktsn-relay-vhost --help\n"},
		{REQUIRED " --class all",
		 "ktsn-relay-vhost: --class: \"all\" is none of record, pcp, queue\n"},
		{REQUIRED " --vhost-socket v.sock",
		 "\"v.sock\" is no absolute path of less than 104 bytes\n"},
		{REQUIRED " --link-fd 900", "ktsn-relay-vhost: --link-fd: file descriptor 900 is not open; "
					    "pass it on to ktsn-relay-vhost\n"},
		{REQUIRED " more",
		 "ktsn-relay-vhost: unexpected argument \"more\"; see ktsn-relay-vhost --help\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_true(parse(wrong[i].line) < 0);
		assert_non_null(strstr(said, wrong[i].sentence));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_given_is_taken),
		cmocka_unit_test(what_is_wrong_is_said),
	};

	relay_program = "ktsn-relay-vhost";
	return cmocka_run_group_tests(tests, NULL, NULL);
}
