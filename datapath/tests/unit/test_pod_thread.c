/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of pods: the order of their work, the effect of a blocked thread on others, and how threads
 * end.
 */
#include "clock.h"
#include "pod_thread.h"

#include "loop_objects.h"
#include "notifiers.h"
#include "requests.h"

#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/capability.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "unit_test.h"

enum {
	WORKS = 100,
	PAIRS = 20,
	TIMEOUT_MS = 10000,
	HELD_MS = 1900, /* work of a pod that lives is not interrupted before */
	REMOVAL_MS = 5000,
};

struct fixture {
	struct events *events;
	struct pod_threads *threads;
	struct pod_thread *thread;
	int hold[2]; /* a thread that reads the first is blocked until the second is closed */
	int done;    /* work items, in this order */
};

struct test_work {
	struct pod_work work;
	struct fixture *fixture;
	int number;
	atomic_bool ran;
	bool privileged;
};

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	*state = fixture;
	if (!fixture || socketpair(AF_UNIX, SOCK_STREAM, 0, fixture->hold) ||
	    events_create(&fixture->events) || pod_threads_create(&fixture->threads, fixture->events))
		return -1;
	return pod_thread_start(fixture->threads, &fixture->thread);
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	close(fixture->hold[1]);
	pod_thread_put(fixture->thread);
	pod_threads_destroy(fixture->threads);
	events_destroy(fixture->events);
	close(fixture->hold[0]);
	free(fixture);
	return 0;
}

static void run_nothing(struct pod_work *work)
{
	struct test_work *test = (struct test_work *)work;

	test->ran = true;
}

static void run_held_up(struct pod_work *work)
{
	struct test_work *test = (struct test_work *)work;
	char byte;

	(void)!read(test->fixture->hold[0], &byte, 1);
	test->ran = true;
}

static void run_privileges(struct pod_work *work)
{
	struct test_work *test = (struct test_work *)work;
	cap_t current = cap_get_proc(), none = cap_init();

	test->privileged = cap_compare(current, none) != 0;
	cap_free(current);
	cap_free(none);
	test->ran = true;
}

/* In the order of the requests. */
static void done_in_order(struct pod_work *work)
{
	struct test_work *test = (struct test_work *)work;

	assert_true(test->ran);
	assert_int_equal(test->number, test->fixture->done);
	test->fixture->done++;
}

static void done_await(const struct fixture *fixture, int count)
{
	for (int tries = 0; fixture->done < count; tries++) {
		assert_true(tries < TIMEOUT_MS);
		assert_int_equal(events_run_once(fixture->events, 1), 0);
	}
}

TEST_F(work_is_done_in_order)
{
	struct fixture *fixture = *state;
	struct test_work works[WORKS];

	for (int i = 0; i < WORKS; i++) {
		works[i] = (struct test_work){{run_nothing, done_in_order, NULL}, fixture, i, false, false};
		pod_thread_do(fixture->thread, &works[i].work);
	}
	done_await(fixture, WORKS);
	assert_int_equal(pod_thread_backlog(fixture->thread), 0);
}

TEST_F(blocked_thread_blocks_no_other)
{
	struct fixture *fixture = *state;
	struct test_work held = {{run_held_up, done_in_order, NULL}, fixture, 1, false, false};
	struct test_work free_one = {{run_nothing, done_in_order, NULL}, fixture, 0, false, false};
	struct pod_thread *other;

	assert_int_equal(pod_thread_start(fixture->threads, &other), 0);
	pod_thread_do(fixture->thread, &held.work);
	pod_thread_do(other, &free_one.work);
	done_await(fixture, 1);
	assert_int_equal(pod_thread_backlog(fixture->thread), 1);
	close(fixture->hold[1]);
	fixture->hold[1] = -1;
	done_await(fixture, 2);
	pod_thread_put(other);
}

TEST_F(remaining_work_is_done_at_the_end)
{
	struct fixture *fixture = *state;
	int pair[2];
	char byte;
	struct pollfd far;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	pod_thread_close(fixture->thread, pair[0]);
	pod_thread_close(fixture->thread, -1);
	pod_thread_put(fixture->thread);
	fixture->thread = NULL;
	far = (struct pollfd){.fd = pair[1], .events = POLLIN};
	assert_int_equal(poll(&far, 1, TIMEOUT_MS), 1);
	assert_int_equal(read(pair[1], &byte, 1), 0);
	close(pair[1]);
}

/* A TCP connection over loopback that nobody reads: closing the first end blocks until the second is
 * closed. */
static void lingering_make(int fds[2])
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct linger linger = {.l_onoff = 1, .l_linger = INT_MAX};
	socklen_t length = sizeof(address);
	static char block[65536];
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &length), 0);
	assert_int_equal(connect(fds[0], (struct sockaddr *)&address, length), 0);
	fds[1] = accept(listener, NULL, NULL);
	close(listener);
	while (send(fds[0], block, sizeof(block), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
}

/* Returns the time until everything was done. */
static int64_t works_await(const struct fixture *fixture)
{
	const int64_t began_ms = clock_monotonic_ms();

	while (pod_thread_backlog(fixture->thread) && clock_monotonic_ms() - began_ms < TIMEOUT_MS) {
		(void)pod_threads_tick(fixture->threads);
		assert_int_equal(events_run_once(fixture->events, 1), 0);
	}
	assert_int_equal(pod_thread_backlog(fixture->thread), 0);
	return clock_monotonic_ms() - began_ms;
}

TEST_F(close_waiting_for_a_later_one_ends)
{
	struct fixture *fixture = *state;
	int fds[PAIRS][2];

	for (int i = 0; i < PAIRS; i++) {
		lingering_make(fds[i]);
		pod_thread_close(fixture->thread, fds[i][0]);
	}
	for (int i = 0; i < PAIRS; i++)
		pod_thread_close(fixture->thread, fds[i][1]);
	pod_thread_removed(fixture->thread);
	assert_true(works_await(fixture) < REMOVAL_MS);
}

TEST_F(close_of_a_living_pod_is_interrupted)
{
	struct fixture *fixture = *state;
	int fds[2];

	lingering_make(fds);
	pod_thread_close(fixture->thread, fds[0]);
	pod_thread_close(fixture->thread, fds[1]);
	assert_in_range(works_await(fixture), HELD_MS, REMOVAL_MS);
}

int __real_close(int fd);
int __wrap_close(int fd);

int __real_connect(int fd, const struct sockaddr *peer, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *peer, socklen_t bytes);
ssize_t __real_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags);

static atomic_int stuck_fd = -1;
static atomic_bool stuck, unstuck;
static atomic_int connects; /* of stuck_fd */

/* Like a file whose server does not answer: no signal ends the call. */
static void be_stuck(int fd)
{
	if (fd < 0 || fd != stuck_fd)
		return;
	stuck = true;
	while (!unstuck)
		usleep(1000);
}

int __wrap_close(int fd)
{
	be_stuck(fd);
	return __real_close(fd);
}

int __wrap_connect(int fd, const struct sockaddr *peer, socklen_t bytes)
{
	connects += fd == stuck_fd;
	be_stuck(fd);
	return __real_connect(fd, peer, bytes);
}

ssize_t __wrap_recvmsg(int fd, struct msghdr *message, int flags)
{
	be_stuck(fd);
	return __real_recvmsg(fd, message, flags);
}

static void run_unstick(struct pod_work *work)
{
	((struct test_work *)work)->ran = true;
	unstuck = true;
}

TEST_F(uninterruptible_close_gets_a_replacement)
{
	struct fixture *fixture = *state;
	struct test_work rest = {{run_unstick, done_in_order, NULL}, fixture, 0, false, false};

	stuck_fd = dup(fixture->hold[0]);
	stuck = unstuck = false;
	pod_thread_close(fixture->thread, stuck_fd);
	pod_thread_do(fixture->thread, &rest.work);
	/* Not for a pod that lives: it blocks only itself. */
	while (!stuck)
		usleep(1000);
	for (int ms = 0; ms < HELD_MS; ms += 10) {
		(void)pod_threads_tick(fixture->threads);
		usleep(10000);
	}
	assert_false(unstuck);
	pod_thread_removed(fixture->thread);
	assert_true(works_await(fixture) < REMOVAL_MS);
	assert_true(rest.ran);
	done_await(fixture, 1);
	stuck_fd = -1;
}

/* Closing a notifier closes the files that the application queued on it, and may block. */
TEST_F(blocked_notifier_gets_a_replacement)
{
	struct fixture *fixture = *state;
	struct test_work rest = {{run_unstick, done_in_order, NULL}, fixture, 0, false, false};
	const struct notifier_names names = {.own_bytes = 0};

	stuck_fd = dup(fixture->hold[0]);
	stuck = unstuck = false;
	notifier_close(fixture->thread, notifier_adopt(NOTIFY_SPACE, &names, stuck_fd));
	pod_thread_do(fixture->thread, &rest.work);
	while (!stuck)
		usleep(1000);
	pod_thread_removed(fixture->thread);
	assert_true(works_await(fixture) < REMOVAL_MS);
	assert_true(rest.ran);
	done_await(fixture, 1);
	stuck_fd = -1;
}

/* The pod is removed while its thread is in a call that closes a file. */
static void rest_is_done_in_spite_of_it(const struct fixture *fixture, struct test_work *rest)
{
	pod_thread_do(fixture->thread, &rest->work);
	while (!stuck)
		usleep(1000);
	pod_thread_removed(fixture->thread);
	assert_true(works_await(fixture) < REMOVAL_MS);
	assert_true(rest->ran);
	stuck_fd = -1;
}

struct notifier_work {
	struct pod_work work;
	uint8_t peer_name[KTSN_APP_NOTIFIER_NAME_BYTES];
	struct notifier *notifier;
	atomic_bool created; /* after everything else: by a thread that was replaced */
};

static void run_create(struct pod_work *work)
{
	struct notifier_work *create = (struct notifier_work *)work;

	(void)notifier_create(NOTIFY_REPORT, create->peer_name, stuck_fd, &create->notifier);
	create->created = true;
}

/* The application queued a file on it, and it has a peer. */
TEST_F(blocked_passing_gets_a_replacement)
{
	struct fixture *fixture = *state;
	struct test_work rest = {{run_unstick, NULL, NULL}, fixture, 0, false, false};
	struct notifier_work create = {{run_create, NULL, NULL}, {0}, NULL, false};
	const struct sockaddr any = {.sa_family = AF_UNIX};

	stuck_fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	assert_int_equal(bind(stuck_fd, &any, sizeof(any.sa_family)), 0);
	stuck = unstuck = false;
	pod_thread_do(fixture->thread, &create.work);
	rest_is_done_in_spite_of_it(fixture, &rest);
	while (!create.created)
		usleep(1000);
	assert_non_null(create.notifier);
	notifier_close(fixture->thread, create.notifier);
	works_await(fixture);
}

/* The same when it is notified. Its number may belong to another descriptor by then. */
TEST_F(blocked_notification_gets_a_replacement)
{
	struct fixture *fixture = *state;
	struct test_work rest = {{run_unstick, NULL, NULL}, fixture, 0, false, false};
	const struct notifier_names names = {.own_bytes = 0};
	struct notifier *notifier;

	stuck_fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	stuck = unstuck = false;
	connects = 0;
	notifier = notifier_adopt(NOTIFY_REPORT, &names, stuck_fd);
	notifier_raise(fixture->thread, notifier);
	rest_is_done_in_spite_of_it(fixture, &rest);
	assert_int_equal(connects, 1);
	notifier_close(fixture->thread, notifier);
	works_await(fixture);
}

static void serve_nothing(struct process *process)
{
}

/* More descriptors arrived than a request may have. */
TEST_F(blocked_surplus_close_gets_a_replacement)
{
	struct fixture *fixture = *state;
	struct test_work rest = {{run_unstick, NULL, NULL}, fixture, 0, false, false};
	struct process process = {.connection.fd = fixture->hold[0], .thread = fixture->thread};
	struct pod pod = {.node = NULL};
	struct app_request *request;

	process.pod = &pod;
	request = app_request_create(&process, serve_nothing);
	assert_non_null(request);
	stuck_fd = fixture->hold[0];
	stuck = unstuck = false;
	app_request_begin(request);
	rest_is_done_in_spite_of_it(fixture, &rest);
	while (request->busy)
		assert_int_equal(events_run_once(fixture->events, 1), 0);
	app_request_abandon(request);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *argument);

static int threads_created;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			  void *argument)
{
	threads_created++;
	return __real_pthread_create(thread, attributes, run, argument);
}

static void ticks(const struct fixture *fixture, int ms)
{
	for (int64_t until_ms = clock_monotonic_ms() + ms; clock_monotonic_ms() < until_ms; usleep(5000))
		(void)pod_threads_tick(fixture->threads);
}

/* The replacement ends when the pod is gone and no work is left; the blocked thread is then alone again. */
TEST_F(blocked_thread_is_replaced_once)
{
	struct fixture *fixture = *state;

	stuck_fd = dup(fixture->hold[0]);
	stuck = unstuck = false;
	pod_thread_close(fixture->thread, stuck_fd);
	while (!stuck)
		usleep(1000);
	threads_created = 0;
	pod_thread_removed(fixture->thread);
	ticks(fixture, 1500);
	assert_int_equal(threads_created, 1);
	pod_thread_put(fixture->thread);
	fixture->thread = NULL;
	ticks(fixture, 200);
	assert_int_equal(threads_created, 1);
	unstuck = true;
	stuck_fd = -1;
}

TEST_F(threads_have_no_privileges)
{
	struct fixture *fixture = *state;
	struct test_work work = {{run_privileges, done_in_order, NULL}, fixture, 0, false, true};

	pod_thread_do(fixture->thread, &work.work);
	done_await(fixture, 1);
	assert_false(work.privileged);
}
