/* SPDX-License-Identifier: Apache-2.0 */
/* Epoll sets that are changed by io_uring and not by epoll_ctl(), as event loops of libuv do. */
#include "receive.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#define SYS_io_uring_enter 426
#endif

enum {
	OP_EPOLL_CTL = 29,
	ENTER_GETEVENTS = 1,
	REQUESTS_AT = 0x10000000, /* IORING_OFF_SQES */
	RING_BYTES = 4096,
};

/* <linux/io_uring.h> */
struct uring_request {
	uint8_t operation, flags;
	uint16_t priority;
	int32_t fd;
	uint64_t offset, address;
	uint32_t length, rest[9];
};

struct uring_parameters {
	uint32_t entries, rest[9];
	struct uring_submissions {
		uint32_t head, tail, mask, entries, flags, dropped, array, rest[3];
	} submissions;
	struct uring_completions {
		uint32_t head, tail, mask, entries, overflow, completions, rest[4];
	} completions;
};

/* A ring of one request at a time. */
struct uring {
	int fd;
	uint8_t *words; /* both queues: IORING_FEAT_SINGLE_MMAP */
	struct uring_request *request;
	struct uring_parameters parameters;
};

static bool uring_open(struct uring *ring)
{
	void *words, *requests;

	*ring = (struct uring){.fd = -1};
	ring->fd = (int)syscall(SYS_io_uring_setup, 1, &ring->parameters);
	if (ring->fd < 0)
		return false; /* kernel.io_uring_disabled */
	words = mmap(NULL, RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
	requests =
		mmap(NULL, sizeof(*ring->request), PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, REQUESTS_AT);
	require(words != MAP_FAILED && requests != MAP_FAILED, "map an io_uring");
	ring->words = words;
	ring->request = requests;
	return true;
}

static _Atomic uint32_t *word(const struct uring *ring, uint32_t offset)
{
	return (_Atomic uint32_t *)(void *)(ring->words + offset);
}

/* Returns the kernel's result: 0 or -errno. */
static int uring_epoll_ctl(struct uring *ring, int set, int operation, int fd, struct epoll_event *event)
{
	const struct uring_completions *done = &ring->parameters.completions;
	const struct uring_submissions *sent = &ring->parameters.submissions;
	/* Results of 16 bytes: the request's data, then the result. */
	uint32_t slot = atomic_load(word(ring, done->head)) & *word(ring, done->mask);

	*ring->request = (struct uring_request){.operation = OP_EPOLL_CTL,
						.fd = set,
						.offset = (uint64_t)fd,
						.address = (uint64_t)(uintptr_t)event,
						.length = (uint32_t)operation};
	*word(ring, sent->array) = 0;
	atomic_fetch_add(word(ring, sent->tail), 1);
	require(syscall(SYS_io_uring_enter, ring->fd, 1, 1, ENTER_GETEVENTS, NULL, 0) == 1,
		"enter an io_uring");
	atomic_fetch_add(word(ring, done->head), 1);
	return (int32_t)*word(ring, done->completions + slot * 16 + 8);
}

static int epoll_set(void)
{
	int set = epoll_create1(EPOLL_CLOEXEC);

	require(set >= 0, "make a set");
	return set;
}

static void wait_in_a_set(struct uring *ring, int set, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	print_fact("add: %d", uring_epoll_ctl(ring, set, EPOLL_CTL_ADD, fd, &event));
	for (int i = 0; i < 3; i++) {
		sent_soon(fd, "a", 2);
		print_fact("until they come: %s", result_name(epoll_wait(set, &event, 1, 5000)));
		all_sent();
		print_rest("receive", fd);
	}
	print_fact("delete: %d", uring_epoll_ctl(ring, set, EPOLL_CTL_DEL, fd, NULL));
}

static void is_put_into_a_set_by_io_uring(void)
{
	int set = epoll_set();
	struct uring ring;

	if (uring_open(&ring))
		wait_in_a_set(&ring, set, looked_socket());
	else
		print_fact("no io_uring");
}

/* The sockets are read before the process has an io_uring. */
static void makes_an_io_uring_later(void)
{
	int set = epoll_set(), fd = looked_socket(), copy = dup(looked_socket());
	struct uring ring;

	sent(fd, "before", 2);
	sent(copy, "other", 1);
	if (!uring_open(&ring)) {
		print_fact("no io_uring");
		return;
	}
	print_rest("before it", fd);
	wait_in_a_set(&ring, set, fd);
	print_rest("before it, of another socket", copy);
	wait_in_a_set(&ring, set, copy);
}

/* The child of vfork has its own descriptors and the memory of its parent. */
static void a_child_makes_an_io_uring(void)
{
	struct uring_parameters parameters = {0};
	int fd = looked_socket();
	pid_t child;

	sent(fd, "before", 1);
	print_rest("before", fd);
	child = vfork();
	if (child == 0) {
		(void)syscall(SYS_io_uring_setup, 1, &parameters);
		_exit(0);
	}
	wait_for(child);
	sent(fd, "afterwards", 2);
	print_rest("afterwards", fd);
}

const struct receive_case uring_cases[] = {
	{"epoll-by-io-uring", is_put_into_a_set_by_io_uring},
	{"epoll-by-io-uring-made-later", makes_an_io_uring_later},
	{"io-uring-of-a-vforked-child", a_child_makes_an_io_uring},
	{NULL, NULL},
};
