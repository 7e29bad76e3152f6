/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captured frames: the record before them, forged records, tags, and checksums that the kernel left to the
 * device.
 */
#include "captured_frame.h"
#include "checksum.h"

#include <errno.h>
#include <string.h>

#include "unit_test.h"

#define ADDRESSES  2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1
#define TIME       0x17, 0x8a, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06
#define TIME_VALUE INT64_C(0x178a010203040506)
#define TAG        0x81, 0x00, 0x60, 0x05

enum { BITS_AT = 15, RECORD = 24 };

/* UDP over IPv4 begins here; its first bytes are enough. */
static const uint8_t recorded[] = {ADDRESSES, 0x88, 0xb5, 1, 0x05, TIME, ADDRESSES, 0x08, 0x00, 0x45, 0x00};

/* Replaces one byte. */
static enum captured_verdict parse_changed(size_t at, uint8_t byte, struct captured_frame *frame)
{
	static uint8_t bytes[sizeof(recorded)];

	memcpy(bytes, recorded, sizeof(bytes));
	bytes[at] = byte;
	return captured_frame_parse(bytes, sizeof(bytes), frame);
}

TEST(record_is_removed)
{
	struct captured_frame frame;

	assert_int_equal(captured_frame_parse(recorded, sizeof(recorded), &frame), CAPTURED);
	assert_true(frame.timed);
	assert_int_equal(frame.priority, 5);
	assert_int_equal(frame.clock, KTSN_CLOCK_TAI);
	assert_false(frame.deadline);
	assert_int_equal(frame.txtime_ns, TIME_VALUE);
	assert_memory_equal(frame.addresses, recorded + RECORD, FRAME_ADDRESSES_BYTES);
	assert_memory_equal(&frame.ethertype_be, "\x08\x00", 2);
	assert_int_equal(frame.payload_bytes, 2);
	assert_memory_equal(frame.payload, "\x45\x00", 2);
}

TEST(record_has_clock_and_deadline)
{
	struct captured_frame frame;

	assert_int_equal(parse_changed(BITS_AT, 0x10, &frame), CAPTURED);
	assert_int_equal(frame.clock, KTSN_CLOCK_MONOTONIC);
	assert_int_equal(parse_changed(BITS_AT, 0x6f, &frame), CAPTURED);
	assert_int_equal(frame.clock, KTSN_CLOCK_REALTIME);
	assert_true(frame.deadline);
	assert_int_equal(frame.priority, 15);
}

TEST(record_may_have_only_a_class)
{
	struct captured_frame frame;

	assert_int_equal(parse_changed(BITS_AT, 0x36, &frame), CAPTURED);
	assert_false(frame.timed);
	assert_int_equal(frame.priority, 6);
	assert_memory_equal(frame.addresses, recorded + RECORD, FRAME_ADDRESSES_BYTES);
}

TEST(frame_without_record_is_unchanged)
{
	static const uint8_t plain[] = {ADDRESSES, 0x08, 0x06, 1, 2, 3};
	struct captured_frame frame;

	assert_int_equal(captured_frame_parse(plain, sizeof(plain), &frame), CAPTURED);
	assert_false(frame.timed);
	assert_memory_equal(frame.addresses, plain, FRAME_ADDRESSES_BYTES);
	assert_memory_equal(&frame.ethertype_be, "\x08\x06", 2);
	assert_int_equal(frame.payload_bytes, 3);
	assert_memory_equal(frame.payload, "\1\2\3", 3);
}

TEST(other_versions_are_ordinary_frames)
{
	struct captured_frame frame;

	assert_int_equal(parse_changed(14, 2, &frame), CAPTURED);
	assert_false(frame.timed);
	assert_memory_equal(&frame.ethertype_be, "\x88\xb5", 2);
	/* Not a version. */
	assert_int_equal(captured_frame_parse(recorded, FRAME_HEADER_BYTES, &frame), CAPTURED);
	assert_false(frame.timed);
	assert_int_equal(frame.payload_bytes, 0);
}

TEST(forged_records_are_detected)
{
	struct captured_frame frame;

	assert_int_equal(parse_changed(BITS_AT, 0x85, &frame), CAPTURED_RECORD_BITS);
	assert_int_equal(parse_changed(BITS_AT, 0x75, &frame), CAPTURED_RECORD_BITS);
	for (size_t i = 0; i < FRAME_ADDRESSES_BYTES; i++)
		assert_int_equal(parse_changed(RECORD + i, 0xee, &frame), CAPTURED_RECORD_ADDRESSES);
	for (size_t count = 15; count < RECORD + FRAME_HEADER_BYTES; count++)
		assert_int_equal(captured_frame_parse(recorded, count, &frame), CAPTURED_RECORD_SHORT);
	for (size_t count = 0; count < FRAME_HEADER_BYTES; count++)
		assert_int_equal(captured_frame_parse(recorded, count, &frame), CAPTURED_TRUNCATED);
}

TEST(tag_after_the_addresses_is_payload)
{
	static const uint8_t tagged[] = {ADDRESSES, 0x88, 0xb5, 1,    0x02, TIME,
					 ADDRESSES, TAG,  0x86, 0xdd, 0x60};
	struct captured_frame frame;

	assert_int_equal(captured_frame_parse(tagged, sizeof(tagged), &frame), CAPTURED);
	assert_true(frame.timed);
	assert_true(captured_frame_is_tagged(&frame));
	assert_int_equal(frame.payload_bytes, 5);
	assert_memory_equal(frame.payload, "\x60\x05\x86\xdd\x60", 5);
}

TEST(no_record_after_a_tag)
{
	static const uint8_t tagged[] = {ADDRESSES, TAG,       0x88, 0xb5, 1,    0x02,
					 TIME,      ADDRESSES, 0x86, 0xdd, 0x60, 0x61};
	struct captured_frame frame;

	assert_int_equal(captured_frame_parse(tagged, sizeof(tagged), &frame), CAPTURED);
	assert_false(frame.timed);
	assert_true(captured_frame_is_tagged(&frame));
	assert_int_equal(frame.payload_bytes, sizeof(tagged) - FRAME_HEADER_BYTES);
}

/* A datagram from 10.0.0.1:4660 to 10.0.0.2:22136 with the payload "hey", and the checksum of RFC 768. */
static const uint8_t datagram[] = {0x12, 0x34, 0x56, 0x78, 0x00, 0x0b, 0xa1, 0xc3, 'h', 'e', 'y'};

/* The sum of the pseudo header, as the kernel leaves it: not complemented. */
static uint16_t pseudo_sum_be(void)
{
	static const uint8_t pseudo[] = {10, 0, 0, 1, 10, 0, 0, 2, 0, 17, 0, sizeof(datagram)};

	return (uint16_t)~ktsn_checksum_fold_be(ktsn_checksum_add(0, pseudo, sizeof(pseudo)));
}

enum { DATAGRAM_AT = 34 };

static const struct virtio_net_hdr wanted = {
	.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = DATAGRAM_AT, .csum_offset = 6};

TEST(checksum_is_completed)
{
	uint8_t frame[DATAGRAM_AT + sizeof(datagram)] = {ADDRESSES, 0x08, 0x00};
	uint16_t pseudo = pseudo_sum_be();

	memcpy(frame + DATAGRAM_AT, datagram, sizeof(datagram));
	memcpy(frame + DATAGRAM_AT + 6, &pseudo, sizeof(pseudo));
	assert_int_equal(offload_complete(&wanted, frame, sizeof(frame)), 0);
	assert_memory_equal(frame + DATAGRAM_AT, datagram, sizeof(datagram));
}

/* 0 would mean that there is no checksum. */
TEST(checksum_is_never_zero)
{
	uint8_t frame[DATAGRAM_AT + 8] = {0};

	frame[DATAGRAM_AT] = frame[DATAGRAM_AT + 1] = 0xff;
	assert_int_equal(offload_complete(&wanted, frame, sizeof(frame)), 0);
	assert_memory_equal(frame + DATAGRAM_AT + 6, "\xff\xff", 2);
}

TEST(checksum_outside_the_frame_is_refused)
{
	uint8_t frame[DATAGRAM_AT + 8] = {0};
	struct virtio_net_hdr header = wanted;

	assert_int_equal(offload_complete(&header, frame, sizeof(frame) - 1), -EINVAL);
	header.csum_start = header.csum_offset = UINT16_MAX;
	assert_int_equal(offload_complete(&header, frame, sizeof(frame)), -EINVAL);
}

TEST(unsegmented_frame_is_refused)
{
	const struct virtio_net_hdr header = {.gso_type = VIRTIO_NET_HDR_GSO_UDP};
	uint8_t frame[64] = {0};

	assert_int_equal(offload_complete(&header, frame, sizeof(frame)), -EOPNOTSUPP);
}
