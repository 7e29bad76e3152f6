/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is sent and when, and a send buffer that is full. The order of arrival is for others to see: each message says
 * which it is.
 */
#include "cases.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

enum { MS = 1000000, THREADS = 4, EACH = 8 };

static void send_at(int fd, const char *text, int64_t base, int ms)
{
	say_result(text, send_text(fd, text, base + (int64_t)ms * MS, 0));
}

/* Reports come after the messages, if any do. */
static void settle(int fd)
{
	struct report report;

	sleep_ms(150);
	while (report_take(fd, &report) >= 0) {
		const struct extended_error *error = report_error(&report);

		say("reported", "%s", error ? error_name((int)error->error) : "without an error");
	}
	close(fd);
}

static void no_time(void)
{
	int fd = reporting_socket();

	say_result("send", send(fd, "no-time", 7, 0));
	settle(fd);
}

static void zero_time(void)
{
	int fd = reporting_socket();

	(void)send_text(fd, "zero-time", tai_ns(), 0);
	settle(fd);
}

static void ten(void)
{
	int fd = reporting_socket();

	send_at(fd, "ten", tai_ns(), 10);
	settle(fd);
}

static void ten_twenty(void)
{
	int fd = reporting_socket();
	int64_t base = tai_ns();

	send_at(fd, "ten-twenty-10", base, 10);
	send_at(fd, "ten-twenty-20", base, 20);
	settle(fd);
}

static void twenty_ten(void)
{
	int fd = reporting_socket();
	int64_t base = tai_ns();

	send_at(fd, "twenty-ten-20", base, 20);
	send_at(fd, "twenty-ten-10", base, 10);
	settle(fd);
}

static int shared_fd;
static int64_t shared_base;

static void *thread(void *argument)
{
	long failed = 0;

	for (int i = 0; i < EACH; i++)
		failed += send_text(shared_fd, "threads", shared_base + (int64_t)i * MS, 0) != 7;
	return (void *)(failed + (argument != NULL));
}

static void threads(void)
{
	pthread_t all[THREADS];
	long failed = 0;

	shared_fd = reporting_socket();
	shared_base = tai_ns() + 50 * MS;
	for (int i = 0; i < THREADS; i++)
		pthread_create(&all[i], NULL, thread, NULL);
	for (int i = 0; i < THREADS; i++) {
		void *result;

		pthread_join(all[i], &result);
		failed += (long)result;
	}
	say("sends that failed", "%ld", failed);
	settle(shared_fd);
}

/* The largest send buffer that still has few messages in it. */
static int small_buffer(int fd)
{
	int bytes = 8192;

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	return fd;
}

/* Apart from each other, so that none makes another late. */
static int fill(int fd, int64_t first_ns)
{
	int count = 0;

	while (count < 100 &&
	       send_text(fd, "full-buffer", first_ns + (int64_t)count * 2 * MS, MSG_DONTWAIT) == 11)
		count++;
	say("then", "%s", error_name(errno));
	return count;
}

static const char *yes_if(bool yes)
{
	return yes ? "yes" : "no";
}

static bool writable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};

	return poll(&poll_fd, 1, timeout_ms) == 1 && poll_fd.revents & POLLOUT;
}

static void full_buffer(void)
{
	int fd = small_buffer(reporting_socket()), count;

	say("writable before", "%s", yes_if(writable(fd, 0)));
	count = fill(fd, tai_ns() + 300 * MS);
	say("messages that it takes", "%d", count);
	say("writable then", "%s", yes_if(writable(fd, 0)));
	say("writable after a wait", "%s", yes_if(writable(fd, 2000)));
	say("takes one more", "%s",
	    yes_if(send_text(fd, "full-buffer", tai_ns() + 20 * MS, MSG_DONTWAIT) == 11));
	settle(fd);
}

static void full_buffer_blocks(void)
{
	struct timeval patience = {.tv_usec = 50000};
	int fd = small_buffer(reporting_socket());
	int64_t began;

	fill(fd, tai_ns() + 300 * MS);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	began = tai_ns();
	say_result("with SO_SNDTIMEO", send_text(fd, "full-buffer", began + 400 * MS, 0));
	say("waited for that", "%s", yes_if(tai_ns() - began > 40 * MS));
	patience.tv_usec = 0;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	say_result("without", send_text(fd, "full-buffer", began + 400 * MS, 0));
	say("waited for room", "%s", yes_if(tai_ns() - began > 150 * MS));
	sleep_ms(300);
	settle(fd);
}

/* What an event loop does: waits for the edge after EAGAIN. */
static void full_buffer_edge(void)
{
	struct epoll_event event = {.events = EPOLLOUT | EPOLLET, .data.u32 = 42};
	int fd = small_buffer(reporting_socket()), epoll_fd = epoll_create1(0), ready;

	say_result("add", epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event));
	ready = epoll_wait(epoll_fd, &event, 1, 1000);
	say("writable before", "%d, %s, data %u", ready, yes_if(event.events & EPOLLOUT), event.data.u32);
	say("again", "%d", epoll_wait(epoll_fd, &event, 1, 0));
	fill(fd, tai_ns() + 200 * MS);
	memset(&event, 0, sizeof(event));
	ready = epoll_wait(epoll_fd, &event, 1, 2000);
	say("writable after a wait", "%d, %s, data %u", ready, yes_if(event.events & EPOLLOUT),
	    event.data.u32);
	settle(fd);
	close(epoll_fd);
}

const struct txtime_case sending_cases[] = {
	{"no-time", no_time},
	{"zero-time", zero_time},
	{"ten", ten},
	{"ten-twenty", ten_twenty},
	{"twenty-ten", twenty_ten},
	{"threads", threads},
	{"full-buffer", full_buffer},
	{"full-buffer-blocks", full_buffer_blocks},
	{"full-buffer-edge", full_buffer_edge},
	{0},
};
