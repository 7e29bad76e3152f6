/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that read one socket while others change it. */
#include "receive.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { READERS = 4, TOGETHER = 64, DELAY_MS = 40 };

struct readers {
	pthread_t threads[READERS];
	int fd;
	bool polls;
	int counts[TOGETHER]; /* atomic */
};

static void *reader_run(void *argument)
{
	struct readers *readers = argument;
	struct pollfd polled = {.fd = readers->fd, .events = POLLIN};
	char data[ROOM];

	for (;;) {
		long received;
		int number;

		if (readers->polls && poll(&polled, 1, 300) <= 0)
			return NULL;
		received = recv(readers->fd, data, sizeof(data) - 1, readers->polls ? MSG_DONTWAIT : 0);
		if (received < 0 && !readers->polls)
			return NULL;
		if (received < 0)
			continue;
		data[received] = '\0';
		if (sscanf(data, "a%d", &number) == 1 && number < TOGETHER)
			__atomic_fetch_add(&readers->counts[number], 1, __ATOMIC_SEQ_CST);
	}
}

static void readers_start(struct readers *readers)
{
	for (int i = 0; i < READERS; i++)
		require(pthread_create(&readers->threads[i], NULL, reader_run, readers) == 0,
			"start a thread");
}

static void readers_print(struct readers *readers)
{
	int missing = 0, twice = 0;

	for (int i = 0; i < READERS; i++)
		pthread_join(readers->threads[i], NULL);
	for (int i = 0; i < TOGETHER; i++) {
		missing += readers->counts[i] == 0;
		twice += readers->counts[i] > 1;
	}
	print_fact("of %d: missing %d, more than once %d", TOGETHER, missing, twice);
}

static void many_block(void)
{
	struct readers readers = {.fd = looked_socket()};

	wait_at_most(readers.fd, 300);
	readers_start(&readers);
	ask(readers.fd, (struct sending){.label = "a", .count = TOGETHER, .after_ms = DELAY_MS});
	readers_print(&readers);
}

static void many_look_first(void)
{
	struct readers readers = {.fd = bound_socket()};

	wait_at_most(readers.fd, 500);
	readers_start(&readers);
	ask(readers.fd, (struct sending){.label = "a", .count = TOGETHER, .after_ms = 3 * DELAY_MS});
	readers_print(&readers);
}

static void many_poll(void)
{
	struct readers readers = {.fd = looked_socket(), .polls = true};

	readers_start(&readers);
	ask(readers.fd, (struct sending){.label = "a", .count = TOGETHER, .after_ms = DELAY_MS});
	readers_print(&readers);
}

/* A thread that receives once and reports it. */
struct reader {
	pthread_t thread;
	int fd;
	bool quiet;
};

static void *reader_once(void *argument)
{
	const struct reader *reader = argument;
	char data[ROOM];

	if (reader->quiet)
		(void)recv(reader->fd, data, sizeof(data), 0);
	else
		print_received("reader", reader->fd, 0);
	return NULL;
}

static void reader_start(struct reader *reader)
{
	require(pthread_create(&reader->thread, NULL, reader_once, reader) == 0, "start a thread");
	sleep_ms(DELAY_MS);
}

static void shuts_down_during_a_read(void)
{
	struct reader reader = {.fd = connected_socket(PEER)};

	look(reader.fd);
	reader_start(&reader);
	require(shutdown(reader.fd, SHUT_RD) == 0, "shut down");
	pthread_join(reader.thread, NULL);
}

/* It is undefined what the reader gets, but it must not take datagrams for another socket. */
static void closes_during_a_read(void)
{
	struct reader reader = {.fd = looked_socket(), .quiet = true};
	int former = reader.fd, fd;

	wait_at_most(reader.fd, 400);
	reader_start(&reader);
	close(reader.fd);
	fd = looked_socket();
	print_fact("the same number: %d", fd == former);
	sent(fd, "a", 2);
	sleep_ms(DELAY_MS);
	print_rest("new", fd);
	pthread_join(reader.thread, NULL);
	sent(fd, "b", 1);
	print_rest("new", fd);
}

static void closes_a_copy_during_a_read(void)
{
	struct reader reader = {.fd = looked_socket()};
	int copy = dup(reader.fd);

	reader_start(&reader);
	close(copy);
	sent_soon(reader.fd, "a", 1);
	pthread_join(reader.thread, NULL);
}

/* One waits, another one opens and closes continually. */
static void *others_open(void *argument)
{
	int *stop = argument;

	while (!__atomic_load_n(stop, __ATOMIC_SEQ_CST)) {
		int fd = looked_socket();

		close(fd);
	}
	return NULL;
}

static void others_open_and_close(void)
{
	pthread_t thread;
	int stop = 0, fd = looked_socket(), came = 0;

	require(pthread_create(&thread, NULL, others_open, &stop) == 0, "start a thread");
	wait_at_most(fd, 2000);
	for (int i = 0; i < 20; i++) {
		sent(fd, "a", 1);
		came += recv(fd, &(char){0}, 1, 0) == 1;
	}
	__atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	print_fact("came: %d", came);
}

static void asks_for_stamps_during_a_read(void)
{
	struct reader reader = {.fd = looked_socket()};

	reader_start(&reader);
	set_int(reader.fd, SOL_SOCKET, SO_TIMESTAMP, 1);
	set_int(reader.fd, IPPROTO_IP, IP_RECVTTL, 1);
	sent_soon(reader.fd, "a", 1);
	pthread_join(reader.thread, NULL);
}

/* The ring is given up: the reader also gets later datagrams. */
static void attaches_a_filter_during_a_read(void)
{
	struct reader reader = {.fd = looked_socket()};

	reader_start(&reader);
	set_int(reader.fd, IPPROTO_UDP, 104 /* UDP_GRO */, 1);
	sent_soon(reader.fd, "a", 1);
	pthread_join(reader.thread, NULL);
}

static void connects_during_a_read(void)
{
	struct reader reader = {.fd = looked_socket()};

	reader_start(&reader);
	connect_to(reader.fd, PEER);
	ask(reader.fd, (struct sending){.label = "b", .count = 1, .source = PEER_OTHER_PORT});
	sent_soon(reader.fd, "a", 1);
	pthread_join(reader.thread, NULL);
	print_rest("rest", reader.fd);
}

/* A blocked thread is unaffected: F_SETFL applies to later calls. */
static void becomes_nonblocking_during_a_read(void)
{
	struct reader reader = {.fd = looked_socket()};

	reader_start(&reader);
	sent_soon(reader.fd, "a", 1);
	pthread_join(reader.thread, NULL);
	fcntl(reader.fd, F_SETFL, O_NONBLOCK);
	print_received("later", reader.fd, 0);
}

const struct receive_case thread_cases[] = {
	{"threads-block", many_block},
	{"threads-look-first", many_look_first},
	{"threads-poll", many_poll},
	{"shut-down-beside-a-reader", shuts_down_during_a_read},
	{"closed-beside-a-reader", closes_during_a_read},
	{"copy-closed-beside-a-reader", closes_a_copy_during_a_read},
	{"others-open-and-close", others_open_and_close},
	{"stamps-asked-for-beside-a-reader", asks_for_stamps_during_a_read},
	{"gro-asked-for-beside-a-reader", attaches_a_filter_during_a_read},
	{"connected-beside-a-reader", connects_during_a_read},
	{"does-not-block-after-a-reader", becomes_nonblocking_during_a_read},
	{NULL, NULL},
};
