/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a receive ring: every content of the kernel's ring buffer, at every position, and several readers.
 */
#include "receive_ring.h"

#include <errno.h>

#include "unit_test.h"

static struct receive_ring ring;

static void put(const char *text)
{
	receive_ring_put(&ring, (struct ktsn_receive_header){.ttl = 64}, text, (uint16_t)strlen(text), 9);
}

static void expect(const char *text)
{
	struct ktsn_receive_record record;

	assert_int_equal(ktsn_receive_peek(&ring.reader, &record), 0);
	assert_int_equal(record.header.payload_bytes, strlen(text));
	assert_memory_equal(record.payload, text, strlen(text));
	assert_int_equal(record.header.ttl, 64);
	assert_true(ktsn_receive_take(&ring.reader, &record));
}

static void expect_nothing(void)
{
	struct ktsn_receive_record record;

	assert_int_equal(ktsn_receive_peek(&ring.reader, &record), -EAGAIN);
}

TEST(takes_datagrams_in_order)
{
	receive_ring_init(&ring, 0);
	expect_nothing();
	assert_false(ktsn_receive_any(&ring.reader));
	put("one");
	put("");
	put("three");
	assert_true(ktsn_receive_any(&ring.reader));
	expect("one");
	expect("");
	expect("three");
	expect_nothing();
}

TEST(reads_across_the_end)
{
	for (uint64_t position = 0; position < 2 * RECEIVE_RING_BYTES; position += 8) {
		receive_ring_init(&ring, position);
		put("a datagram that may lie on the seam");
		put("another one");
		expect("a datagram that may lie on the seam");
		expect("another one");
		expect_nothing();
	}
}

TEST(reads_when_positions_wrap)
{
	receive_ring_init(&ring, UINT64_MAX - 63);
	put("first");
	put("second");
	expect("first");
	expect("second");
	expect_nothing();
}

TEST(waits_for_unfinished_records)
{
	uint64_t at;

	receive_ring_init(&ring, 0);
	at = receive_ring_reserve(&ring, 64);
	put("later");
	expect_nothing();
	assert_true(ktsn_receive_any(&ring.reader));
	receive_ring_length_put(&ring, at, 64 | 1U << RECEIVE_RING_DISCARD);
	expect("later");
	expect_nothing();
}

TEST(skips_discarded_records)
{
	receive_ring_init(&ring, 0);
	for (int i = 0; i < 3; i++)
		receive_ring_length_put(&ring, receive_ring_reserve(&ring, 100),
					100 | 1U << RECEIVE_RING_DISCARD);
	expect_nothing();
	assert_false(ktsn_receive_any(&ring.reader));
}

TEST(peeks_without_taking)
{
	struct ktsn_receive_record record;

	receive_ring_init(&ring, 0);
	put("stays");
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ktsn_receive_peek(&ring.reader, &record), 0);
		assert_true(ktsn_receive_is_current(&ring.reader, &record));
	}
	expect("stays");
	assert_false(ktsn_receive_is_current(&ring.reader, &record));
}

TEST(gives_a_datagram_to_one_reader)
{
	struct ktsn_receive_record first, second;

	receive_ring_init(&ring, 0);
	put("once");
	put("next");
	assert_int_equal(ktsn_receive_peek(&ring.reader, &first), 0);
	assert_int_equal(ktsn_receive_peek(&ring.reader, &second), 0);
	assert_true(ktsn_receive_take(&ring.reader, &second));
	assert_false(ktsn_receive_take(&ring.reader, &first));
	expect("next");
}

TEST(refuses_invalid_records)
{
	struct ktsn_receive_record record;
	struct ktsn_receive_header header = {.payload_bytes = 200};
	uint64_t at;

	receive_ring_init(&ring, 0);
	at = receive_ring_reserve(&ring, 16);
	receive_ring_length_put(&ring, at, 16);
	assert_int_equal(ktsn_receive_peek(&ring.reader, &record), -EPROTO);

	receive_ring_init(&ring, 0);
	at = receive_ring_reserve(&ring, 64);
	receive_ring_length_put(&ring, at, RECEIVE_RING_BYTES);
	assert_int_equal(ktsn_receive_peek(&ring.reader, &record), -EPROTO);

	receive_ring_init(&ring, 0);
	at = receive_ring_reserve(&ring, 100);
	receive_ring_bytes_put(&ring, at + 8, &header, sizeof(header));
	receive_ring_length_put(&ring, at, 100);
	assert_int_equal(ktsn_receive_peek(&ring.reader, &record), -EPROTO);
}

TEST(refuses_invalid_ring_sizes)
{
	static const uint64_t sizes[] = {0, 1, 2048, 4095, 4097, 12288, UINT64_C(1) << 32, UINT64_MAX};
	struct ktsn_receive_reader reader;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		assert_int_equal(ktsn_receive_reader_init(&reader, &ring.consumer, &ring.producer,
							  ring.records, sizes[i]),
				 -EINVAL);
}
