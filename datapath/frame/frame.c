/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#include "checksum.h"
#include "esp.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

enum {
	ETHERTYPE_IPV4 = 0x0800,
	ETHERTYPE_IPV6 = 0x86dd,
	ETHERTYPE_VLAN = 0x8100, /* C-TAG, IEEE Std 802.1Q-2022 table 9-1 */
	VLAN_PCP_SHIFT = 13,
	IPV4_VERSION_AND_WORDS = 0x45, /* version 4, header of five 32-bit words: no options */
	IPV4_DONT_FRAGMENT = 0x4000,
	IPV4_BYTES_MAX = 65535,
	IP_PROTOCOL_UDP = KTSN_ESP_NEXT_HEADER_UDP,
	IP_PROTOCOL_ESP = 50,
	IPV6_VERSION_SHIFT = 28,
	IPV6_TRAFFIC_CLASS_SHIFT = 20,
	IPV6_FLOW_LABEL_MASK = 0xfffff,
	VXLAN_VNI_MAX = 0xffffff,
	EPHEMERAL_PORT_FIRST = 49152, /* RFC 6335 section 6; the 2^14 ports from here on */
	EPHEMERAL_PORT_BITS = 14,
};

/* The VNI is valid (RFC 7348 section 5). */
static const uint32_t vxlan_flag_vni = 0x08000000;

/* Headers are filled in here and then copied to the frame, which may have any alignment. */
struct ethernet_header {
	uint8_t destination_mac[KTSN_ETHER_ADDR_BYTES];
	uint8_t source_mac[KTSN_ETHER_ADDR_BYTES];
	uint16_t ethertype_be;
};
static_assert(sizeof(struct ethernet_header) == KTSN_ETHER_HEADER_BYTES, "padding");

/* The tag is between the addresses and the EtherType. */
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

struct ipv6_header {
	uint32_t version_class_label_be;
	uint16_t payload_bytes_be;
	uint8_t next_header;
	uint8_t hop_limit;
	uint8_t source[KTSN_IPV6_ADDR_BYTES];
	uint8_t destination[KTSN_IPV6_ADDR_BYTES];
};
static_assert(sizeof(struct ipv6_header) == KTSN_IPV6_HEADER_BYTES, "padding");

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

static uint16_t ethertype_be(const struct ktsn_frame_path *path)
{
	switch ((enum ktsn_frame_kind)path->kind) {
	case KTSN_FRAME_IPV4:
		break;
	case KTSN_FRAME_IPV6:
		return htobe16(ETHERTYPE_IPV6);
	case KTSN_FRAME_ETHERNET:
		return path->ethertype_be;
	}
	return htobe16(ETHERTYPE_IPV4);
}

static uint8_t *put_ethernet(uint8_t *at, const struct ktsn_frame_path *path)
{
	struct ethernet_header header = {.ethertype_be = ethertype_be(path)};

	memcpy(header.destination_mac, path->destination_mac, KTSN_ETHER_ADDR_BYTES);
	memcpy(header.source_mac, path->source_mac, KTSN_ETHER_ADDR_BYTES);
	return put(at, &header, sizeof(header));
}

/* Writes the Ethernet header with the tunnel's tag between the addresses and the EtherType. */
static uint8_t *put_tagged_ethernet(uint8_t *at, const struct ktsn_frame_path *path,
				    const struct ktsn_frame_tunnel *tunnel)
{
	const struct vlan_tag tag = {htobe16(ETHERTYPE_VLAN),
				     htobe16((uint16_t)(tunnel->pcp << VLAN_PCP_SHIFT | tunnel->vlan_id))};
	const uint16_t inside_be = ethertype_be(path);

	assert(tunnel->vlan_id <= KTSN_VLAN_ID_MAX && tunnel->pcp < 8);
	at = put(at, path->destination_mac, KTSN_ETHER_ADDR_BYTES);
	at = put(at, path->source_mac, KTSN_ETHER_ADDR_BYTES);
	at = put(at, &tag, sizeof(tag));
	return put(at, &inside_be, sizeof(inside_be));
}

/*
 * The sums of headers are computed from the values, not from the memory to which they have just been written:
 * a read of a word that was written in pieces takes a processor longer than all other work here.
 */
static uint64_t two_bytes(uint8_t first, uint8_t second)
{
	return htobe16((uint16_t)(first << 8 | second));
}

static uint64_t ipv4_sum(const struct ipv4_header *header)
{
	return two_bytes(header->version_and_words, header->tos) + header->total_bytes_be + header->id_be +
	       header->fragment_be + two_bytes(header->ttl, header->protocol) + header->source_be +
	       header->destination_be;
}

/* The id of an atomic datagram, which must not be fragmented, has no meaning and is 0 (RFC 6864 section 4.1).
 */
static uint8_t *put_ipv4(uint8_t *at, const struct ktsn_frame_path *path, uint8_t protocol,
			 size_t content_bytes)
{
	struct ipv4_header header = {
		.version_and_words = IPV4_VERSION_AND_WORDS,
		.tos = path->tos,
		.total_bytes_be = htobe16((uint16_t)(KTSN_IPV4_HEADER_BYTES + content_bytes)),
		.id_be = path->fragmentable ? htobe16(path->id) : 0,
		.fragment_be = path->fragmentable ? 0 : htobe16(IPV4_DONT_FRAGMENT),
		.ttl = path->ttl,
		.protocol = protocol,
		.source_be = path->source_ipv4_be,
		.destination_be = path->destination_ipv4_be,
	};

	header.checksum_be = ktsn_checksum_fold_be(ipv4_sum(&header));
	return put(at, &header, sizeof(header));
}

static uint8_t *put_ipv6(uint8_t *at, const struct ktsn_frame_path *path, size_t udp_bytes)
{
	struct ipv6_header header = {
		.version_class_label_be = htobe32(UINT32_C(6) << IPV6_VERSION_SHIFT |
						  (uint32_t)path->tos << IPV6_TRAFFIC_CLASS_SHIFT |
						  (path->flow_label & IPV6_FLOW_LABEL_MASK)),
		.payload_bytes_be = htobe16((uint16_t)udp_bytes),
		.next_header = IP_PROTOCOL_UDP,
		.hop_limit = path->ttl,
	};

	memcpy(header.source, path->source_ipv6, sizeof(header.source));
	memcpy(header.destination, path->destination_ipv6, sizeof(header.destination));
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

/* Sums IPv6 addresses from memory, which is fast because it has not just been written. */
static uint64_t addresses_sum(const struct ktsn_frame_path *path)
{
	if (path->kind == KTSN_FRAME_IPV4)
		return (uint64_t)path->source_ipv4_be + path->destination_ipv4_be;
	return ktsn_checksum_add(ktsn_checksum_add(0, path->source_ipv6, sizeof(path->source_ipv6)),
				 path->destination_ipv6, sizeof(path->destination_ipv6));
}

/* The checksum over the pseudo header (RFC 768; RFC 8200 section 8.1, whose longer fields contain the same
 * numbers), the header and the payload. */
static uint16_t udp_checksum_be(const struct ktsn_frame_path *path, struct udp_header header,
				const uint8_t *payload, size_t payload_bytes)
{
	uint64_t sum = ktsn_checksum_carry(
		addresses_sum(path), two_bytes(0, IP_PROTOCOL_UDP) + header.bytes_be + header.source_port_be +
					     header.destination_port_be + header.bytes_be);
	uint16_t checksum_be = ktsn_checksum_fold_be(ktsn_checksum_add(sum, payload, payload_bytes));

	/* 0 would mean "no checksum"; both are zero in one's complement. */
	return checksum_be ? checksum_be : 0xffff;
}

/* Writes the outer headers and the VXLAN header. The UDP checksum stays 0, "none". */
static uint8_t *put_outer(uint8_t *at, const struct ktsn_frame_tunnel *tunnel, size_t inner_frame_bytes)
{
	size_t udp_bytes = KTSN_UDP_HEADER_BYTES + KTSN_VXLAN_HEADER_BYTES + inner_frame_bytes;
	const struct udp_header udp = udp_header(&tunnel->outer, udp_bytes);
	const struct vxlan_header vxlan = {htobe32(vxlan_flag_vni), htobe32(tunnel->vni << 8)};

	/* A larger number would send the frame to another tenant's network. */
	assert(tunnel->vni <= VXLAN_VNI_MAX);
	at = tunnel->vlan_id ? put_tagged_ethernet(at, &tunnel->outer, tunnel)
			     : put_ethernet(at, &tunnel->outer);
	if (tunnel->esp) {
		at = put_ipv4(at, &tunnel->outer, IP_PROTOCOL_ESP, ktsn_esp_bytes(udp_bytes));
		at = ktsn_esp_put(at, udp_bytes);
	} else {
		at = put_ipv4(at, &tunnel->outer, IP_PROTOCOL_UDP, udp_bytes);
	}
	at = put(at, &udp, sizeof(udp));
	return put(at, &vxlan, sizeof(vxlan));
}

static size_t inner_header_bytes(const struct ktsn_frame_path *path)
{
	switch ((enum ktsn_frame_kind)path->kind) {
	case KTSN_FRAME_IPV4:
		break;
	case KTSN_FRAME_IPV6:
		return KTSN_INNER_HEADER_BYTES_MAX;
	case KTSN_FRAME_ETHERNET:
		return KTSN_ETHER_HEADER_BYTES;
	}
	return KTSN_INNER_HEADER_BYTES;
}

/* `tag` is the tunnel whose tag the inner Ethernet header contains; NULL: it has no tag. */
static uint8_t *put_inner(uint8_t *at, const struct ktsn_frame_path *path,
			  const struct ktsn_frame_tunnel *tag, size_t payload_bytes)
{
	size_t udp_bytes = KTSN_UDP_HEADER_BYTES + payload_bytes;
	const uint8_t *payload = at + inner_header_bytes(path) + (tag ? KTSN_VLAN_TAG_BYTES : 0);
	struct udp_header udp;

	at = tag ? put_tagged_ethernet(at, path, tag) : put_ethernet(at, path);
	if (path->kind == KTSN_FRAME_ETHERNET)
		return at;
	udp = udp_header(path, udp_bytes);
	if (!path->unchecked)
		udp.checksum_be = udp_checksum_be(path, udp, payload, payload_bytes);
	at = path->kind == KTSN_FRAME_IPV4 ? put_ipv4(at, path, IP_PROTOCOL_UDP, udp_bytes)
					   : put_ipv6(at, path, udp_bytes);
	return put(at, &udp, sizeof(udp));
}

/* Bytes before the outermost IPv4 header. */
static size_t outer_ethernet_bytes(const struct ktsn_frame_tunnel *tunnel)
{
	return KTSN_ETHER_HEADER_BYTES + (tunnel && tunnel->vlan_id ? KTSN_VLAN_TAG_BYTES : 0);
}

int ktsn_frame_build(uint8_t *frame, size_t capacity_bytes, const struct ktsn_frame_path *inner,
		     const struct ktsn_frame_tunnel *tunnel, size_t payload_bytes)
{
	size_t header_bytes = ktsn_frame_header_bytes(inner, tunnel);
	size_t frame_bytes =
		header_bytes + payload_bytes + ktsn_frame_trailer_bytes(inner, tunnel, payload_bytes);
	uint8_t *at = frame;

	/* The outermost datagram is the longest: if its length fits into 16 bits, all lengths do. */
	if (payload_bytes > IPV4_BYTES_MAX || frame_bytes - outer_ethernet_bytes(tunnel) > IPV4_BYTES_MAX ||
	    frame_bytes > capacity_bytes)
		return -EMSGSIZE;
	if (tunnel && !tunnel->switched)
		at = put_outer(at, tunnel, inner_header_bytes(inner) + payload_bytes);
	at = put_inner(at, inner, tunnel && tunnel->switched ? tunnel : NULL, payload_bytes);
	return (int)(at - frame);
}

size_t ktsn_frame_header_bytes(const struct ktsn_frame_path *inner, const struct ktsn_frame_tunnel *tunnel)
{
	if (!tunnel)
		return inner_header_bytes(inner);
	if (tunnel->switched)
		return inner_header_bytes(inner) + KTSN_VLAN_TAG_BYTES;
	return inner_header_bytes(inner) + KTSN_TUNNEL_HEADER_BYTES - KTSN_ETHER_HEADER_BYTES +
	       outer_ethernet_bytes(tunnel) + (tunnel->esp ? KTSN_ESP_HEAD_BYTES : 0);
}

size_t ktsn_frame_trailer_bytes(const struct ktsn_frame_path *inner, const struct ktsn_frame_tunnel *tunnel,
				size_t payload_bytes)
{
	size_t udp_bytes =
		KTSN_UDP_HEADER_BYTES + KTSN_VXLAN_HEADER_BYTES + inner_header_bytes(inner) + payload_bytes;

	return tunnel && tunnel->esp ? ktsn_esp_bytes(udp_bytes) - KTSN_ESP_HEAD_BYTES - udp_bytes : 0;
}

/* Folds the inner flow's addresses to 64 bits. */
static uint64_t addresses_fold(const struct ktsn_frame_path *inner)
{
	uint64_t words[4] = {0};

	if (inner->kind == KTSN_FRAME_IPV4)
		return (uint64_t)inner->source_ipv4_be << 32 | inner->destination_ipv4_be;
	if (inner->kind == KTSN_FRAME_IPV6) {
		memcpy(&words[0], inner->source_ipv6, sizeof(inner->source_ipv6));
		memcpy(&words[2], inner->destination_ipv6, sizeof(inner->destination_ipv6));
	} else {
		memcpy(&words[0], inner->source_mac, sizeof(inner->source_mac));
		memcpy(&words[1], inner->destination_mac, sizeof(inner->destination_mac));
		words[2] = inner->ethertype_be;
	}
	/* Multiplies each word by another odd constant, or flows with swapped addresses would collide. */
	return words[0] + words[1] * UINT64_C(0x9e3779b97f4a7c15) + words[2] * UINT64_C(0xc2b2ae3d27d4eb4f) +
	       words[3] * UINT64_C(0x165667b19e3779f9);
}

/* The upper bits are the most evenly distributed. */
static uint64_t flow_hash(const struct ktsn_frame_path *inner)
{
	/* Two odd constants without structure (from splitmix64): a multiplication carries every bit of the
	 * flow to higher bits, so every bit affects the upper bits of the product. */
	uint64_t ports = (uint64_t)inner->source_port_be << 16 | inner->destination_port_be;
	uint64_t hash = (addresses_fold(inner) ^ ports << 8) * UINT64_C(0xbf58476d1ce4e5b9);

	return ((hash ^ hash >> 31) + ports) * UINT64_C(0x94d049bb133111eb);
}

uint16_t ktsn_frame_tunnel_source_port_be(const struct ktsn_frame_path *inner)
{
	return htobe16((uint16_t)(EPHEMERAL_PORT_FIRST + (flow_hash(inner) >> (64 - EPHEMERAL_PORT_BITS))));
}

uint32_t ktsn_frame_flow_label(const struct ktsn_frame_path *inner)
{
	uint32_t label = (uint32_t)(flow_hash(inner) >> 44);

	return label ? label : 1;
}

size_t ktsn_frame_link_bytes(size_t frame_bytes, const struct ktsn_frame_tunnel *tunnel)
{
	/* The switch removes the tag and adds the tunnel's headers. */
	return tunnel && tunnel->switched ? frame_bytes - KTSN_VLAN_TAG_BYTES + KTSN_TUNNEL_HEADER_BYTES
					  : frame_bytes;
}

size_t ktsn_frame_sdu_bytes(size_t frame_bytes, const struct ktsn_frame_tunnel *tunnel)
{
	if (tunnel && tunnel->switched)
		return ktsn_frame_link_bytes(frame_bytes, tunnel) - KTSN_ETHER_HEADER_BYTES;
	return frame_bytes - outer_ethernet_bytes(tunnel);
}

size_t ktsn_frame_wire_bytes(size_t frame_bytes)
{
	if (frame_bytes < KTSN_ETHER_MIN_BYTES)
		frame_bytes = KTSN_ETHER_MIN_BYTES;
	return frame_bytes + KTSN_WIRE_OVERHEAD_BYTES;
}
