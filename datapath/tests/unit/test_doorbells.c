/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applications' eventfds and how the loop hears them: through epoll sets that no application has.
 */
#include "doorbells.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "unit_test.h"

static int loop_fd;
static struct doorbells *doorbells;

static int shutdown_amid_fd; /* the eventfd that is being joined while ktsnd ends; -1: none */

int __real_epoll_ctl(int set_fd, int operation, int fd, struct epoll_event *event);
int __wrap_epoll_ctl(int set_fd, int operation, int fd, struct epoll_event *event);

int __wrap_epoll_ctl(int set_fd, int operation, int fd, struct epoll_event *event)
{
	if (operation == EPOLL_CTL_ADD && fd == shutdown_amid_fd)
		doorbells_destroy(doorbells);
	return __real_epoll_ctl(set_fd, operation, fd, event);
}

static int set_up(void **state)
{
	shutdown_amid_fd = -1;
	loop_fd = epoll_create1(EPOLL_CLOEXEC);
	return doorbells_create(&doorbells, loop_fd, 1);
}

static int tear_down(void **state)
{
	doorbells_destroy(doorbells);
	close(loop_fd);
	return 0;
}

static void arm(int set_fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.fd = set_fd};

	assert_int_equal(epoll_ctl(loop_fd, EPOLL_CTL_MOD, set_fd, &event), 0);
}

static int heard(void)
{
	struct epoll_event event;

	return epoll_wait(loop_fd, &event, 1, 0) == 1 ? event.data.fd : -1;
}

static void ring(int event_fd)
{
	const uint64_t increment = 1;

	assert_int_equal(write(event_fd, &increment, sizeof(increment)), sizeof(increment));
}

TEST_F(each_ring_is_heard_once)
{
	int fd = doorbell_make(), set_fd = doorbell_join(doorbells, fd);

	assert_true(set_fd >= 0);
	ring(fd);
	assert_int_equal(heard(), -1);
	arm(set_fd, EPOLLIN | EPOLLET);
	assert_int_equal(heard(), set_fd);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(heard(), -1);
		ring(fd);
		assert_int_equal(heard(), set_fd);
	}
	arm(set_fd, 0);
	ring(fd);
	assert_int_equal(heard(), -1);
	doorbell_leave(doorbells, set_fd, fd);
}

/* The application still has the eventfd and rings it. */
TEST_F(removed_doorbell_is_not_heard)
{
	int fd = doorbell_make(), kept_fd = dup(fd), set_fd = doorbell_join(doorbells, fd);
	int next_fd, next_set_fd;

	arm(set_fd, EPOLLIN | EPOLLET);
	arm(set_fd, 0);
	doorbell_leave(doorbells, set_fd, fd);
	next_fd = doorbell_make();
	next_set_fd = doorbell_join(doorbells, next_fd);
	/* The same set again: the loop's set does not gain a member. */
	assert_int_equal(next_set_fd, set_fd);
	arm(next_set_fd, EPOLLIN | EPOLLET);
	ring(kept_fd);
	assert_int_equal(heard(), -1);
	ring(next_fd);
	assert_int_equal(heard(), next_set_fd);
	doorbell_leave(doorbells, next_set_fd, next_fd);
	close(kept_fd);
}

/* Counts the descriptors of an epoll set that the kernel reports. */
static int is_in(int set_fd, int fd)
{
	char path[64], line[256];
	int in = 0, number;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", set_fd);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		in |= sscanf(line, "tfd: %d", &number) == 1 && number == fd;
	fclose(file);
	return in;
}

/* Otherwise the loop would wait while an application lengthens the eventfd's wait queue. */
TEST_F(loop_set_has_no_application_eventfd)
{
	enum { MANY = 8 };
	int fds[MANY], set_fds[MANY];

	for (int i = 0; i < MANY; i++) {
		fds[i] = doorbell_make();
		set_fds[i] = doorbell_join(doorbells, fds[i]);
		assert_true(is_in(loop_fd, set_fds[i]));
		assert_true(is_in(set_fds[i], fds[i]));
		assert_false(is_in(loop_fd, fds[i]));
	}
	for (int i = 0; i < MANY; i++) {
		doorbell_leave(doorbells, set_fds[i], fds[i]);
		assert_int_equal(fcntl(fds[i], F_GETFD), -1);
		assert_true(is_in(loop_fd, set_fds[i]));
	}
}

/* An application lengthens the eventfd's wait queue and holds up its pod's thread while ktsnd ends. */
TEST_F(sets_stay_during_a_join)
{
	int fd = doorbell_make(), set_fd;

	shutdown_amid_fd = fd;
	set_fd = doorbell_join(doorbells, fd);
	assert_true(set_fd >= 0);
	assert_true(is_in(set_fd, fd));
	assert_true(is_in(loop_fd, set_fd));
	doorbell_leave(doorbells, set_fd, fd);
}
