/* SPDX-License-Identifier: Apache-2.0 */
/* poll, select and related calls. */
#include "receive.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

static void print_poll(const char *label, int fd, short events, int timeout_ms)
{
	struct pollfd polled = {.fd = fd, .events = events, .revents = 0x7f};
	int ready = poll(&polled, 1, timeout_ms);

	print_fact("%s: %s, %x", label, result_name(ready), (unsigned int)polled.revents);
}

static void polls(void)
{
	int fd = looked_socket();

	print_poll("nothing there", fd, POLLIN, 0);
	print_poll("nothing there, writable", fd, POLLIN | POLLOUT, 0);
	print_poll("10 ms", fd, POLLIN, 10);
	sent(fd, "a", 2);
	print_poll("POLLIN", fd, POLLIN, -1);
	print_poll("POLLRDNORM", fd, POLLRDNORM, -1);
	print_poll("both", fd, POLLIN | POLLRDNORM, -1);
	print_poll("POLLIN and POLLOUT", fd, POLLIN | POLLOUT, -1);
	print_poll("POLLOUT", fd, POLLOUT, -1);
	print_poll("POLLPRI", fd, POLLPRI, 0);
	print_poll("none", fd, 0, 0);
	print_received("receive", fd, 0);
	print_poll("one more there", fd, POLLIN, 0);
	print_received("peek", fd, MSG_PEEK);
	print_poll("peeked at", fd, POLLIN, 0);
	print_received("receive", fd, 0);
	print_poll("none there", fd, POLLIN, 0);
	sent_soon(fd, "b", 1);
	print_poll("until it comes", fd, POLLIN, -1);
	print_rest("receive", fd);
}

static void polls_before_it_reads(void)
{
	int fd = bound_socket(), unbound = unbound_socket();
	union socket_address any = any_address(0);

	sent_soon(fd, "a", 1);
	print_poll("until it comes", fd, POLLIN, 5000);
	sent(fd, "b", 1);
	print_poll("there", fd, POLLIN, 0);
	print_sorted("receive", fd, 2);
	print_poll("not bound", unbound, POLLIN, 0);
	require(bind(unbound, &any.any, address_bytes()) == 0, "bind a socket");
	print_poll("bound", unbound, POLLIN, 0);
	sent_soon(unbound, "c", 1);
	print_poll("until it comes", unbound, POLLIN, 5000);
	print_rest("receive", unbound);
}

static void polls_several(void)
{
	int first = looked_socket(), second = looked_socket(), ends[2];
	struct pollfd all[5] = {{.fd = first, .events = POLLIN},
				{.fd = -1, .events = POLLIN},
				{.fd = second, .events = POLLIN | POLLRDNORM},
				{.events = POLLIN},
				{.fd = 1000, .events = POLLIN}};

	require(pipe(ends) == 0 && write(ends[1], "x", 1) == 1, "make a pipe");
	all[3].fd = ends[0];
	for (int i = 0; i < 3; i++) {
		int ready;

		if (i == 1)
			sent(second, "a", 1);
		if (i == 2)
			sent(first, "b", 1);
		ready = poll(all, 5, 0);
		print_fact("%s: %x %x %x %x %x", result_name(ready), (unsigned int)all[0].revents,
			   (unsigned int)all[1].revents, (unsigned int)all[2].revents,
			   (unsigned int)all[3].revents, (unsigned int)all[4].revents);
	}
	print_rest("first", first);
	print_rest("second", second);
}

static void polls_with_a_timespec(void)
{
	struct timespec short_time = {.tv_nsec = 20 * 1000 * 1000}, wrong = {.tv_nsec = -1};
	int fd = looked_socket();
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	int64_t began = now_ms();

	print_fact("20 ms: %s", result_name(ppoll(&polled, 1, &short_time, NULL)));
	print_fact("after at least 19 ms: %d", now_ms() - began >= 19);
	print_fact("the time that was given: %d", short_time.tv_nsec == 20 * 1000 * 1000);
	print_fact("less than no time: %s", result_name(ppoll(&polled, 1, &wrong, NULL)));
	sent_soon(fd, "a", 1);
	print_fact("until it comes: %s", result_name(ppoll(&polled, 1, NULL, NULL)));
	print_fact("%x", (unsigned int)polled.revents);
	print_rest("receive", fd);
}

static void print_select(const char *label, int first, int second, bool writable, struct timeval *timeout)
{
	int count = (first > second ? first : second) + 1, ready;
	fd_set in, out, except;

	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_ZERO(&except);
	FD_SET(first, &in);
	FD_SET(second, &in);
	FD_SET(second, &except);
	if (writable)
		FD_SET(first, &out);
	ready = select(count, &in, &out, &except, timeout);
	if (ready < 0) {
		print_fact("%s: %s", label, result_name(ready));
		return;
	}
	print_fact("%s: %d, in %d %d, out %d %d, except %d", label, ready, !!FD_ISSET(first, &in),
		   !!FD_ISSET(second, &in), !!FD_ISSET(first, &out), !!FD_ISSET(second, &out),
		   !!FD_ISSET(second, &except));
}

static void selects(void)
{
	struct timeval none = {0}, short_time = {.tv_usec = 20000}, wrong = {.tv_sec = -1},
		       long_time = {.tv_sec = 3600};
	int first = looked_socket(), second = looked_socket();

	print_select("nothing there", first, second, false, &none);
	print_select("nothing there, writable", first, second, true, &none);
	print_select("20 ms", first, second, false, &short_time);
	print_fact("left: %ld", (long)short_time.tv_usec);
	print_select("less than no time", first, second, false, &wrong);
	sent(second, "a", 1);
	print_select("one there", first, second, false, NULL);
	print_select("one there, writable", first, second, true, &long_time);
	print_fact("left: %d", long_time.tv_sec >= 3590);
	sent(first, "b", 1);
	print_select("both", first, second, false, NULL);
	print_rest("first", first);
	print_select("one there", first, second, false, NULL);
	print_rest("second", second);
	print_select("none there", first, second, false, &none);
	sent_soon(first, "c", 1);
	print_select("until it comes", first, second, false, NULL);
	print_rest("first", first);
	close(second);
	print_select("closed", first, second, false, &none);
}

static void selects_with_a_timespec(void)
{
	struct timespec short_time = {.tv_nsec = 20 * 1000 * 1000};
	int fd = looked_socket();
	fd_set in;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	print_fact("20 ms: %s", result_name(pselect(fd + 1, &in, NULL, NULL, &short_time, NULL)));
	print_fact("member: %d", !!FD_ISSET(fd, &in));
	print_fact("the time that was given: %d", short_time.tv_nsec == 20 * 1000 * 1000);
	FD_SET(fd, &in);
	sent_soon(fd, "a", 1);
	print_fact("until it comes: %s", result_name(pselect(fd + 1, &in, NULL, NULL, NULL, NULL)));
	print_fact("member: %d", !!FD_ISSET(fd, &in));
	print_rest("receive", fd);
}

/* Datagrams of the same node take another path. */
static void polls_for_local_datagrams(void)
{
	int fd = looked_socket();

	send_from_own(fd, "own");
	print_poll("own", fd, POLLIN, 5000);
	print_received("receive", fd, 0);
	print_poll("none there", fd, POLLIN, 0);
	sent(fd, "a", 1);
	send_from_own(fd, "own");
	sleep_ms(20);
	print_poll("both there", fd, POLLIN, 0);
	print_sorted("receive", fd, 2);
	print_poll("none there", fd, POLLIN, 0);
}

/* Like event loops: read until the socket is empty, then wait. */
static void reads_until_empty(void)
{
	int fd = bound_socket();

	fcntl(fd, F_SETFL, O_NONBLOCK);
	for (int round = 0; round < 3; round++) {
		ask(fd, (struct sending){.label = "a", .count = 3, .after_ms = 20});
		print_poll("until it comes", fd, POLLIN, 5000);
		all_sent();
		print_rest("receive", fd);
	}
}

const struct receive_case waiting_cases[] = {
	{"poll", polls},
	{"poll-before-it-reads", polls_before_it_reads},
	{"poll-of-several", polls_several},
	{"ppoll", polls_with_a_timespec},
	{"select", selects},
	{"pselect", selects_with_a_timespec},
	{"poll-for-what-comes-another-way", polls_for_local_datagrams},
	{"reads-until-there-is-nothing", reads_until_empty},
	{NULL, NULL},
};
