/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparison of built frames with golden ones. Include after unit_test.h.
 */
#ifndef KTSN_TEST_GOLDEN_H
#define KTSN_TEST_GOLDEN_H

#include "frame.h"

#include <endian.h>
#include <string.h>

enum {
	BUFFER_BYTES = 70000,
	UNTOUCHED = 0xa5, /* fills a buffer, to see what was written */
};

static uint8_t buffer[BUFFER_BYTES];

/* A tunnel from 192.0.2.1 to 192.0.2.2. */
static const struct ktsn_frame_tunnel *tunnel(void)
{
	static struct ktsn_frame_tunnel tunnel = {
		.outer =
			{
				.source_mac = {0x02, 0, 0, 0, 0x01, 0x01},
				.destination_mac = {0x02, 0, 0, 0, 0x01, 0x02},
				.ttl = 63,
				.tos = 0x88,
			},
		.vni = 0x123456,
	};

	tunnel.outer.source_ipv4_be = htobe32(0xc0000201);
	tunnel.outer.destination_ipv4_be = htobe32(0xc0000202);
	tunnel.outer.source_port_be = htobe16(51234);
	tunnel.outer.destination_port_be = htobe16(4789);
	return &tunnel;
}

/* Builds the frame whose payload is the last payload_bytes of `golden`, at every alignment, in a buffer of
 * exactly its size. */
static void check_golden(const struct ktsn_frame_path *path, const struct ktsn_frame_tunnel *through,
			 const uint8_t *golden, size_t golden_bytes, size_t payload_bytes)
{
	size_t header_bytes = golden_bytes - payload_bytes;

	assert_int_equal(ktsn_frame_header_bytes(path, through), header_bytes);
	for (size_t offset = 1; offset <= 8; offset++) {
		uint8_t *frame = buffer + offset;

		memset(buffer, UNTOUCHED, golden_bytes + offset + 1);
		memcpy(frame + header_bytes, golden + header_bytes, payload_bytes);
		assert_int_equal(ktsn_frame_build(frame, golden_bytes, path, through, payload_bytes),
				 header_bytes);
		assert_memory_equal(frame, golden, golden_bytes);
		assert_int_equal(frame[-1], UNTOUCHED);
		assert_int_equal(frame[golden_bytes], UNTOUCHED);
	}
}

#endif
