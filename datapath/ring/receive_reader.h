/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reading side of a socket's receive ring (receive_layout.h): the kernel's ring buffer, mapped as a page
 * with the consumer's position, a page with the producer's, and the records mapped twice in a row, so that
 * each record is contiguous.
 *
 * Any number of readers, threads and processes, without a lock: a reader copies the oldest record and then
 * advances the consumer's position, if it has not changed meanwhile. The reader that advances it has the
 * datagram; the others discard their copies. So a reader that is killed at any point blocks no other, and a
 * signal handler may read while it interrupts another read.
 *
 * Pure: no system call, no memory of its own.
 */
#ifndef KTSN_RING_RECEIVE_READER_H
#define KTSN_RING_RECEIVE_READER_H

#include "receive_layout.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ktsn_receive_reader {
	_Atomic uint64_t *consumer;
	const _Atomic uint64_t *producer;
	const uint8_t *records;
	uint64_t bytes; /* of the records, a power of two */
};

/* One datagram in the ring. A copy of it is valid only if ktsn_receive_take() or ktsn_receive_is_current()
 * returns true afterwards. */
struct ktsn_receive_record {
	struct ktsn_receive_header header;
	const uint8_t *payload;
	uint64_t at, next; /* the consumer's position before and after it */
};

/* bytes: size of the records. -EINVAL if no ring has that size. */
int ktsn_receive_reader_init(struct ktsn_receive_reader *reader, _Atomic uint64_t *consumer,
			     const _Atomic uint64_t *producer, const uint8_t *records, uint64_t bytes);

/* Returns the oldest datagram, and leaves it in the ring. -EAGAIN if there is none, or if it is still being
 * written; -EPROTO if it is invalid. Skips discarded records. */
int ktsn_receive_peek(const struct ktsn_receive_reader *reader, struct ktsn_receive_record *record);

/* Removes the datagram from the ring. False if another reader has it: the caller discards its copy. */
bool ktsn_receive_take(const struct ktsn_receive_reader *reader, const struct ktsn_receive_record *record);

/* Whether no reader has taken it, so that a copy made before this call is valid. */
bool ktsn_receive_is_current(const struct ktsn_receive_reader *reader,
			     const struct ktsn_receive_record *record);

/* Whether the ring has a record, which may not be complete yet. */
static inline bool ktsn_receive_any(const struct ktsn_receive_reader *reader)
{
	return atomic_load_explicit(reader->consumer, memory_order_relaxed) !=
	       atomic_load_explicit(reader->producer, memory_order_acquire);
}

#endif
