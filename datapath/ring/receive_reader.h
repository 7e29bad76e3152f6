/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reading side of a socket's receive ring (receive_layout.h): the kernel's ring buffer, mapped as a page
 * with the consumer's position, a page with the producer's, and the records twice in a row, so that none has
 * a seam.
 *
 * Any number of readers, threads and processes, without a lock: a reader copies what it sees and then moves
 * the consumer's position on, if it still stands where it stood. Who moves it has the datagram; the others
 * throw their copies away. So a reader that dies at any point holds nobody up, and a signal handler may read
 * in the middle of another reading.
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

/* One datagram, as it lies in the ring: good only if ktsn_receive_take() or ktsn_receive_stands() says so
 * after it was copied. */
struct ktsn_receive_record {
	struct ktsn_receive_header header;
	const uint8_t *payload;
	uint64_t at, next; /* the consumer's position before and after it */
};

/* bytes: of the records. -EINVAL for a size that no ring has. */
int ktsn_receive_reader_init(struct ktsn_receive_reader *reader, _Atomic uint64_t *consumer,
			     const _Atomic uint64_t *producer, const uint8_t *records, uint64_t bytes);

/* The oldest datagram. 0; -EAGAIN when there is none, or it is still being written; -EPROTO when the ring
 * holds what no program wrote. Discarded records are skipped. */
int ktsn_receive_look(const struct ktsn_receive_reader *reader, struct ktsn_receive_record *record);

/* Takes the datagram out. False: another reader has it, and what was copied of it is worth nothing. */
bool ktsn_receive_take(const struct ktsn_receive_reader *reader, const struct ktsn_receive_record *record);

/* Whether nobody has taken it, and so what was copied of it until now is true. */
bool ktsn_receive_stands(const struct ktsn_receive_reader *reader, const struct ktsn_receive_record *record);

/* Whether a record is there, which may still be being written. */
static inline bool ktsn_receive_any(const struct ktsn_receive_reader *reader)
{
	return atomic_load_explicit(reader->consumer, memory_order_relaxed) !=
	       atomic_load_explicit(reader->producer, memory_order_acquire);
}

#endif
