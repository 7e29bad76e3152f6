/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that refuses, and which call gets the error. */
#include "receive.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

enum { NOBODYS_PORT = 9, BATCH = 3 };

/* The socket gets this peer's errors, but not the datagrams that the peer sends. */
static void connect_to_unused_port(int fd)
{
	union socket_address nobody = source_address(PEER);

	if (nobody.any.sa_family == AF_INET)
		nobody.in.sin_port = htons(NOBODYS_PORT);
	else
		nobody.in6.sin6_port = htons(NOBODYS_PORT);
	require(connect(fd, &nobody.any, address_bytes()) == 0, "connect a socket");
}

static int refusable_socket(void)
{
	int fd = unbound_socket();

	connect_to_unused_port(fd);
	look(fd);
	return fd;
}

static void be_refused(int fd)
{
	struct pollfd polled = {.fd = fd};

	/* The next send gets a pending error. */
	if (send(fd, "x", 1, 0) != 1)
		print_fact("send: %s", result_name(-1));
	require(poll(&polled, 1, 5000) == 1 && polled.revents & POLLERR, "be refused");
}

/* Earlier datagrams stay when the socket is connected to another peer. */
static int refusable_socket_with_datagrams(int count)
{
	int fd = connected_socket(PEER);

	look(fd);
	sent(fd, "a", count);
	connect_to_unused_port(fd);
	return fd;
}

static void print_error(const char *label, int fd)
{
	int error = -1;
	socklen_t bytes = sizeof(error);

	require(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0, "read an option");
	print_fact("%s: SO_ERROR is %s", label, error ? error_name(error) : "none");
}

/* Blocking calls get it immediately. */
static void recv_gets_the_error(void)
{
	int fd = refusable_socket();

	be_refused(fd);
	print_received("first", fd, 0);
	print_received("then", fd, MSG_DONTWAIT);
	be_refused(fd);
	print_fact("read: %s", result_name(read(fd, &(char){0}, 1)));
	print_received("then", fd, MSG_DONTWAIT);
	print_error("then", fd);
	be_refused(fd);
	print_error("option", fd);
	print_received("then", fd, MSG_DONTWAIT);
}

static void waiting_recv_gets_the_error(void)
{
	int fd = refusable_socket();
	pid_t child = fork();

	if (child == 0) {
		sleep_ms(50);
		require(send(fd, "x", 1, 0) == 1, "send");
		_exit(0);
	}
	print_received("waits", fd, 0);
	wait_for(child);
	print_received("then", fd, MSG_DONTWAIT);
}

static void unblocking_recv_gets_the_error_after_poll(void)
{
	int fd = refusable_socket();
	struct pollfd polled = {.fd = fd, .events = POLLIN};

	fcntl(fd, F_SETFL, O_NONBLOCK);
	for (int i = 0; i < 3; i++) {
		require(send(fd, "x", 1, 0) == 1, "send");
		print_fact("poll: %s", result_name(poll(&polled, 1, 5000)));
		print_fact("%x", (unsigned int)polled.revents);
		print_received("receive", fd, 0);
		print_received("then", fd, 0);
		print_fact("poll: %s", result_name(poll(&polled, 1, 0)));
	}
}

static void select_gets_the_error(void)
{
	int fd = refusable_socket();
	fd_set in;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	be_refused(fd);
	print_fact("select: %s", result_name(select(fd + 1, &in, NULL, NULL, NULL)));
	print_fact("member: %d", !!FD_ISSET(fd, &in));
	print_received("receive", fd, MSG_DONTWAIT);
}

static void epoll_gets_the_error(void)
{
	int fd = refusable_socket(), set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};

	require(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0, "put a socket into a set");
	for (int i = 0; i < 2; i++) {
		be_refused(fd);
		print_fact("epoll_wait: %s", result_name(epoll_wait(set, &event, 1, 5000)));
		print_fact("%x", (unsigned int)event.events);
		print_received("receive", fd, MSG_DONTWAIT);
	}
}

/* An error precedes all datagrams. */
static void error_comes_first(void)
{
	int fd = refusable_socket_with_datagrams(3);

	be_refused(fd);
	/* A call that may block gets it as well. */
	sleep_ms(20);
	print_received("first", fd, 0);
	print_received("second", fd, 0);
	be_refused(fd);
	sleep_ms(20);
	print_received("third", fd, MSG_DONTWAIT);
	print_rest("rest", fd);
}

static void print_batch(const char *label, int fd, int flags)
{
	char data[BATCH][16];
	struct iovec pieces[BATCH];
	struct mmsghdr messages[BATCH];
	int received;

	memset(messages, 0, sizeof(messages));
	for (int i = 0; i < BATCH; i++) {
		pieces[i] = (struct iovec){data[i], sizeof(data[i])};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
	}
	received = recvmmsg(fd, messages, BATCH, flags, NULL);
	print_fact("%s: %s", label, result_name(received));
	for (int i = 0; i < received; i++)
		print_fact("%s %d: %s", label, i, text_of(data[i], messages[i].msg_len));
}

static void recvmmsg_gets_the_error(void)
{
	int fd = refusable_socket_with_datagrams(2);

	be_refused(fd);
	sleep_ms(20);
	print_batch("first", fd, MSG_DONTWAIT);
	print_batch("then", fd, MSG_DONTWAIT);
	print_batch("nothing there", fd, MSG_DONTWAIT);
}

/* It ends the call and belongs to the next one. */
static void recvmmsg_gets_the_error_after_a_datagram(void)
{
	int fd = refusable_socket_with_datagrams(1);
	pid_t child = fork();

	if (child == 0) {
		sleep_ms(50);
		require(send(fd, "x", 1, 0) == 1, "send");
		_exit(0);
	}
	print_batch("until it is refused", fd, 0);
	wait_for(child);
	print_received("then", fd, MSG_DONTWAIT);
	print_received("nothing there", fd, MSG_DONTWAIT);
}

/* An unconnected socket gets no error. */
static void unconnected_gets_no_error(void)
{
	union socket_address nobody = source_address(PEER);
	int fd = looked_socket();

	if (nobody.any.sa_family == AF_INET)
		nobody.in.sin_port = htons(NOBODYS_PORT);
	else
		nobody.in6.sin6_port = htons(NOBODYS_PORT);
	require(sendto(fd, "x", 1, 0, &nobody.any, address_bytes()) == 1, "send");
	sleep_ms(50);
	print_error("unconnected", fd);
	sent(fd, "a", 1);
	print_rest("receive", fd);
}

const struct receive_case error_cases[] = {
	{"refused", recv_gets_the_error},
	{"refused-while-it-waits", waiting_recv_gets_the_error},
	{"refused-and-polled", unblocking_recv_gets_the_error_after_poll},
	{"refused-and-selected", select_gets_the_error},
	{"refused-and-in-a-set", epoll_gets_the_error},
	{"refused-with-datagrams-there", error_comes_first},
	{"refused-before-recvmmsg", recvmmsg_gets_the_error},
	{"refused-within-recvmmsg", recvmmsg_gets_the_error_after_a_datagram},
	{"refused-without-a-connection", unconnected_gets_no_error},
	{NULL, NULL},
};
