/* SPDX-License-Identifier: Apache-2.0 */
/* Signals while a call waits. */
#include "receive.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <unistd.h>

enum { SIGNAL_MS = 40 };

static volatile sig_atomic_t signals;

static void on_signal(int signal)
{
	(void)signal;
	signals = signals + 1;
}

/* One signal, a little later. */
static void signal_soon(int flags)
{
	struct itimerval soon = {.it_value.tv_usec = SIGNAL_MS * 1000};
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_signal;
	action.sa_flags = flags;
	signals = 0;
	require(sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &soon, NULL) == 0,
		"have a signal sent");
}

static void ends_a_call(void)
{
	int fd = looked_socket();
	char data[ROOM];
	struct iovec piece = {data, sizeof(data)};
	struct mmsghdr message = {.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}};

	signal_soon(0);
	print_received("recvfrom", fd, 0);
	signal_soon(0);
	print_fact("read: %s", result_name(read(fd, data, sizeof(data))));
	signal_soon(0);
	print_fact("recvmmsg: %s", result_name(recvmmsg(fd, &message, 1, 0, NULL)));
	print_fact("signals: %d", (int)signals);
	sent(fd, "a", 1);
	print_rest("rest", fd);
}

/* Long enough after the signal. */
static void ask_later(int fd)
{
	ask(fd, (struct sending){.label = "a", .count = 1, .after_ms = 3 * SIGNAL_MS});
}

static void does_not_end_a_call(void)
{
	int fd = looked_socket();
	char data[ROOM];
	long received;

	ask_later(fd);
	signal_soon(SA_RESTART);
	print_received("recvfrom", fd, 0);
	print_fact("signals: %d", (int)signals);
	ask_later(fd);
	signal_soon(SA_RESTART);
	received = read(fd, data, sizeof(data));
	print_fact("read: %s %s", result_name(received), text_of(data, received));
	print_fact("signals: %d", (int)signals);
}

/* A call with a time-out is not restarted. */
static void ends_a_call_within_a_time(void)
{
	int fd = looked_socket();

	wait_at_most(fd, 5000);
	signal_soon(SA_RESTART);
	print_received("recvfrom", fd, 0);
	signal_soon(0);
	print_received("recvfrom", fd, 0);
}

static void is_ignored(void)
{
	int fd = looked_socket();

	ask_later(fd);
	signal_soon(0);
	signal(SIGALRM, SIG_IGN);
	print_received("recvfrom", fd, 0);
	print_fact("signals: %d", (int)signals);
}

static void ends_waiting(void)
{
	int fd = looked_socket(), set = epoll_create1(0);
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	struct epoll_event event = {.events = EPOLLIN};
	fd_set in;

	require(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0, "put a socket into a set");
	signal_soon(SA_RESTART);
	print_fact("poll: %s", result_name(poll(&polled, 1, -1)));
	signal_soon(SA_RESTART);
	FD_ZERO(&in);
	FD_SET(fd, &in);
	print_fact("select: %s", result_name(select(fd + 1, &in, NULL, NULL, NULL)));
	signal_soon(SA_RESTART);
	print_fact("epoll_wait: %s", result_name(epoll_wait(set, &event, 1, -1)));
	print_fact("signals: %d", (int)signals);
}

/* The signal is blocked except in the wait itself, so it is not lost between check and wait. */
static void is_let_in_while_it_waits(void)
{
	int fd = looked_socket();
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	sigset_t blocked, before;
	fd_set in;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGALRM);
	sigprocmask(SIG_BLOCK, &blocked, &before);
	signal_soon(0);
	sleep_ms(2 * SIGNAL_MS);
	print_fact("signals: %d", (int)signals);
	print_fact("ppoll: %s", result_name(ppoll(&polled, 1, NULL, &before)));
	print_fact("signals: %d", (int)signals);
	signal_soon(0);
	sleep_ms(2 * SIGNAL_MS);
	FD_ZERO(&in);
	FD_SET(fd, &in);
	print_fact("pselect: %s", result_name(pselect(fd + 1, &in, NULL, NULL, NULL, &before)));
	print_fact("signals: %d", (int)signals);
}

static int read_by_handler;

static void on_signal_receive(int signal)
{
	char data[ROOM];
	int error = errno;

	(void)signal;
	while (recv(read_by_handler, data, sizeof(data), MSG_DONTWAIT) >= 0)
		signals = signals + 1;
	errno = error;
}

static void handler_receives(void)
{
	struct sigaction action;
	int fd = looked_socket(), by_program = 0;
	char data[ROOM];

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_signal_receive;
	action.sa_flags = SA_RESTART;
	read_by_handler = fd;
	require(sigaction(SIGUSR1, &action, NULL) == 0, "handle a signal");
	sent(fd, "a", 3);
	raise(SIGUSR1);
	print_fact("by the handler: %d", (int)signals);
	for (int i = 0; i < 20; i++) {
		sent(fd, "a", 2);
		by_program += recv(fd, data, sizeof(data), MSG_DONTWAIT) >= 0;
		raise(SIGUSR1);
	}
	print_fact("together: %d", (int)signals + by_program);
}

const struct receive_case interrupt_cases[] = {
	{"signal-ends-a-call", ends_a_call},
	{"signal-does-not-end-a-call", does_not_end_a_call},
	{"signal-ends-a-call-within-a-time", ends_a_call_within_a_time},
	{"signal-ignored", is_ignored},
	{"signal-ends-waiting", ends_waiting},
	{"signal-let-in-while-it-waits", is_let_in_while_it_waits},
	{"signal-handler-receives", handler_receives},
	{NULL, NULL},
};
