/* SPDX-License-Identifier: Apache-2.0 */
#include "modes.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	PIPELINED = 16,
	UNREAD_AT_ONCE = 16,
	LINGER_S = 3,
	BUFFER_BYTES = 4096,
	/* An answer that takes this long was delayed by the attack. */
	HELD_NS = 500000000,
	NAP_US = 1000,
	/* The send buffer of the socket whose lock is held: less than a datagram that waits for a
	 * neighbor. */
	SEND_BUFFER_BYTES = 2048,
	UNRESOLVED_BYTES = 1400,
};

/* ---- a socket whose last close waits ---- */

static void lingering_close(const struct lingering *lingering)
{
	close(lingering->peer);
	close(lingering->listener);
}

int lingering_open(struct lingering *lingering, int linger_s)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct linger linger = {.l_onoff = 1, .l_linger = linger_s};
	socklen_t length = sizeof(address);
	static char block[65536];
	/* Small buffers fill quickly. */
	const int bytes = BUFFER_BYTES;

	lingering->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	lingering->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)setsockopt(lingering->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	(void)setsockopt(lingering->listener, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (bind(lingering->listener, (struct sockaddr *)&address, length) ||
	    listen(lingering->listener, 1) ||
	    getsockname(lingering->listener, (struct sockaddr *)&address, &length) ||
	    connect(lingering->fd, (struct sockaddr *)&address, length))
		return -errno;
	lingering->peer = accept(lingering->listener, NULL, NULL);
	while (send(lingering->fd, block, sizeof(block), MSG_DONTWAIT) > 0)
		;
	return setsockopt(lingering->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) ? -errno : 0;
}

/* ---- an answer ---- */

/* Waits for the answer however long it takes. Returns whether it was delayed. */
static int answer_await(struct client *client, int64_t asked_ns, long *held)
{
	struct ktsn_app_reply reply;
	int err;

	do
		err = client_receive(client, &reply);
	while (err == -ETIMEDOUT);
	*held += now_ns(CLOCK_MONOTONIC) - asked_ns > HELD_NS;
	return err;
}

/* Passes a descriptor after requests that keep ktsnd busy and closes its own copy meanwhile: the last
 * close is ktsnd's. */
static int lingering_pass(struct client *client, long *held)
{
	struct ktsn_app_request request = client_request(KTSN_APP_FLOW_OPEN);
	struct lingering lingering;
	int64_t asked_ns = now_ns(CLOCK_MONOTONIC);
	int asked = 0, err = lingering_open(&lingering, LINGER_S);

	if (err)
		return err;
	while (asked < PIPELINED && client_send(client, &request, sizeof(request), lingering.fd) == 0)
		asked++;
	close(lingering.fd);
	for (; asked > 0 && !err; asked--)
		err = answer_await(client, asked_ns, held);
	lingering_close(&lingering);
	return err;
}

static int passed_print(struct client *client, int err, long passed, long held)
{
	result_print("passed", passed);
	result_print("held", held);
	client_close(client);
	return err ? complain("have an answer", err) : 0;
}

static int mode_linger(const struct target *target)
{
	struct client client;
	long passed = 0, held = 0;
	int err = client_open(&client, target);

	if (err)
		return complain("get a ring and a flow", err);
	for (; time_left(target) && !err; passed++)
		err = lingering_pass(&client, &held);
	return passed_print(&client, err, passed, held);
}

/* ---- a notifier with something in its queue ---- */

struct notifier {
	int near_fd, far_fd;
	struct sockaddr_un near_name;
};

static int notifier_open(struct notifier *notifier)
{
	const struct sockaddr any = {.sa_family = AF_UNIX};
	socklen_t bytes = sizeof(notifier->near_name);
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds) ||
	    bind(fds[0], &any, sizeof(any.sa_family)) || bind(fds[1], &any, sizeof(any.sa_family)) ||
	    getsockname(fds[0], (struct sockaddr *)&notifier->near_name, &bytes))
		return -errno;
	notifier->near_fd = fds[0];
	notifier->far_fd = fds[1];
	return 0;
}

/* Finds the address of ktsnd's end and discards everything in the queue. */
static int notifier_fill(const struct notifier *notifier)
{
	struct client sender = {.fd = notifier->near_fd};
	struct lingering lingering;
	int err = lingering_open(&lingering, LINGER_S);

	if (!err)
		err = client_send(&sender, "", 1, lingering.fd);
	if (!err)
		close(lingering.fd);
	return err;
}

/* Passes a notifier with a socket in its queue: disconnecting it closes that socket. */
static int notifier_pass(struct client *client, long *held)
{
	struct ktsn_app_request request = client_request(KTSN_APP_FLOW_WAKE);
	int64_t asked_ns = now_ns(CLOCK_MONOTONIC);
	struct notifier notifier = {0};
	int err = notifier_open(&notifier);

	if (!err)
		err = notifier_fill(&notifier);
	request.flow = client->flow;
	request.flags = KTSN_APP_WAKE_REPORT;
	for (int i = 0; i < KTSN_APP_NOTIFIER_NAME_BYTES; i++)
		request.address[i] = (uint8_t)notifier.near_name.sun_path[i];
	if (!err)
		err = client_send(client, &request, sizeof(request), notifier.far_fd);
	if (err)
		return err;
	close(notifier.far_fd);
	err = answer_await(client, asked_ns, held);
	close(notifier.near_fd);
	return err;
}

static int mode_notifier(const struct target *target)
{
	struct client client;
	long passed = 0, held = 0;
	int err = client_open(&client, target);

	if (err)
		return complain("get a ring and a flow", err);
	for (; time_left(target) && !err; passed++)
		err = notifier_pass(&client, &held);
	return passed_print(&client, err, passed, held);
}

/* ---- a socket whose lock is held ---- */

struct lock_holder {
	const struct target *target;
	int fd;
};

/*
 * Messages to an address that does not answer fill the buffer; the next one, corked, waits for room with the
 * lock held. On a busy machine it takes the lock again before the waiting thread runs, so ktsnd gets the lock
 * only when the time is over.
 */
static void *lock_hold(void *argument)
{
	static char block[UNRESOLVED_BYTES];
	const struct lock_holder *holder = argument;

	while (time_left(holder->target)) {
		if (send(holder->fd, block, sizeof(block), MSG_DONTWAIT) >= 0)
			continue;
		if (errno == EAGAIN)
			(void)send(holder->fd, block, sizeof(block), MSG_MORE);
		else
			usleep(NAP_US);
	}
	return NULL;
}

/* To an unused address of its own link. */
static int locked_socket(const struct target *target)
{
	const int bytes = SEND_BUFFER_BYTES;
	struct sockaddr_in nobody = target->to;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	nobody.sin_addr.s_addr = htonl((ntohl(nobody.sin_addr.s_addr) & 0xffffff00) | 251);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	return connect(fd, (const struct sockaddr *)&nobody, sizeof(nobody)) ? -errno : fd;
}

static int mode_locked(const struct target *target)
{
	struct ktsn_app_request request = client_request(KTSN_APP_FLOW_OPEN);
	struct lock_holder holder = {target, locked_socket(target)};
	struct client client;
	pthread_t thread;
	long passed = 0, held = 0;
	int err = client_open(&client, target);

	if (err || holder.fd < 0 || pthread_create(&thread, NULL, lock_hold, &holder))
		return complain("get a ring and a flow", err ? err : holder.fd);
	while (time_left(target) && !err) {
		int64_t asked_ns = now_ns(CLOCK_MONOTONIC);

		err = client_send(&client, &request, sizeof(request), holder.fd);
		if (!err)
			err = answer_await(&client, asked_ns, &held);
		passed++;
	}
	pthread_join(thread, NULL);
	return passed_print(&client, err, passed, held);
}

/* ---- unread messages ---- */

/* Sends and ends before ktsnd reads it: the messages and their descriptors are closed with the connection. */
static int unread_leave(const struct target *target, const struct lingering *lingering)
{
	struct ktsn_app_request request = client_request(KTSN_APP_FLOW_OPEN);
	struct client client;
	int err = client_connect(&client, target);

	if (err)
		return err;
	/* The first message is no request: ktsnd closes the connection because of it. */
	(void)client_send(&client, &request, 1, -1);
	(void)client_send(&client, &request, sizeof(request), lingering->fd);
	close(lingering->fd);
	client_close(&client);
	return 0;
}

/* So fast that ktsnd reads some of them too late. */
static int unread_leave_all(const struct target *target, long *left)
{
	struct lingering lingering[UNREAD_AT_ONCE];
	int err = 0;

	for (int i = 0; i < UNREAD_AT_ONCE && !err; i++)
		err = lingering_open(&lingering[i], LINGER_S);
	for (int i = 0; i < UNREAD_AT_ONCE && !err; i++, (*left)++)
		err = unread_leave(target, &lingering[i]);
	if (err)
		return err;
	/* Until then their last close waits. */
	usleep(LINGER_S * 1000000);
	for (int i = 0; i < UNREAD_AT_ONCE; i++)
		lingering_close(&lingering[i]);
	return 0;
}

static int mode_unread(const struct target *target)
{
	long left = 0;
	int err = 0;

	while (time_left(target) && !err)
		err = unread_leave_all(target, &left);
	result_print("left", left);
	return err ? complain("leave something unread", err) : 0;
}

/* ---- a benign pod ---- */

/* Like libktsn at the start of an application. */
static int mode_ask(const struct target *target)
{
	int64_t longest_ns = 0;
	long asked = 0;

	for (; time_left(target); asked++) {
		int64_t began_ns = now_ns(CLOCK_MONOTONIC), took_ns;
		struct client client;
		int err = client_open(&client, target);

		if (err)
			return complain("get a ring and a flow", err);
		client_close(&client);
		took_ns = now_ns(CLOCK_MONOTONIC) - began_ns;
		longest_ns = took_ns > longest_ns ? took_ns : longest_ns;
		usleep(10 * NAP_US);
	}
	result_print("asked", asked);
	result_print("longest-us", longest_ns / 1000);
	return 0;
}

const struct mode holding_modes[] = {
	{"linger", mode_linger, "passes sockets whose close would wait"},
	{"notifier", mode_notifier,
	 "queues sockets whose close would wait on the notifier that it handed over"},
	{"locked", mode_locked, "passes a socket whose lock it holds"},
	{"unread", mode_unread, "leaves such sockets in connections that were not read"},
	{"ask", mode_ask, "sends valid requests, and prints the longest time to a reply"},
	{0},
};
