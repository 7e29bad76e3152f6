/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inboxes of descriptors: lookup, the last close, and which process is counted as the reader of a ring. The
 * inboxes have no ring, and their descriptors are only numbers.
 */
#include "inbox_table.h"

#include "receive_layout.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit_test.h"

enum { FD = 1000, COPY = 1001 };

static struct ktsn_receive_control control;

/* Acquired. */
static struct inbox *inbox_make(void)
{
	struct inbox *inbox = inbox_create();

	assert_non_null(inbox);
	memset(&control, 0, sizeof(control));
	inbox->readers = (_Atomic uint32_t *)&control.readers;
	inbox->ended = (_Atomic uint32_t *)&control.ended;
	return inbox;
}

static bool remove_is_last(int fd)
{
	bool last = false;
	struct inbox *inbox = inbox_remove(fd, &last);

	assert_non_null(inbox);
	inbox_put(inbox);
	return last;
}

TEST(last_close_during_a_read)
{
	struct inbox *reading = inbox_make();

	assert_true(inbox_enter(reading, FD));
	assert_true(inbox_enter(reading, COPY));
	assert_false(remove_is_last(FD));
	assert_true(remove_is_last(COPY));
	inbox_put(reading);
}

TEST(descriptor_is_counted_once)
{
	struct inbox *first = inbox_make(), *second = inbox_make();

	assert_true(inbox_enter(first, FD));
	assert_false(inbox_enter(second, FD));
	inbox_put(second);
	assert_true(remove_is_last(FD));
	inbox_put(first);
}

TEST(process_is_counted_once_as_a_reader)
{
	struct inbox *inbox = inbox_make();

	assert_int_equal(control.readers, 0);
	inbox_start(inbox);
	inbox_start(inbox);
	assert_int_equal(control.readers, 1);
	inbox_stop(inbox);
	inbox_stop(inbox);
	assert_int_equal(control.readers, 0);
	inbox_start(inbox);
	inbox_put(inbox);
	/* A process without the inbox is not a reader. */
	assert_int_equal(control.readers, 0);
}

/* The child's memory, except for rings, is a copy: it reports through its exit status. */
TEST(child_is_not_the_counted_reader)
{
	struct inbox *inbox = inbox_make();
	pid_t child;
	int status;

	assert_true(inbox_enter(inbox, FD));
	inbox_start(inbox);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		inboxes_forked();
		inbox_stop(inbox);
		_exit((int)control.readers);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	assert_int_equal(control.readers, 1);
	assert_true(remove_is_last(FD));
	inbox_put(inbox);
}

int main(void)
{
	setenv("KTSN_RECEIVE", "ring", 1);
	return unit_tests_run(NULL, NULL);
}
