/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#include "checksum.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

enum {
	ETHERTYPE_IPV4 = 0x0800,
	ETHERTYPE_VLAN = 0x8100, /* C-TAG, IEEE Std 802.1Q-2022 table 9-1 */
	VLAN_PCP_SHIFT = 13,
	VLAN_ID_MAX = 4094,
	IPV4_VERSION_AND_WORDS = 0x45, /* version 4, header of five 32-bit words: no options */
	IPV4_DONT_FRAGMENT = 0x4000,
	IPV4_BYTES_MAX = 65535,
	IP_PROTOCOL_UDP = 17,
	VXLAN_VNI_MAX = 0xffffff,
	EPHEMERAL_PORT_FIRST = 49152, /* RFC 6335 section 6; the 2^14 ports from here on */
	EPHEMERAL_PORT_BITS = 14,
};

/* The VNI is valid (RFC 7348 section 5). */
static const uint32_t vxlan_flag_vni = 0x08000000;

/* Headers are filled in here and copied out: a frame may lie at any alignment. */
struct ethernet_header {
	uint8_t destination_mac[KTSN_ETHER_ADDR_BYTES];
	uint8_t source_mac[KTSN_ETHER_ADDR_BYTES];
	uint16_t ethertype_be;
};
static_assert(sizeof(struct ethernet_header) == KTSN_ETHER_HEADER_BYTES, "padding");

/* Between the addresses and the EtherType. */
struct vlan_tag {
	uint16_t ethertype_be;
	uint16_t control_be; /* priority code point, drop eligible indicator, VLAN identifier */
};
static_assert(sizeof(struct vlan_tag) == KTSN_VLAN_TAG_BYTES, "padding");

struct ipv4_header {
	uint8_t version_and_words;
	uint8_t tos;
	uint16_t total_bytes_be;
	uint16_t id_be;
	uint16_t fragment_be;
	uint8_t ttl;
	uint8_t protocol;
	uint16_t checksum_be;
	uint32_t source_be;
	uint32_t destination_be;
};
static_assert(sizeof(struct ipv4_header) == KTSN_IPV4_HEADER_BYTES, "padding");

struct udp_header {
	uint16_t source_port_be;
	uint16_t destination_port_be;
	uint16_t bytes_be;
	uint16_t checksum_be;
};
static_assert(sizeof(struct udp_header) == KTSN_UDP_HEADER_BYTES, "padding");

struct vxlan_header {
	uint32_t flags_be;
	uint32_t vni_be; /* in the upper 24 bits */
};
static_assert(sizeof(struct vxlan_header) == KTSN_VXLAN_HEADER_BYTES, "padding");

static uint8_t *put(uint8_t *at, const void *header, size_t bytes)
{
	memcpy(at, header, bytes);
	return at + bytes;
}

static uint8_t *put_ethernet(uint8_t *at, const struct ktsn_frame_path *path)
{
	struct ethernet_header header = {.ethertype_be = htobe16(ETHERTYPE_IPV4)};

	memcpy(header.destination_mac, path->destination_mac, KTSN_ETHER_ADDR_BYTES);
	memcpy(header.source_mac, path->source_mac, KTSN_ETHER_ADDR_BYTES);
	return put(at, &header, sizeof(header));
}

/* Moves the EtherType at the end of the header behind a tag. */
static uint8_t *put_vlan(uint8_t *at, const struct ktsn_frame_tunnel *tunnel)
{
	const struct vlan_tag tag = {htobe16(ETHERTYPE_VLAN),
				     htobe16((uint16_t)(tunnel->pcp << VLAN_PCP_SHIFT | tunnel->vlan_id))};
	const uint16_t ethertype_be = htobe16(ETHERTYPE_IPV4);

	assert(tunnel->vlan_id <= VLAN_ID_MAX && tunnel->pcp < 8);
	at = put(at - sizeof(ethertype_be), &tag, sizeof(tag));
	return put(at, &ethertype_be, sizeof(ethertype_be));
}

/*
 * The sums of what headers hold are made of the values, not of the memory that they have just been written to:
 * reading a word that was written in pieces takes a processor longer than all the rest.
 */
static uint64_t two_bytes(uint8_t first, uint8_t second)
{
	return htobe16((uint16_t)(first << 8 | second));
}

static uint64_t ipv4_sum(const struct ipv4_header *header)
{
	return two_bytes(header->version_and_words, header->tos) + header->total_bytes_be +
	       header->fragment_be + two_bytes(header->ttl, header->protocol) + header->source_be +
	       header->destination_be;
}

/* An atomic datagram, never fragmented: its id means nothing and is 0 (RFC 6864 section 4.1). */
static uint8_t *put_ipv4(uint8_t *at, const struct ktsn_frame_path *path, size_t udp_bytes)
{
	struct ipv4_header header = {
		.version_and_words = IPV4_VERSION_AND_WORDS,
		.tos = path->tos,
		.total_bytes_be = htobe16((uint16_t)(KTSN_IPV4_HEADER_BYTES + udp_bytes)),
		.fragment_be = htobe16(IPV4_DONT_FRAGMENT),
		.ttl = path->ttl,
		.protocol = IP_PROTOCOL_UDP,
		.source_be = path->source_ipv4_be,
		.destination_be = path->destination_ipv4_be,
	};

	header.checksum_be = ktsn_checksum_fold_be(ipv4_sum(&header));
	return put(at, &header, sizeof(header));
}

static struct udp_header udp_header(const struct ktsn_frame_path *path, size_t udp_bytes)
{
	return (struct udp_header){
		.source_port_be = path->source_port_be,
		.destination_port_be = path->destination_port_be,
		.bytes_be = htobe16((uint16_t)udp_bytes),
	};
}

/* Over the pseudo header (RFC 768), the header and the payload. */
static uint16_t udp_checksum_be(const struct ktsn_frame_path *path, struct udp_header header,
				const uint8_t *payload, size_t payload_bytes)
{
	uint64_t sum = (uint64_t)path->source_ipv4_be + path->destination_ipv4_be +
		       two_bytes(0, IP_PROTOCOL_UDP) + header.bytes_be + header.source_port_be +
		       header.destination_port_be + header.bytes_be;
	uint16_t checksum_be = ktsn_checksum_fold_be(ktsn_checksum_add(sum, payload, payload_bytes));

	/* 0 would mean "no checksum"; both are zero in one's complement. */
	return checksum_be ? checksum_be : 0xffff;
}

/* Everything up to the UDP header; its checksum stays 0, "none". */
static uint8_t *put_outer(uint8_t *at, const struct ktsn_frame_tunnel *tunnel, size_t inner_frame_bytes)
{
	size_t udp_bytes = KTSN_UDP_HEADER_BYTES + KTSN_VXLAN_HEADER_BYTES + inner_frame_bytes;
	const struct udp_header udp = udp_header(&tunnel->outer, udp_bytes);
	const struct vxlan_header vxlan = {htobe32(vxlan_flag_vni), htobe32(tunnel->vni << 8)};

	/* A longer number would end up in another tenant's network. */
	assert(tunnel->vni <= VXLAN_VNI_MAX);
	at = put_ethernet(at, &tunnel->outer);
	if (tunnel->vlan_id)
		at = put_vlan(at, tunnel);
	at = put_ipv4(at, &tunnel->outer, udp_bytes);
	at = put(at, &udp, sizeof(udp));
	return put(at, &vxlan, sizeof(vxlan));
}

static uint8_t *put_inner(uint8_t *at, const struct ktsn_frame_path *path, size_t payload_bytes)
{
	size_t udp_bytes = KTSN_UDP_HEADER_BYTES + payload_bytes;
	struct udp_header udp = udp_header(path, udp_bytes);

	udp.checksum_be = udp_checksum_be(path, udp, at + KTSN_INNER_HEADER_BYTES, payload_bytes);
	at = put_ethernet(at, path);
	at = put_ipv4(at, path, udp_bytes);
	return put(at, &udp, sizeof(udp));
}

/* In front of the outermost IPv4 header. */
static size_t outer_ethernet_bytes(const struct ktsn_frame_tunnel *tunnel)
{
	return KTSN_ETHER_HEADER_BYTES + (tunnel && tunnel->vlan_id ? KTSN_VLAN_TAG_BYTES : 0);
}

int ktsn_frame_build(uint8_t *frame, size_t capacity_bytes, const struct ktsn_frame_path *inner,
		     const struct ktsn_frame_tunnel *tunnel, size_t payload_bytes)
{
	size_t header_bytes = ktsn_frame_header_bytes(tunnel);
	/* The outermost datagram is the longest: if its length fits into 16 bits, all lengths do. */
	size_t payload_bytes_max = IPV4_BYTES_MAX - (header_bytes - outer_ethernet_bytes(tunnel));
	uint8_t *at = frame;

	if (payload_bytes > payload_bytes_max || header_bytes + payload_bytes > capacity_bytes)
		return -EMSGSIZE;
	if (tunnel)
		at = put_outer(at, tunnel, KTSN_INNER_HEADER_BYTES + payload_bytes);
	at = put_inner(at, inner, payload_bytes);
	return (int)(at - frame);
}

size_t ktsn_frame_header_bytes(const struct ktsn_frame_tunnel *tunnel)
{
	if (!tunnel)
		return KTSN_INNER_HEADER_BYTES;
	return KTSN_INNER_HEADER_BYTES + KTSN_TUNNEL_HEADER_BYTES - KTSN_ETHER_HEADER_BYTES +
	       outer_ethernet_bytes(tunnel);
}

uint16_t ktsn_frame_tunnel_source_port_be(const struct ktsn_frame_path *inner)
{
	/* Two odd constants without structure (of splitmix64): a multiplication carries every bit of the
	 * flow upwards, so the upper bits of the product are the ones to take. */
	uint64_t addresses = (uint64_t)inner->source_ipv4_be << 32 | inner->destination_ipv4_be;
	uint64_t ports = (uint64_t)inner->source_port_be << 16 | inner->destination_port_be;
	uint64_t hash = (addresses ^ ports << 8) * UINT64_C(0xbf58476d1ce4e5b9);

	hash = ((hash ^ hash >> 31) + ports) * UINT64_C(0x94d049bb133111eb);
	return htobe16((uint16_t)(EPHEMERAL_PORT_FIRST + (hash >> (64 - EPHEMERAL_PORT_BITS))));
}

size_t ktsn_frame_sdu_bytes(size_t frame_bytes, const struct ktsn_frame_tunnel *tunnel)
{
	return frame_bytes - outer_ethernet_bytes(tunnel);
}

size_t ktsn_frame_wire_bytes(size_t frame_bytes)
{
	if (frame_bytes < KTSN_ETHER_MIN_BYTES)
		frame_bytes = KTSN_ETHER_MIN_BYTES;
	return frame_bytes + KTSN_WIRE_OVERHEAD_BYTES;
}
