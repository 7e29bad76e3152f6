/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The golden frames were computed by a separate program from the RFCs; datapath/tests/dissect checks frames
 * of this stage with tshark.
 */
#include "checksum.h"
#include "frame.h"
#include "test_random.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

#include "golden.h"

enum {
	PLAIN_PAYLOAD_BYTES_MAX = 65507,
	TUNNEL_PAYLOAD_BYTES_MAX = 65457,
};

static const struct ktsn_frame_path *inner_path(void)
{
	static struct ktsn_frame_path path = {
		.source_mac = {0x02, 0, 0, 0, 0, 0x0a},
		.destination_mac = {0x02, 0, 0, 0, 0, 0x0b},
		.ttl = 64,
		.tos = 0xb8,
	};

	path.source_ipv4_be = htobe32(0x0a01000a);      /* 10.1.0.10 */
	path.destination_ipv4_be = htobe32(0x0a01000b); /* 10.1.0.11 */
	path.source_port_be = htobe16(40000);
	path.destination_port_be = htobe16(5001);
	return &path;
}

static const uint8_t golden_even[] = {
	0x02, 0x00, 0x00, 0x00, 0x00, 0x0b, 0x02, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x08, 0x00, /* Ethernet */
	0x45, 0xb8, 0x00, 0x20, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x25, 0xff,             /* IPv4 */
	0x0a, 0x01, 0x00, 0x0a, 0x0a, 0x01, 0x00, 0x0b,                                     /* addresses */
	0x9c, 0x40, 0x13, 0x89, 0x00, 0x0c, 0x8e, 0x1b,                                     /* UDP */
	'K',  'u',  'b',  'e',
};

static const uint8_t golden_odd[] = {
	0x02, 0x00, 0x00, 0x00, 0x00, 0x0b, 0x02, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x08, 0x00, /* Ethernet */
	0x45, 0xb8, 0x00, 0x1f, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x26, 0x00,             /* IPv4 */
	0x0a, 0x01, 0x00, 0x0a, 0x0a, 0x01, 0x00, 0x0b,                                     /* addresses */
	0x9c, 0x40, 0x13, 0x89, 0x00, 0x0b, 0x99, 0xa4,                                     /* UDP */
	'T',  'S',  'N',
};

static const uint8_t golden_empty[] = {
	0x02, 0x00, 0x00, 0x00, 0x00, 0x0b, 0x02, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x08, 0x00, /* Ethernet */
	0x45, 0xb8, 0x00, 0x1c, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x26, 0x03,             /* IPv4 */
	0x0a, 0x01, 0x00, 0x0a, 0x0a, 0x01, 0x00, 0x0b,                                     /* addresses */
	0x9c, 0x40, 0x13, 0x89, 0x00, 0x08, 0x3b, 0xfe,                                     /* UDP */
};

/* The payload makes the sum all ones: the checksum would be 0. */
static const uint8_t golden_zero_checksum[] = {
	0x02, 0x00, 0x00, 0x00, 0x00, 0x0b, 0x02, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x08, 0x00, /* Ethernet */
	0x45, 0xb8, 0x00, 0x1e, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x26, 0x01,             /* IPv4 */
	0x0a, 0x01, 0x00, 0x0a, 0x0a, 0x01, 0x00, 0x0b,                                     /* addresses */
	0x9c, 0x40, 0x13, 0x89, 0x00, 0x0a, 0xff, 0xff,                                     /* UDP */
	0x3b, 0xfa,
};

static const uint8_t golden_vxlan[] = {
	0x02, 0x00, 0x00, 0x00, 0x01, 0x02, 0x02, 0x00, 0x00, 0x00, 0x01, 0x01, 0x08, 0x00, /* Ethernet */
	0x45, 0x88, 0x00, 0x51, 0x00, 0x00, 0x40, 0x00, 0x3f, 0x11, 0xb7, 0x10,             /* IPv4 */
	0xc0, 0x00, 0x02, 0x01, 0xc0, 0x00, 0x02, 0x02,                                     /* addresses */
	0xc8, 0x22, 0x12, 0xb5, 0x00, 0x3d, 0x00, 0x00,                                     /* UDP */
	0x08, 0x00, 0x00, 0x00, 0x12, 0x34, 0x56, 0x00,                                     /* VXLAN */
	0x02, 0x00, 0x00, 0x00, 0x00, 0x0b, 0x02, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x08, 0x00, /* Ethernet */
	0x45, 0xb8, 0x00, 0x1f, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x26, 0x00,             /* IPv4 */
	0x0a, 0x01, 0x00, 0x0a, 0x0a, 0x01, 0x00, 0x0b,                                     /* addresses */
	0x9c, 0x40, 0x13, 0x89, 0x00, 0x0b, 0x99, 0xa4,                                     /* UDP */
	'T',  'S',  'N',
};

/* The same with the tag of IEEE Std 802.1Q clause 9.6: TPID, then PCP 5, DEI 0, VID 100. */
static const uint8_t golden_vlan[] = {
	0x02, 0x00, 0x00, 0x00, 0x01, 0x02, 0x02, 0x00, 0x00, 0x00, 0x01, 0x01, /* Ethernet */
	0x81, 0x00, 0xa0, 0x64, 0x08, 0x00,                                     /* tag, EtherType */
	0x45, 0x88, 0x00, 0x51, 0x00, 0x00, 0x40, 0x00, 0x3f, 0x11, 0xb7, 0x10, /* IPv4 */
	0xc0, 0x00, 0x02, 0x01, 0xc0, 0x00, 0x02, 0x02,                         /* addresses */
	0xc8, 0x22, 0x12, 0xb5, 0x00, 0x3d, 0x00, 0x00,                         /* UDP */
	0x08, 0x00, 0x00, 0x00, 0x12, 0x34, 0x56, 0x00,                         /* VXLAN */
	0x02, 0x00, 0x00, 0x00, 0x00, 0x0b, 0x02, 0x00, 0x00, 0x00, 0x00, 0x0a, 0x08, 0x00, /* Ethernet */
	0x45, 0xb8, 0x00, 0x1f, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x26, 0x00,             /* IPv4 */
	0x0a, 0x01, 0x00, 0x0a, 0x0a, 0x01, 0x00, 0x0b,                                     /* addresses */
	0x9c, 0x40, 0x13, 0x89, 0x00, 0x0b, 0x99, 0xa4,                                     /* UDP */
	'T',  'S',  'N',
};

/* For a switch of this node: the inner frame with its network's tag. */
static const uint8_t golden_switched[] = {
	0x02, 0x00, 0x00, 0x00, 0x00, 0x0b, 0x02, 0x00, 0x00, 0x00, 0x00, 0x0a, /* Ethernet */
	0x81, 0x00, 0xa0, 0x2a, 0x08, 0x00,                                     /* tag, EtherType */
	0x45, 0xb8, 0x00, 0x1f, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x26, 0x00, /* IPv4 */
	0x0a, 0x01, 0x00, 0x0a, 0x0a, 0x01, 0x00, 0x0b,                         /* addresses */
	0x9c, 0x40, 0x13, 0x89, 0x00, 0x0b, 0x99, 0xa4,                         /* UDP */
	'T',  'S',  'N',
};

static struct ktsn_frame_tunnel tagged_tunnel(uint16_t vlan_id, uint8_t pcp)
{
	struct ktsn_frame_tunnel tagged = *tunnel();

	tagged.vlan_id = vlan_id;
	tagged.pcp = pcp;
	return tagged;
}

TEST(golden_frames)
{
	check_golden(inner_path(), NULL, golden_even, sizeof(golden_even), 4);
	check_golden(inner_path(), NULL, golden_odd, sizeof(golden_odd), 3);
	check_golden(inner_path(), NULL, golden_empty, sizeof(golden_empty), 0);
	check_golden(inner_path(), tunnel(), golden_vxlan, sizeof(golden_vxlan), 3);
}

TEST(golden_frame_of_a_vlan)
{
	const struct ktsn_frame_tunnel tagged = tagged_tunnel(100, 5);

	check_golden(inner_path(), &tagged, golden_vlan, sizeof(golden_vlan), 3);
}

TEST(golden_frame_for_a_switch)
{
	struct ktsn_frame_tunnel switched = tagged_tunnel(42, 5);

	switched.switched = true;
	check_golden(inner_path(), &switched, golden_switched, sizeof(golden_switched), 3);
	/* On the link it equals the frame that ktsnd would have built. */
	assert_int_equal(ktsn_frame_link_bytes(sizeof(golden_switched), &switched), sizeof(golden_vxlan));
	assert_int_equal(ktsn_frame_sdu_bytes(sizeof(golden_switched), &switched), 81);
	assert_int_equal(ktsn_frame_link_bytes(sizeof(golden_vxlan), tunnel()), sizeof(golden_vxlan));
	assert_int_equal(ktsn_frame_link_bytes(sizeof(golden_odd), NULL), sizeof(golden_odd));
}

/* All ones give TCI 0xeffe: the last VLAN; the bit between the fields (DEI) stays 0. */
TEST(tag_has_vlan_and_priority)
{
	for (unsigned int pcp = 0; pcp < 8; pcp++) {
		for (unsigned int vlan_id = 1; vlan_id <= 4094; vlan_id++) {
			const struct ktsn_frame_tunnel tagged =
				tagged_tunnel((uint16_t)vlan_id, (uint8_t)pcp);

			assert_int_equal(ktsn_frame_build(buffer, BUFFER_BYTES, inner_path(), &tagged, 0),
					 KTSN_INNER_HEADER_BYTES + KTSN_TUNNEL_HEADER_BYTES +
						 KTSN_VLAN_TAG_BYTES);
			assert_int_equal(buffer[12] << 8 | buffer[13], 0x8100);
			assert_int_equal(buffer[14] << 8 | buffer[15], pcp * 0x2000 + vlan_id);
			assert_int_equal(buffer[16] << 8 | buffer[17], 0x0800);
		}
	}
}

/* Without a VLAN there is no field for the priority. */
TEST(priority_without_vlan_has_no_effect)
{
	const struct ktsn_frame_tunnel untagged = tagged_tunnel(0, 7);

	check_golden(inner_path(), &untagged, golden_vxlan, sizeof(golden_vxlan), 3);
}

TEST(sdu_starts_after_the_ethertype)
{
	const struct ktsn_frame_tunnel tagged = tagged_tunnel(100, 5);

	assert_int_equal(ktsn_frame_sdu_bytes(sizeof(golden_odd), NULL), 31);
	assert_int_equal(ktsn_frame_sdu_bytes(sizeof(golden_vxlan), tunnel()), 81);
	assert_int_equal(ktsn_frame_sdu_bytes(sizeof(golden_vlan), &tagged), 81);
}

TEST(zero_udp_checksum_becomes_ones)
{
	check_golden(inner_path(), NULL, golden_zero_checksum, sizeof(golden_zero_checksum), 2);
}

static void expect_refused(const struct ktsn_frame_tunnel *through, size_t capacity_bytes,
			   size_t payload_bytes)
{
	memset(buffer, UNTOUCHED, KTSN_INNER_HEADER_BYTES + KTSN_TUNNEL_HEADER_BYTES);
	assert_int_equal(ktsn_frame_build(buffer, capacity_bytes, inner_path(), through, payload_bytes),
			 -EMSGSIZE);
	for (size_t i = 0; i < KTSN_INNER_HEADER_BYTES + KTSN_TUNNEL_HEADER_BYTES; i++)
		assert_int_equal(buffer[i], UNTOUCHED);
}

TEST(frame_beyond_capacity_is_refused)
{
	const struct ktsn_frame_tunnel tagged = tagged_tunnel(1, 0);

	expect_refused(&tagged, KTSN_INNER_HEADER_BYTES + KTSN_TUNNEL_HEADER_BYTES + 64, 64);
	expect_refused(NULL, 0, 0);
	expect_refused(NULL, KTSN_INNER_HEADER_BYTES - 1, 0);
	expect_refused(NULL, KTSN_INNER_HEADER_BYTES + 63, 64);
	expect_refused(tunnel(), KTSN_INNER_HEADER_BYTES + 64, 64);
	expect_refused(tunnel(), KTSN_INNER_HEADER_BYTES + KTSN_TUNNEL_HEADER_BYTES + 63, 64);
}

TEST(payload_beyond_length_fields_is_refused)
{
	const struct ktsn_frame_tunnel tagged = tagged_tunnel(1, 0);

	expect_refused(&tagged, BUFFER_BYTES, TUNNEL_PAYLOAD_BYTES_MAX + 1);
	expect_refused(&tagged, SIZE_MAX, SIZE_MAX);
	expect_refused(NULL, BUFFER_BYTES, PLAIN_PAYLOAD_BYTES_MAX + 1);
	expect_refused(tunnel(), BUFFER_BYTES, TUNNEL_PAYLOAD_BYTES_MAX + 1);
	expect_refused(NULL, SIZE_MAX, SIZE_MAX);
	expect_refused(NULL, SIZE_MAX, SIZE_MAX - KTSN_INNER_HEADER_BYTES + 1);
	expect_refused(tunnel(), SIZE_MAX, SIZE_MAX);
}

static uint16_t load_be16(const uint8_t *at)
{
	return (uint16_t)(at[0] << 8 | at[1]);
}

TEST(longest_payloads_fill_the_length_fields)
{
	const uint8_t *outer_ip = buffer + KTSN_ETHER_HEADER_BYTES;
	const uint8_t *inner_ip = outer_ip + KTSN_TUNNEL_HEADER_BYTES;

	assert_int_equal(ktsn_frame_build(buffer, KTSN_INNER_HEADER_BYTES + PLAIN_PAYLOAD_BYTES_MAX,
					  inner_path(), NULL, PLAIN_PAYLOAD_BYTES_MAX),
			 KTSN_INNER_HEADER_BYTES);
	assert_int_equal(load_be16(outer_ip + 2), 65535);
	assert_int_equal(load_be16(outer_ip + KTSN_IPV4_HEADER_BYTES + 4), 65515);

	assert_int_equal(
		ktsn_frame_build(buffer, BUFFER_BYTES, inner_path(), tunnel(), TUNNEL_PAYLOAD_BYTES_MAX),
		KTSN_INNER_HEADER_BYTES + KTSN_TUNNEL_HEADER_BYTES);
	assert_int_equal(load_be16(outer_ip + 2), 65535);
	assert_int_equal(load_be16(outer_ip + KTSN_IPV4_HEADER_BYTES + 4), 65515);
	assert_int_equal(load_be16(inner_ip + 2), 65485);
	assert_int_equal(load_be16(inner_ip + KTSN_IPV4_HEADER_BYTES + 4), 65465);
}

/* A tag is not part of the datagram and does not count in its length. */
TEST(tag_does_not_shorten_the_payload)
{
	const struct ktsn_frame_tunnel tagged = tagged_tunnel(4094, 7);

	assert_int_equal(
		ktsn_frame_build(buffer, BUFFER_BYTES, inner_path(), &tagged, TUNNEL_PAYLOAD_BYTES_MAX),
		KTSN_INNER_HEADER_BYTES + KTSN_TUNNEL_HEADER_BYTES + KTSN_VLAN_TAG_BYTES);
	assert_int_equal(load_be16(buffer + KTSN_ETHER_HEADER_BYTES + KTSN_VLAN_TAG_BYTES + 2), 65535);
}

/* RFC 1071 section 4.1, byte by byte, in host order. */
static uint16_t naive_checksum(const uint8_t *data, size_t bytes)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < bytes; i++) {
		sum += i % 2 == 0 ? (uint32_t)data[i] << 8 : data[i];
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return (uint16_t)~sum;
}

/* In one piece and in two; sometimes all ones, for the carries. */
TEST(checksum_matches_simple_sum)
{
	struct test_random random = test_random_seeded("checksum");

	for (int round = 0; round < 20000; round++) {
		size_t bytes = test_random_below(&random, round % 100 == 0 ? 65536 : 2048);
		uint8_t *data = buffer + test_random_below(&random, 64);
		size_t cut = test_random_below(&random, bytes / 2 + 1) * 2;
		bool ones = round % 10 == 0;
		uint64_t sum;

		for (size_t i = 0; i < bytes; i++)
			data[i] = ones ? 0xff : (uint8_t)test_random_next(&random);
		sum = ktsn_checksum_add(0, data, bytes);
		assert_int_equal(be16toh(ktsn_checksum_fold_be(sum)), naive_checksum(data, bytes));
		sum = ktsn_checksum_add(ktsn_checksum_add(0, data, cut), data + cut, bytes - cut);
		assert_int_equal(be16toh(ktsn_checksum_fold_be(sum)), naive_checksum(data, bytes));
	}
}

TEST(checksum_carries_from_any_running_sum)
{
	static const uint8_t data[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
				       0xff, 0xff, 0xff, 0xff, 0x00, 0x01};

	/* All ones is zero in one's complement at any width: the 1 remains. */
	assert_int_equal(be16toh(ktsn_checksum_fold_be(ktsn_checksum_add(UINT64_MAX, data, sizeof(data)))),
			 0xfffe);
	assert_int_equal(ktsn_checksum_fold_be(0), 0xffff);
	assert_int_equal(ktsn_checksum_fold_be(UINT64_MAX), 0);
}

static struct ktsn_frame_path random_path(struct test_random *random)
{
	struct ktsn_frame_path path = *inner_path();

	path.source_ipv4_be = (uint32_t)test_random_next(random);
	path.destination_ipv4_be = (uint32_t)test_random_next(random);
	path.source_port_be = (uint16_t)test_random_next(random);
	path.destination_port_be = (uint16_t)test_random_next(random);
	return path;
}

TEST(tunnel_source_port_is_ephemeral)
{
	struct test_random random = test_random_seeded("tunnel source port");

	for (int round = 0; round < 100000; round++) {
		struct ktsn_frame_path path = random_path(&random);

		assert_in_range(be16toh(ktsn_frame_tunnel_source_port_be(&path)), 49152, 65535);
	}
}

TEST(tunnel_source_port_is_constant_per_flow)
{
	struct test_random random = test_random_seeded("flows");

	for (int round = 0; round < 1000; round++) {
		struct ktsn_frame_path path = random_path(&random);
		uint16_t port_be = ktsn_frame_tunnel_source_port_be(&path);

		/* The fields that may differ between packets of a flow. */
		path.tos ^= 0xff;
		path.ttl ^= 0xff;
		assert_int_equal(ktsn_frame_tunnel_source_port_be(&path), port_be);
	}
}

/* 4096 flows that differ in one port fill 3623 of the 16384 ports on average if the choice is random. */
TEST(tunnel_source_ports_spread_flows)
{
	static bool seen[16384];
	struct ktsn_frame_path path = *inner_path();
	int distinct = 0;

	for (uint16_t flow = 0; flow < 4096; flow++) {
		bool *port_seen;

		path.source_port_be = htobe16((uint16_t)(32768 + flow));
		port_seen = &seen[be16toh(ktsn_frame_tunnel_source_port_be(&path)) - 49152];
		distinct += !*port_seen;
		*port_seen = true;
	}
	assert_true(distinct > 3400);
}

TEST(short_frames_take_the_minimum_length)
{
	assert_int_equal(ktsn_frame_wire_bytes(0), 84);
	assert_int_equal(ktsn_frame_wire_bytes(59), 84);
	assert_int_equal(ktsn_frame_wire_bytes(60), 84);
	assert_int_equal(ktsn_frame_wire_bytes(61), 85);
	assert_int_equal(ktsn_frame_wire_bytes(1514), 1538);
}
