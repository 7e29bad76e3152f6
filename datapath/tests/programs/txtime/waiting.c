/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All ways of waiting for an error.
 */
#include "cases.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef EPOLLEXCLUSIVE
#define EPOLLEXCLUSIVE (1u << 28)
#endif
#ifndef SO_SELECT_ERR_QUEUE
#define SO_SELECT_ERR_QUEUE 45
#endif

enum {
	LONG_MS = 3000,
	SHORT_MS = 100,
	SUCCESSOR_MS = 15000, /* another ktsnd may need so long on a busy machine */
};

/* Sends a message that is dropped, a little later. */
static void *later(void *argument)
{
	sleep_ms(50);
	send_invalid(*(int *)argument, "later");
	return NULL;
}

static pthread_t send_later(int *fd)
{
	pthread_t thread;

	pthread_create(&thread, NULL, later, fd);
	return thread;
}

static void print_poll(int fd, const char *label, short events, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = events};
	int ready = poll(&poll_fd, 1, timeout_ms);

	print_fact(label, "%d, %#x", ready, (unsigned short)poll_fd.revents);
}

static void with_poll(void)
{
	int fd = reporting_socket();
	struct report report;
	pthread_t thread;

	print_poll(fd, "before", POLLIN, 0);
	thread = send_later(&fd);
	print_poll(fd, "wait", POLLIN, LONG_MS);
	pthread_join(thread, NULL);
	print_poll(fd, "again", POLLIN, 0);
	print_poll(fd, "for nothing", 0, 0);
	print_poll(fd, "for writing", POLLOUT, 0);
	report_take(fd, &report);
	print_poll(fd, "after it was read", POLLIN, SHORT_MS);
	close(fd);
}

/* Several descriptors, and one twice. */
static void with_poll_of_many(void)
{
	int fd = reporting_socket(), other = reporting_socket();
	struct pollfd fds[5] = {{.fd = other, .events = POLLIN},
				{.fd = fd, .events = POLLIN},
				{.fd = -1, .events = POLLIN},
				{.fd = fd, .events = 0},
				{.fd = STDERR_FILENO, .events = POLLOUT}};
	pthread_t thread = send_later(&fd);
	int ready;

	sleep_ms(SHORT_MS);
	pthread_join(thread, NULL);
	ready = poll(fds, 4, LONG_MS);
	print_fact("ready", "%d: %#x %#x %#x %#x", ready, (unsigned short)fds[0].revents,
		   (unsigned short)fds[1].revents, (unsigned short)fds[2].revents,
		   (unsigned short)fds[3].revents);
	close(fd);
	close(other);
}

static void with_ppoll(void)
{
	int fd = reporting_socket();
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	struct timespec timeout = {.tv_nsec = 20000000};
	pthread_t thread;
	sigset_t none;
	int ready;

	sigemptyset(&none);
	ready = ppoll(&poll_fd, 1, &timeout, &none);
	print_fact("before", "%d, %#x, timeout kept %s", ready, (unsigned short)poll_fd.revents,
		   timeout.tv_nsec == 20000000 ? "yes" : "no");
	thread = send_later(&fd);
	ready = ppoll(&poll_fd, 1, NULL, NULL);
	print_fact("wait", "%d, %#x", ready, (unsigned short)poll_fd.revents);
	pthread_join(thread, NULL);
	timeout.tv_nsec = -1;
	print_result("a bad timeout", ppoll(&poll_fd, 1, &timeout, NULL));
	close(fd);
}

static void print_select(int fd, const char *label, int timeout_ms)
{
	struct timeval timeout = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
	fd_set in, out, except;
	int ready;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&except);
	FD_SET(fd, &in);
	FD_SET(fd, &except);
	ready = select(fd + 1, &in, NULL, &except, timeout_ms < 0 ? NULL : &timeout);
	print_fact(label, "%d, in %d, except %d", ready, !!FD_ISSET(fd, &in), !!FD_ISSET(fd, &except));
}

static void with_select(void)
{
	int fd = reporting_socket();
	struct report report;
	pthread_t thread;

	print_select(fd, "before", 20);
	thread = send_later(&fd);
	print_select(fd, "wait", -1);
	pthread_join(thread, NULL);
	print_select(fd, "again", 0);
	report_take(fd, &report);
	print_select(fd, "after it was read", SHORT_MS);
	close(fd);
}

static void with_pselect(void)
{
	int fd = reporting_socket(), ready;
	struct timespec timeout = {.tv_sec = 3};
	pthread_t thread = send_later(&fd);
	fd_set in, out;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(fd, &in);
	ready = pselect(fd + 1, &in, NULL, NULL, &timeout, NULL);
	print_fact("wait", "%d, in %d", ready, !!FD_ISSET(fd, &in));
	pthread_join(thread, NULL);
	FD_ZERO(&in);
	FD_SET(fd, &in);
	FD_SET(fd, &out);
	ready = pselect(fd + 1, &in, &out, NULL, &timeout, NULL);
	print_fact("both ways", "%d, in %d, out %d", ready, !!FD_ISSET(fd, &in), !!FD_ISSET(fd, &out));
	close(fd);
	print_result("a descriptor that is none", pselect(fd + 1, &in, NULL, NULL, &timeout, NULL));
}

static int epoll_of(int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u64 = 0x0123456789abcdef};
	int epoll_fd = epoll_create1(0);

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event))
		print_fact("add", "%s", error_name(errno));
	return epoll_fd;
}

static void print_epoll(int epoll_fd, const char *label, int timeout_ms)
{
	struct epoll_event events[4] = {0};
	int ready = epoll_wait(epoll_fd, events, 4, timeout_ms);

	if (ready > 0)
		print_fact(label, "%d, %#x, data %s", ready, events[0].events,
			   events[0].data.u64 == 0x0123456789abcdef ? "as given" : "another");
	else
		print_fact(label, "%d", ready);
}

static void with_epoll(void)
{
	int fd = reporting_socket(), epoll_fd = epoll_of(fd, EPOLLIN);
	struct report report;
	pthread_t thread;

	print_epoll(epoll_fd, "before", 20);
	thread = send_later(&fd);
	print_epoll(epoll_fd, "wait", LONG_MS);
	pthread_join(thread, NULL);
	print_epoll(epoll_fd, "again", 0);
	report_take(fd, &report);
	print_epoll(epoll_fd, "after it was read", SHORT_MS);
	send_invalid(fd, "more");
	print_epoll(epoll_fd, "another", LONG_MS);
	close(fd);
	print_epoll(epoll_fd, "after close", SHORT_MS);
	close(epoll_fd);
}

static void with_epoll_edge(void)
{
	int fd = reporting_socket(), epoll_fd = epoll_of(fd, EPOLLIN | EPOLLET);
	struct report report;

	send_invalid(fd, "one");
	print_epoll(epoll_fd, "wait", LONG_MS);
	print_epoll(epoll_fd, "again", SHORT_MS);
	send_invalid(fd, "two");
	print_epoll(epoll_fd, "another, the first unread", LONG_MS);
	while (report_take(fd, &report) >= 0)
		;
	print_epoll(epoll_fd, "after they were read", SHORT_MS);
	send_invalid(fd, "three");
	print_epoll(epoll_fd, "a third", LONG_MS);
	close(fd);
	close(epoll_fd);
}

static void with_epoll_oneshot(void)
{
	int fd = reporting_socket(), epoll_fd = epoll_of(fd, EPOLLIN | EPOLLONESHOT);
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = 0x0123456789abcdef};

	send_invalid(fd, "one");
	print_epoll(epoll_fd, "wait", LONG_MS);
	print_epoll(epoll_fd, "again", SHORT_MS);
	print_result("armed again", epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event));
	print_epoll(epoll_fd, "then", LONG_MS);
	close(fd);
	close(epoll_fd);
}

static void with_epoll_exclusive(void)
{
	int fd = reporting_socket(), epoll_fd = epoll_of(fd, EPOLLIN | EPOLLEXCLUSIVE);

	send_invalid(fd, "one");
	print_epoll(epoll_fd, "wait", LONG_MS);
	close(fd);
	close(epoll_fd);
}

static void with_epoll_changes(void)
{
	int fd = reporting_socket(), copy = dup(fd), epoll_fd = epoll_of(fd, EPOLLIN),
	    second = epoll_of(copy, 0);
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 1};

	print_result("added again", epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event));
	send_invalid(fd, "one");
	print_epoll(epoll_fd, "wait", LONG_MS);
	print_epoll(second, "in another set, by a copy", LONG_MS);
	print_result("changed", epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event));
	print_epoll(epoll_fd, "with other data", LONG_MS);
	print_result("removed", epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL));
	print_epoll(epoll_fd, "then", SHORT_MS);
	print_result("removed again", epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL));
	print_result("changed after that", epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event));
	close(fd);
	print_epoll(second, "by the copy, the original closed", LONG_MS);
	close(copy);
	close(epoll_fd);
	close(second);
}

/* Sets that are closed without EPOLL_CTL_DEL, and one more. */
static void with_epoll_closed_sets(void)
{
	int fd = reporting_socket(), epoll_fd;

	for (int i = 0; i < 20; i++)
		close(epoll_of(fd, EPOLLIN | EPOLLOUT));
	epoll_fd = epoll_of(fd, EPOLLIN);
	send_invalid(fd, "one");
	print_epoll(epoll_fd, "wait", LONG_MS);
	close(epoll_fd);
	close(fd);
}

/* Like frameworks that create sockets in a function of their own: they begin to wait before they request
 * SO_TXTIME. */
static void with_epoll_before(void)
{
	struct txtime_option option = {CLOCK_TAI, REPORT_ERRORS | (case_deadline ? DEADLINE_MODE : 0)};
	int fd = plain_socket(), epoll_fd = epoll_of(fd, EPOLLIN | EPOLLET);
	struct report report;

	print_result("SO_TXTIME", setsockopt(fd, SOL_SOCKET, SO_TXTIME, &option, sizeof(option)));
	print_epoll(epoll_fd, "before", 20);
	send_invalid(fd, "one");
	print_epoll(epoll_fd, "wait", LONG_MS);
	print_epoll(epoll_fd, "again", 20);
	report_take(fd, &report);
	send_invalid(fd, "two");
	print_epoll(epoll_fd, "another", LONG_MS);
	close(fd);
	close(epoll_fd);
}

static void with_exceptions(void)
{
	int fd = reporting_socket(), epoll_fd, on = 1;

	print_result("SO_SELECT_ERR_QUEUE", setsockopt(fd, SOL_SOCKET, SO_SELECT_ERR_QUEUE, &on, sizeof(on)));
	epoll_fd = epoll_of(fd, EPOLLPRI);
	send_invalid(fd, "one");
	print_epoll(epoll_fd, "epoll", LONG_MS);
	print_poll(fd, "poll", POLLPRI, LONG_MS);
	print_select(fd, "select", LONG_MS);
	close(fd);
	close(epoll_fd);
}

/* The child's own socket and set; inherited descriptors were closed. */
static void with_fork(void)
{
	int fd = reporting_socket(), status;
	pid_t child;

	send_invalid(fd, "parent");
	print_poll(fd, "parent", POLLIN, LONG_MS);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		struct report report;

		close(fd);
		fd = reporting_socket();
		send_invalid(fd, "child");
		print_poll(fd, "child", POLLIN, LONG_MS);
		print_fact("child reads", "%.*s", report_take(fd, &report) > 42 ? (int)report.result - 42 : 0,
			   (const char *)report.data + 42);
		_exit(0);
	}
	waitpid(child, &status, 0);
	print_poll(fd, "parent after that", POLLIN, 0);
	close(fd);
}

/* Prints a line and continues when a line arrives on standard input: meanwhile the test changes the
 * system. */
static void interlude(void)
{
	char line[16];

	print_fact("ready", "yes");
	while (!fgets(line, sizeof(line), stdin) && !feof(stdin))
		;
}

/* Errors before and after, with one epoll set. Unread reports stay, and waiting threads are woken as
 * before. */
static void across_interlude(void)
{
	int fd = reporting_socket(), epoll_fd = epoll_of(fd, EPOLLIN | EPOLLET);
	struct report report;

	send_invalid(fd, "before");
	print_epoll(epoll_fd, "before", LONG_MS);
	interlude();
	send_invalid(fd, "after");
	print_epoll(epoll_fd, "after", SUCCESSOR_MS);
	print_poll(fd, "poll", POLLIN, LONG_MS);
	sleep_ms(SHORT_MS);
	while (report_take(fd, &report) > 42)
		print_fact("read", "%.*s", (int)report.result - 42, (const char *)report.data + 42);
	print_poll(fd, "after they were read", POLLIN, SHORT_MS);
	send_invalid(fd, "last");
	print_epoll(epoll_fd, "last", LONG_MS);
	close(fd);
	close(epoll_fd);
}

const struct txtime_case waiting_cases[] = {
	{"wait-poll", with_poll},
	{"wait-poll-of-many", with_poll_of_many},
	{"wait-ppoll", with_ppoll},
	{"wait-select", with_select},
	{"wait-pselect", with_pselect},
	{"wait-epoll", with_epoll},
	{"wait-epoll-edge", with_epoll_edge},
	{"wait-epoll-oneshot", with_epoll_oneshot},
	{"wait-epoll-exclusive", with_epoll_exclusive},
	{"wait-epoll-changes", with_epoll_changes},
	{"wait-epoll-closed-sets", with_epoll_closed_sets},
	{"wait-epoll-before", with_epoll_before},
	{"wait-exceptions", with_exceptions},
	{"wait-fork", with_fork},
	{"interlude", across_interlude},
	{0},
};
