/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets across fork. */
#include "receive.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOGETHER = 40 };

static void child_reads(void)
{
	int fd = looked_socket();
	pid_t child;

	sent(fd, "a", 2);
	child = fork();
	if (child == 0) {
		print_rest("child", fd);
		sent(fd, "b", 2);
		print_rest("child", fd);
		_exit(0);
	}
	wait_for(child);
	sent(fd, "c", 2);
	print_rest("parent", fd);
}

static void child_waits(void)
{
	int fd = looked_socket();
	pid_t child = fork();

	if (child == 0) {
		struct pollfd polled = {.fd = fd, .events = POLLIN};

		sent_soon(fd, "a", 1);
		print_fact("child: %s", result_name(poll(&polled, 1, 5000)));
		print_rest("child", fd);
		sent_soon(fd, "b", 1);
		print_received("child", fd, 0);
		_exit(0);
	}
	wait_for(child);
	sent_soon(fd, "c", 1);
	print_received("parent", fd, 0);
}

static void child_looks_first(void)
{
	int fd = bound_socket();
	pid_t child = fork();

	if (child == 0) {
		look(fd);
		sent(fd, "a", 2);
		print_received("child", fd, 0);
		_exit(0);
	}
	wait_for(child);
	/* The process with the ring, if any, has ended, and datagrams in it may be lost, as
	 * docs/reference/receiving.md says about exec. */
	while (recv(fd, &(char){0}, 1, MSG_DONTWAIT) >= 0)
		;
	sent_soon(fd, "b", 1);
	print_received("parent", fd, 0);
}

/* Each process counts its datagrams by the number in the label. */
static void count_own(int fd, _Atomic uint8_t *counts)
{
	char data[ROOM];

	wait_at_most(fd, 200);
	for (;;) {
		long received = recv(fd, data, sizeof(data) - 1, 0);
		int number;

		if (received < 0)
			return;
		data[received] = '\0';
		if (sscanf(data, "a%d", &number) == 1 && number < TOGETHER)
			atomic_fetch_add(&counts[number], 1);
	}
}

static void print_counts(_Atomic uint8_t *counts)
{
	int missing = 0, twice = 0;

	for (int i = 0; i < TOGETHER; i++) {
		missing += counts[i] == 0;
		twice += counts[i] > 1;
	}
	print_fact("of %d: missing %d, more than once %d", TOGETHER, missing, twice);
}

static void both_read(void)
{
	_Atomic uint8_t *counts =
		mmap(NULL, TOGETHER, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int fd = looked_socket();
	pid_t child;

	require(counts != MAP_FAILED, "map memory");
	ask(fd, (struct sending){.label = "a", .count = TOGETHER, .after_ms = 30});
	child = fork();
	count_own(fd, counts);
	if (child == 0)
		_exit(0);
	wait_for(child);
	print_counts(counts);
}

/* Then only the child has the socket. */
static void parent_closes(void)
{
	int fd = looked_socket(), ends[2];
	pid_t child;
	char go;

	require(pipe(ends) == 0, "make a pipe");
	child = fork();
	if (child == 0) {
		require(read(ends[0], &go, 1) == 1, "wait for the parent");
		sent_soon(fd, "a", 2);
		print_received("child", fd, 0);
		sent_soon(fd, "b", 1);
		print_sorted("child", fd, 2);
		_exit(0);
	}
	close(fd);
	require(write(ends[1], "x", 1) == 1, "say go");
	wait_for(child);
}

static void parent_ends(void)
{
	int fd = looked_socket(), ends[2];
	pid_t parent = fork(), child;
	char rest;

	/* The first process stays because its parent waits for it. */
	if (parent) {
		wait_for(parent);
		return;
	}
	require(pipe(ends) == 0, "make a pipe");
	look(fd);
	child = fork();
	if (child) {
		close(ends[1]);
		require(read(ends[0], &rest, 1) == 0, "wait for the child");
		_exit(0);
	}
	close(ends[0]);
	sent_soon(fd, "a", 1);
	print_received("grandchild", fd, 0);
	_exit(0);
}

const struct receive_case process_cases[] = {
	{"forked-and-the-child-reads", child_reads},
	{"forked-and-the-child-waits", child_waits},
	{"forked-and-the-child-looks-first", child_looks_first},
	{"forked-and-both-read", both_read},
	{"forked-and-the-parent-closes", parent_closes},
	{"forked-and-the-parent-ends", parent_ends},
	{NULL, NULL},
};
