/* SPDX-License-Identifier: Apache-2.0 */
/* A ring of one request at a time, by raw system calls: io_uring_setup(2), io_uring_enter(2). */
#include "captured.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ENTRIES = 4 };

static struct {
	int fd;
	struct io_uring_params params;
	uint8_t *submissions;
	uint8_t *completions;
	struct io_uring_sqe *requests;
} ring;

static _Atomic uint32_t *word(uint8_t *operation, uint32_t offset)
{
	return (_Atomic uint32_t *)(void *)(operation + offset);
}

static void *map(size_t bytes, off_t label)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, label);

	return at == MAP_FAILED ? NULL : at;
}

static int open_ring(void)
{
	const struct io_uring_params *params = &ring.params;

	ring.fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &ring.params);
	if (ring.fd < 0)
		return errno == EPERM ? -ENOSYS : -errno; /* kernel.io_uring_disabled */
	ring.submissions =
		map(params->sq_off.array + params->sq_entries * sizeof(uint32_t), (off_t)IORING_OFF_SQ_RING);
	ring.completions = map(params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe),
			       (off_t)IORING_OFF_CQ_RING);
	ring.requests = map(params->sq_entries * sizeof(struct io_uring_sqe), (off_t)IORING_OFF_SQES);
	return ring.submissions && ring.completions && ring.requests ? 0 : -ENOMEM;
}

static void submit(int fd, const struct msghdr *message)
{
	const struct io_sqring_offsets *at = &ring.params.sq_off;
	uint32_t tail = atomic_load(word(ring.submissions, at->tail));
	uint32_t slot = tail & *word(ring.submissions, at->ring_mask);

	ring.requests[slot] = (struct io_uring_sqe){
		.opcode = IORING_OP_SENDMSG, .fd = fd, .addr = (uint64_t)(uintptr_t)message, .len = 1};
	*word(ring.submissions, at->array + slot * (uint32_t)sizeof(uint32_t)) = slot;
	atomic_store_explicit(word(ring.submissions, at->tail), tail + 1, memory_order_release);
}

static int result(void)
{
	const struct io_cqring_offsets *at = &ring.params.cq_off;
	uint32_t head = atomic_load(word(ring.completions, at->head));
	const struct io_uring_cqe *all = (const void *)(ring.completions + at->cqes);
	int answered = all[head & *word(ring.completions, at->ring_mask)].res;

	atomic_store_explicit(word(ring.completions, at->head), head + 1, memory_order_release);
	return answered < 0 ? answered : 0;
}

static int send_one(int fd, const struct msghdr *message)
{
	submit(fd, message);
	if (syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		return -errno;
	return result();
}

const struct captured_method by_io_uring = {"io_uring", open_ring, send_one};
