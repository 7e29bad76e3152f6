/* SPDX-License-Identifier: Apache-2.0 */
#include "captured_frame.h"

#include "checksum.h"
#include "frame.h"
#include "record.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const enum ktsn_clock clocks[] = {
	[KTSN_RECORD_TAI] = KTSN_CLOCK_TAI,
	[KTSN_RECORD_MONOTONIC] = KTSN_CLOCK_MONOTONIC,
	[KTSN_RECORD_REALTIME] = KTSN_CLOCK_REALTIME,
};

static uint16_t ethertype_be_at(const uint8_t *ethertype)
{
	uint16_t value;

	memcpy(&value, ethertype, sizeof(value));
	return value;
}

bool captured_frame_is_tagged(const struct captured_frame *frame)
{
	return ktsn_frame_is_tagged(frame->ethertype_be);
}

/* With another version it is an ordinary frame of local experiments. */
static bool is_record(const uint8_t *record, size_t count)
{
	return count > KTSN_RECORD_AT_VERSION &&
	       ethertype_be_at(record + KTSN_RECORD_AT_ETHERTYPE) == htons(KTSN_RECORD_ETHERTYPE) &&
	       record[KTSN_RECORD_AT_VERSION] == KTSN_RECORD_VERSION;
}

static unsigned int clock_of(uint8_t bits)
{
	return (bits >> KTSN_RECORD_CLOCK_SHIFT) & KTSN_RECORD_CLOCK_MASK;
}

static bool bits_are_valid(uint8_t bits)
{
	return !(bits & KTSN_RECORD_UNUSED) &&
	       !(clock_of(bits) == KTSN_RECORD_UNTIMED && (bits & KTSN_RECORD_DEADLINE));
}

static int64_t time_at(const uint8_t *time)
{
	uint64_t time_be;

	memcpy(&time_be, time, sizeof(time_be));
	return (int64_t)be64toh(time_be);
}

static void record_take(const uint8_t *record, struct captured_frame *frame)
{
	uint8_t bits = record[KTSN_RECORD_AT_WHAT];

	frame->priority = bits & KTSN_RECORD_PRIORITY_MASK;
	frame->timed = clock_of(bits) != KTSN_RECORD_UNTIMED;
	if (!frame->timed)
		return;
	frame->deadline = bits & KTSN_RECORD_DEADLINE;
	frame->clock = clocks[clock_of(bits)];
	frame->txtime_ns = time_at(record + KTSN_RECORD_AT_TIME);
}

static void frame_take(const uint8_t *bytes, size_t count, struct captured_frame *frame)
{
	frame->addresses = bytes;
	frame->ethertype_be = ethertype_be_at(bytes + FRAME_ADDRESSES_BYTES);
	frame->payload = bytes + FRAME_HEADER_BYTES;
	frame->payload_bytes = (uint32_t)(count - FRAME_HEADER_BYTES);
}

enum captured_verdict captured_frame_parse(const uint8_t *bytes, size_t count, struct captured_frame *frame)
{
	const uint8_t *inner;

	*frame = (struct captured_frame){.timed = false};
	if (count < FRAME_HEADER_BYTES)
		return CAPTURED_TRUNCATED;
	if (!is_record(bytes, count)) {
		frame_take(bytes, count, frame);
		return CAPTURED;
	}
	if (count < KTSN_RECORD_BYTES + FRAME_HEADER_BYTES)
		return CAPTURED_RECORD_SHORT;
	inner = bytes + KTSN_RECORD_BYTES;
	if (!bits_are_valid(bytes[KTSN_RECORD_AT_WHAT]))
		return CAPTURED_RECORD_BITS;
	if (memcmp(bytes, inner, FRAME_ADDRESSES_BYTES) != 0)
		return CAPTURED_RECORD_ADDRESSES;
	record_take(bytes, frame);
	frame_take(inner, count - KTSN_RECORD_BYTES, frame);
	return CAPTURED;
}

/* In UDP a sum of 0 means that there is none; elsewhere 0 and 0xffff are the same. */
static uint16_t not_zero(uint16_t sum)
{
	return sum ? sum : UINT16_MAX;
}

/* The sum of the pseudo header is at the place of the checksum. */
static int checksum_complete(uint8_t *frame, size_t bytes, size_t start, size_t offset)
{
	uint16_t sum;

	if (start + offset + sizeof(sum) > bytes)
		return -EINVAL;
	sum = not_zero(ktsn_checksum_fold_be(ktsn_checksum_add(0, frame + start, bytes - start)));
	memcpy(frame + start + offset, &sum, sizeof(sum));
	return 0;
}

int offload_complete(const struct virtio_net_hdr *header, uint8_t *frame, size_t bytes)
{
	bool needed = header->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM;

	if (header->gso_type != VIRTIO_NET_HDR_GSO_NONE)
		return -EOPNOTSUPP;
	return needed ? checksum_complete(frame, bytes, header->csum_start, header->csum_offset) : 0;
}
