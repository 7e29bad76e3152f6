/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of set-up, ways to send, and threads. */
#include "shape.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { THREADS = 8, EACH = 4, FORKS = 4 };

static void asks_after_connect(void)
{
	int fd = untimed_socket();

	ask_for_txtime(fd);
	send_three(fd, "a");
}

static void bind_to_any_port(int fd)
{
	struct sockaddr_in any = {.sin_family = AF_INET};

	check(bind(fd, (struct sockaddr *)&any, sizeof(any)) == 0, "bind a socket");
}

static void asks_before_bind_and_connect(void)
{
	int fd = udp_socket();

	ask_for_txtime(fd);
	bind_to_any_port(fd);
	connect_to(fd, &arguments.to);
	send_three(fd, "a");
}

static void send_to_two(int fd)
{
	send_at_to(fd, "a", 210, &arguments.to);
	send_at_to(fd, "b", 190, &arguments.also_to);
	send_at_to(fd, "c", 200, &arguments.to);
	send_at_to(fd, "d", 195, &arguments.also_to);
}

static void bound_and_unconnected(void)
{
	int fd = udp_socket();

	ask_for_txtime(fd);
	bind_to_any_port(fd);
	send_to_two(fd);
}

static void neither_bound_nor_connected(void)
{
	int fd = udp_socket();

	ask_for_txtime(fd);
	send_to_two(fd);
}

static void connected_and_another_address_named(void)
{
	send_to_two(timed_socket());
}

static void connected_again(void)
{
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	int fd = timed_socket();

	send_at(fd, "first", 210);
	connect_to(fd, &arguments.also_to);
	send_at(fd, "second", 190);
	check(connect(fd, &none, sizeof(none)) == 0, "dissolve a connection");
	send_at_to(fd, "third", 200, &arguments.to);
}

static void sendmmsg_of_timed_and_untimed(void)
{
	send_mixed(timed_socket());
}

static void timed_and_untimed_in_turns(void)
{
	int fd = timed_socket();

	send_now(fd, "untimed1");
	send_at(fd, "timed1", 200);
	send_now(fd, "untimed2");
	send_at(fd, "timed2", 190);
}

struct sender {
	pthread_t thread;
	int index;
	int fd; /* -1: a socket of its own */
};

static void *sender_run(void *argument)
{
	const struct sender *sender = argument;
	int fd = sender->fd >= 0 ? sender->fd : timed_socket();
	char label[32];

	/* Later threads and later calls have earlier times. */
	for (int i = 0; i < EACH; i++) {
		snprintf(label, sizeof(label), "thread%d.%d", sender->index, i);
		send_at(fd, label, 240 - sender->index - THREADS * i);
	}
	return NULL;
}

static void senders_start(struct sender *senders, int fd)
{
	for (int i = 0; i < THREADS; i++) {
		senders[i] = (struct sender){.index = i, .fd = fd};
		check(pthread_create(&senders[i].thread, NULL, sender_run, &senders[i]) == 0,
		      "start a thread");
	}
}

static void senders_join(struct sender *senders)
{
	for (int i = 0; i < THREADS; i++)
		pthread_join(senders[i].thread, NULL);
}

static void threads_on_one_socket(void)
{
	struct sender senders[THREADS];

	senders_start(senders, timed_socket());
	senders_join(senders);
}

static void threads_on_sockets_of_their_own(void)
{
	struct sender senders[THREADS];

	senders_start(senders, -1);
	senders_join(senders);
}

static void threads_while_others_fork(void)
{
	struct sender senders[THREADS];
	pid_t children[FORKS];
	int fd = timed_socket();

	senders_start(senders, fd);
	for (int i = 0; i < FORKS; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			char label[] = "child0";

			label[strlen(label) - 1] += (char)i;
			send_at(fd, label, 250 + i);
			_exit(failure_count() ? 1 : 0);
		}
	}
	senders_join(senders);
	for (int i = 0; i < FORKS; i++)
		wait_for(children[i]);
}

void keep_sending(void)
{
	enum { TICKS = 65, TICK_MS = 100, LEAD_MS = 30 };
	int fd = timed_socket();

	send_at(fd, "future", 3000);
	send_at(fd, "passing", 700);
	for (int i = 1; i <= TICKS; i++) {
		char label[32];

		/* Not relative to the previous call: a slow call while ktsnd is away would delay all later
		 * ones. */
		sleep_until(i * TICK_MS);
		snprintf(label, sizeof(label), "tick%d", i);
		send_at(fd, label, i * TICK_MS + LEAD_MS);
	}
}

void keep_opening(void)
{
	enum { SOCKETS = 100, PAUSE_MS = 5 };

	for (int i = 1; i <= SOCKETS; i++) {
		int fd = udp_socket();
		char label[32];

		ask_for_txtime(fd);
		connect_to(fd, i % 2 ? &arguments.to : &arguments.also_to);
		snprintf(label, sizeof(label), "socket%d", i);
		send_at(fd, label, 1500 + i);
		usleep(PAUSE_MS * 1000);
	}
}

const struct shape sending_shapes[] = {
	{"asks-after-connect", asks_after_connect},
	{"asks-before-bind-and-connect", asks_before_bind_and_connect},
	{"bound-and-unconnected", bound_and_unconnected},
	{"neither-bound-nor-connected", neither_bound_nor_connected},
	{"connected-and-another-address-named", connected_and_another_address_named},
	{"connected-anew", connected_again},
	{"sendmmsg-of-timed-and-untimed", sendmmsg_of_timed_and_untimed},
	{"timed-and-untimed-in-turns", timed_and_untimed_in_turns},
	{"threads-on-one-socket", threads_on_one_socket},
	{"threads-on-sockets-of-their-own", threads_on_sockets_of_their_own},
	{"threads-while-others-fork", threads_while_others_fork},
	{NULL, NULL},
};
