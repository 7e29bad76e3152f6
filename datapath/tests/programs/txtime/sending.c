/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which messages are sent and when, and a full send buffer. The receiver records the order of arrival: each
 * message carries its number.
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
	print_result(text, send_text(fd, text, base + (int64_t)ms * MS, 0));
}

/* Reports come after the messages, if there are any. */
static void settle(int fd)
{
	struct report report;

	sleep_ms(150);
	while (report_take(fd, &report) >= 0) {
		const struct extended_error *error = report_error(&report);

		print_fact("reported", "%s", error ? error_name((int)error->error) : "without an error");
	}
	close(fd);
}

static void no_time(void)
{
	int fd = reporting_socket();

	print_result("send", send(fd, "no-time", 7, 0));
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
	print_fact("sends that failed", "%ld", failed);
	settle(shared_fd);
}

/* The largest send buffer that still holds only a few messages. */
static int small_buffer(int fd)
{
	int bytes = 8192;

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	return fd;
}

/* Spaced so that none delays another. */
static int fill(int fd, int64_t first_ns)
{
	int count = 0;

	while (count < 100 &&
	       send_text(fd, "full-buffer", first_ns + (int64_t)count * 2 * MS, MSG_DONTWAIT) > 0)
		count++;
	print_fact("then", "%s", error_name(errno));
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

	print_fact("writable before", "%s", yes_if(writable(fd, 0)));
	count = fill(fd, tai_ns() + 300 * MS);
	print_fact("messages that it takes", "%d", count);
	print_fact("writable then", "%s", yes_if(writable(fd, 0)));
	print_fact("writable after a wait", "%s", yes_if(writable(fd, 2000)));
	print_fact("takes one more", "%s",
		   yes_if(send_text(fd, "full-buffer", tai_ns() + 20 * MS, MSG_DONTWAIT) > 0));
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
	print_result("with SO_SNDTIMEO", send_text(fd, "full-buffer", began + 400 * MS, 0));
	print_fact("waited for that", "%s", yes_if(tai_ns() - began > 40 * MS));
	patience.tv_usec = 0;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	print_result("without", send_text(fd, "full-buffer", began + 400 * MS, 0));
	print_fact("waited for room", "%s", yes_if(tai_ns() - began > 150 * MS));
	sleep_ms(300);
	settle(fd);
}

/* Like an event loop: waits for the edge after EAGAIN. */
static void edges(int fd, int epoll_fd)
{
	struct epoll_event event = {0};
	int ready = epoll_wait(epoll_fd, &event, 1, 1000);

	print_fact("writable before", "%d, %s, data %u", ready, yes_if(event.events & EPOLLOUT),
		   event.data.u32);
	print_fact("again", "%d", epoll_wait(epoll_fd, &event, 1, 0));
	fill(fd, tai_ns() + 200 * MS);
	memset(&event, 0, sizeof(event));
	ready = epoll_wait(epoll_fd, &event, 1, 2000);
	print_fact("writable after a wait", "%d, %s, data %u", ready, yes_if(event.events & EPOLLOUT),
		   event.data.u32);
	settle(fd);
	close(epoll_fd);
}

static void full_buffer_edge(void)
{
	struct epoll_event event = {.events = EPOLLOUT | EPOLLET, .data.u32 = 42};
	int fd = small_buffer(reporting_socket()), epoll_fd = epoll_create1(0);

	print_result("add", epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event));
	edges(fd, epoll_fd);
}

/* It waits before it requests SO_TXTIME. */
static void full_buffer_edge_before(void)
{
	struct txtime_option option = {CLOCK_TAI, REPORT_ERRORS | (case_deadline ? DEADLINE_MODE : 0)};
	struct epoll_event event = {.events = EPOLLOUT | EPOLLET, .data.u32 = 42};
	int fd = small_buffer(plain_socket()), epoll_fd = epoll_create1(0);

	print_result("add", epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event));
	print_result("SO_TXTIME", setsockopt(fd, SOL_SOCKET, SO_TXTIME, &option, sizeof(option)));
	edges(fd, epoll_fd);
}

/* The result of sends on a socket with one side shut down. */
static void shut_down(void)
{
	int fd = reporting_socket();
	int64_t base = tai_ns();

	print_result("reading", shutdown(fd, SHUT_RD));
	print_result("sent after that", send_text(fd, "shutdown-1", base + 100 * MS, 0));
	print_result("writing", shutdown(fd, SHUT_WR));
	print_result("sent then", send_text(fd, "shutdown-2", base + 101 * MS, 0));
	print_result("sent without waiting", send_text(fd, "shutdown-3", base + 102 * MS, MSG_DONTWAIT));
	print_result("sent again", send_text(fd, "shutdown-4", base + 103 * MS, 0));
	print_result("shut down wrongly", shutdown(fd, 7));
	settle(fd);
}

/* A socket that is not connected returns an error and is shut down nevertheless. */
static void shut_down_unconnected(void)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int64_t))];
		struct cmsghdr align;
	} control = {0};
	int fd = reporting_socket();
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	char text[] = "unconnected";
	struct iovec iov = {.iov_base = text, .iov_len = sizeof(text) - 1};
	struct msghdr message = {.msg_name = &case_to, .msg_namelen = case_to_bytes, .msg_iov = &iov};
	int64_t soon = tai_ns() + 20 * MS;

	control.align = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_TXTIME};
	control.align.cmsg_len = CMSG_LEN(sizeof(soon));
	memcpy(control.bytes + CMSG_LEN(0), &soon, sizeof(soon));
	message.msg_iovlen = 1;
	message.msg_control = control.bytes;
	message.msg_controllen = sizeof(control.bytes);
	print_result("unconnected", connect(fd, &nobody, sizeof(nobody)));
	print_result("sent", sendmsg(fd, &message, 0));
	print_result("both sides", shutdown(fd, SHUT_RDWR));
	print_result("sent then", sendmsg(fd, &message, 0));
	settle(fd);
}

/* A thread waits for space when the socket is shut down. */
static void *shut_down_later(void *argument)
{
	sleep_ms(100);
	(void)shutdown(*(int *)argument, SHUT_WR);
	return NULL;
}

static void full_buffer_shut_down(void)
{
	int fd = small_buffer(reporting_socket());
	int64_t began;
	pthread_t other;

	fill(fd, tai_ns() + 400 * MS);
	began = tai_ns();
	pthread_create(&other, NULL, shut_down_later, &fd);
	print_result("sent", send_text(fd, "full-buffer", began + 500 * MS, 0));
	print_fact("waited", "%s", yes_if(tai_ns() - began > 50 * MS));
	print_fact("waited for room", "%s", yes_if(tai_ns() - began > 350 * MS));
	pthread_join(other, NULL);
	sleep_ms(400);
	close(fd);
}

/* With IP_RECVERR, and always on a packet socket, Linux returns the error of the qdisc. */
static void immediate_error(void)
{
	int fd = reporting_socket(), on = 1;

	if (case_to.any.sa_family == AF_INET6)
		print_result("IPV6_RECVERR", setsockopt(fd, IPPROTO_IPV6, IPV6_RECVERR, &on, sizeof(on)));
	else if (case_to.any.sa_family == AF_INET)
		print_result("IP_RECVERR", setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof(on)));
	print_result("too late", send_text(fd, "told", 1000000000, 0));
	print_result("in time", send_text(fd, "told-in-time", tai_ns() + 20 * MS, 0));
	settle(fd);
}

/* The port has no listener, and the first message gets the error. */
static void refused(void)
{
	int fd = timed_socket(0);
	struct pollfd poll_fd = {.fd = fd};

	print_result("first", send_text(fd, "refused-1", tai_ns() + 5 * MS, 0));
	print_fact("an error", "%d, %#x", poll(&poll_fd, 1, 2000), (unsigned short)poll_fd.revents);
	print_result("second", send_text(fd, "refused-2", tai_ns() + 300 * MS, 0));
	print_result("third", send_text(fd, "refused-3", tai_ns() + 300 * MS, 0));
	close(fd);
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
	{"full-buffer-edge-before", full_buffer_edge_before},
	{"full-buffer-shut-down", full_buffer_shut_down},
	{"shut-down", shut_down},
	{"shut-down-unconnected", shut_down_unconnected},
	{"told-at-once", immediate_error},
	{"refused", refused},
	{0},
};
