/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of any addresses, sizes and buffers: what is built lies in its buffer, its lengths and checksums are
 * right as a receiver sees them, and what does not fit is refused.
 */
#include "frame.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { IPV4_BYTES_MAX = 65535 };

/* The whole of what decides over a frame, as the input gives it; the payload follows. */
struct wish {
	struct ktsn_frame_path inner;
	struct ktsn_frame_tunnel tunnel;
	uint32_t payload_bytes;
	uint32_t spare_bytes; /* of the buffer, beyond or below what is needed */
	uint8_t tunnelled;
	uint8_t too_small;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static uint32_t be16_at(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

/* RFC 1071, in the plainest way. */
static uint32_t ones_sum(const uint8_t *data, size_t bytes, uint32_t sum)
{
	for (size_t i = 0; i + 1 < bytes; i += 2)
		sum += be16_at(data + i);
	if (bytes % 2)
		sum += (uint32_t)data[bytes - 1] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void ipv4_check(const uint8_t *ip, size_t bytes)
{
	must(ip[0] == 0x45 && ip[9] == 17);
	must(be16_at(ip + 2) == bytes);
	must(ones_sum(ip, KTSN_IPV4_HEADER_BYTES, 0) == 0xffff);
}

/* The datagram behind an IPv4 header. */
static void udp_check(const uint8_t *ip, size_t bytes, bool summed)
{
	const uint8_t *udp = ip + KTSN_IPV4_HEADER_BYTES;
	size_t udp_bytes = bytes - KTSN_IPV4_HEADER_BYTES;

	must(be16_at(udp + 4) == udp_bytes);
	if (!summed)
		must(be16_at(udp + 6) == 0);
	else
		must(be16_at(udp + 6) != 0 &&
		     ones_sum(udp, udp_bytes, ones_sum(ip + 12, 8, 17 + (uint32_t)udp_bytes)) == 0xffff);
}

static void addresses_check(const uint8_t *ether, const uint8_t *ip, const struct ktsn_frame_path *path)
{
	must(memcmp(ether, path->destination_mac, 6) == 0 && memcmp(ether + 6, path->source_mac, 6) == 0);
	must(memcmp(ip + 12, &path->source_ipv4_be, 4) == 0);
	must(memcmp(ip + 16, &path->destination_ipv4_be, 4) == 0);
	must(memcmp(ip + KTSN_IPV4_HEADER_BYTES, &path->source_port_be, 2) == 0);
	must(memcmp(ip + KTSN_IPV4_HEADER_BYTES + 2, &path->destination_port_be, 2) == 0);
	must(ip[1] == path->tos && ip[8] == path->ttl);
}

/* Returns where the inner frame begins. */
static const uint8_t *tunnel_check(const uint8_t *frame, size_t bytes, const struct ktsn_frame_tunnel *tunnel)
{
	const uint8_t *ip = frame + KTSN_ETHER_HEADER_BYTES;
	const uint8_t *vxlan;

	if (tunnel->vlan_id) {
		must(be16_at(frame + 12) == 0x8100);
		must(be16_at(frame + 14) == ((uint32_t)tunnel->pcp << 13 | tunnel->vlan_id));
		ip += KTSN_VLAN_TAG_BYTES;
	}
	must(be16_at(ip - 2) == 0x0800);
	ipv4_check(ip, bytes - (size_t)(ip - frame));
	udp_check(ip, bytes - (size_t)(ip - frame), false);
	addresses_check(frame, ip, &tunnel->outer);
	vxlan = ip + KTSN_IPV4_HEADER_BYTES + KTSN_UDP_HEADER_BYTES;
	must(vxlan[0] == 0x08 && vxlan[7] == 0);
	must(((uint32_t)vxlan[4] << 16 | (uint32_t)vxlan[5] << 8 | vxlan[6]) == tunnel->vni);
	return vxlan + KTSN_VXLAN_HEADER_BYTES;
}

static void frame_check(const uint8_t *frame, size_t bytes, const struct wish *wish)
{
	const uint8_t *inner = wish->tunnelled ? tunnel_check(frame, bytes, &wish->tunnel) : frame;
	const uint8_t *ip = inner + KTSN_ETHER_HEADER_BYTES;
	size_t ip_bytes = bytes - (size_t)(ip - frame);

	must(be16_at(ip - 2) == 0x0800);
	ipv4_check(ip, ip_bytes);
	udp_check(ip, ip_bytes, true);
	addresses_check(inner, ip, &wish->inner);
	must(be16toh(ktsn_frame_tunnel_source_port_be(&wish->inner)) >= 49152);
	must(ktsn_frame_wire_bytes(bytes) >= KTSN_ETHER_MIN_BYTES + KTSN_WIRE_OVERHEAD_BYTES);
	must(ktsn_frame_sdu_bytes(bytes, wish->tunnelled ? &wish->tunnel : NULL) < bytes);
}

/* What the daemon never asks for: options refuse it. */
static void wish_tame(struct wish *wish)
{
	wish->tunnel.vni &= 0xffffff;
	wish->tunnel.vlan_id %= 4095;
	wish->tunnel.pcp &= 7;
	wish->tunnelled &= 1;
	wish->payload_bytes %= 2 * IPV4_BYTES_MAX;
	wish->spare_bytes %= 64;
}

static void build(const struct wish *wish, const uint8_t *payload, size_t payload_bytes)
{
	const struct ktsn_frame_tunnel *tunnel = wish->tunnelled ? &wish->tunnel : NULL;
	size_t headers_bytes = ktsn_frame_header_bytes(tunnel);
	size_t bytes = headers_bytes + wish->payload_bytes;
	size_t short_bytes = wish->spare_bytes < bytes ? wish->spare_bytes : bytes;
	size_t capacity_bytes = wish->too_small % 2 ? bytes - short_bytes : bytes + wish->spare_bytes;
	/* Behind the outer headers' Ethernet and tag, or the inner one's: what IPv4 must be able to count. */
	size_t ipv4_bytes = ktsn_frame_sdu_bytes(bytes, tunnel);
	uint8_t *frame = malloc(capacity_bytes);
	int result;

	must(frame != NULL);
	memset(frame, 0xa5, capacity_bytes);
	for (size_t i = headers_bytes; i < bytes && i < capacity_bytes && payload_bytes; i++)
		frame[i] = payload[i % payload_bytes];
	result = ktsn_frame_build(frame, capacity_bytes, &wish->inner, tunnel, wish->payload_bytes);
	if (capacity_bytes < bytes)
		must(result == -EMSGSIZE);
	else if (result < 0)
		must(result == -EMSGSIZE && ipv4_bytes > IPV4_BYTES_MAX);
	else
		must((size_t)result == headers_bytes);
	if (result > 0)
		frame_check(frame, bytes, wish);
	free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wish wish;

	if (size < sizeof(wish))
		return 0;
	memcpy(&wish, data, sizeof(wish));
	wish_tame(&wish);
	build(&wish, data + sizeof(wish), size - sizeof(wish));
	return 0;
}
