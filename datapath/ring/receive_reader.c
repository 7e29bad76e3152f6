/* SPDX-License-Identifier: Apache-2.0 */
#include "receive_reader.h"

#include <errno.h>
#include <string.h>

enum {
	/* From the kernel's record header, include/uapi/linux/bpf.h. */
	BUSY_BIT = 31,
	DISCARD_BIT = 30,
	HEADER_BYTES = 8,
	RECORDS_BYTES_MIN = 4096,
};

/* The length with the two bits, which the kernel writes last and the reader reads first. */
static uint32_t length_load(const struct ktsn_receive_reader *reader, uint64_t at)
{
	const uint8_t *record = reader->records + (at & (reader->bytes - 1));

	return atomic_load_explicit((const _Atomic uint32_t *)(const void *)record, memory_order_acquire);
}

int ktsn_receive_reader_init(struct ktsn_receive_reader *reader, _Atomic uint64_t *consumer,
			     const _Atomic uint64_t *producer, const uint8_t *records, uint64_t bytes)
{
	if (bytes < RECORDS_BYTES_MIN || bytes & (bytes - 1) || bytes > UINT32_MAX)
		return -EINVAL;
	*reader = (struct ktsn_receive_reader){consumer, producer, records, bytes};
	return 0;
}

static bool advance(const struct ktsn_receive_reader *reader, uint64_t at, uint64_t next)
{
	/* Release: all reads from the record come before the kernel overwrites it. */
	return atomic_compare_exchange_strong_explicit(reader->consumer, &at, next, memory_order_acq_rel,
						       memory_order_relaxed);
}

/* 0, or -EPROTO for a record without a whole datagram. */
static int record_read(const struct ktsn_receive_reader *reader, uint32_t length,
		       struct ktsn_receive_record *record)
{
	const uint8_t *data = reader->records + (record->at & (reader->bytes - 1)) + HEADER_BYTES;

	if (length < sizeof(record->header) || length > reader->bytes - HEADER_BYTES)
		return -EPROTO;
	memcpy(&record->header, data, sizeof(record->header));
	record->payload = data + sizeof(record->header);
	return record->header.payload_bytes <= length - sizeof(record->header) ? 0 : -EPROTO;
}

int ktsn_receive_peek(const struct ktsn_receive_reader *reader, struct ktsn_receive_record *record)
{
	for (;;) {
		uint32_t length;
		int err;

		record->at = atomic_load_explicit(reader->consumer, memory_order_acquire);
		if (record->at == atomic_load_explicit(reader->producer, memory_order_acquire))
			return -EAGAIN;
		length = length_load(reader, record->at);
		if (length >> BUSY_BIT & 1) {
			/* The record is incomplete, or another reader took it and the kernel reused its
			 * place. */
			if (ktsn_receive_is_current(reader, record))
				return -EAGAIN;
			continue;
		}
		record->next = record->at;
		record->next += ((length & ~(1U << DISCARD_BIT)) + HEADER_BYTES + 7) & ~UINT64_C(7);
		if (length >> DISCARD_BIT & 1) {
			(void)advance(reader, record->at, record->next);
			continue;
		}
		err = record_read(reader, length, record);
		if (!err || ktsn_receive_is_current(reader, record))
			return err;
	}
}

bool ktsn_receive_take(const struct ktsn_receive_reader *reader, const struct ktsn_receive_record *record)
{
	return advance(reader, record->at, record->next);
}

bool ktsn_receive_is_current(const struct ktsn_receive_reader *reader,
			     const struct ktsn_receive_record *record)
{
	/* Earlier reads must not be reordered after the read of the position. */
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(reader->consumer, memory_order_relaxed) == record->at;
}
