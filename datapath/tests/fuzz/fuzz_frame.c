/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of any addresses, sizes and buffers: the frame lies in its buffer, its lengths and checksums are
 * right for a receiver, and inputs that do not fit are refused.
 */
#include "esp.h"
#include "frame.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { IPV4_BYTES_MAX = 65535, UDP = 17, ESP = 50, PORT_IN_CLEAR = 4789 };

/* All parameters of a frame, taken from the input; the payload follows. */
struct request {
	struct ktsn_frame_path inner;
	struct ktsn_frame_tunnel tunnel;
	uint32_t payload_bytes;
	uint32_t spare_bytes; /* of the buffer, more or less than needed */
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

/* RFC 1071, in its simplest form. */
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

static void ipv4_check(const uint8_t *ip, size_t bytes, uint8_t protocol)
{
	must(ip[0] == 0x45 && ip[9] == protocol);
	must(be16_at(ip + 2) == bytes);
	must(ones_sum(ip, KTSN_IPV4_HEADER_BYTES, 0) == 0xffff);
}

static void ipv6_check(const uint8_t *ip, size_t bytes, const struct ktsn_frame_path *path)
{
	uint32_t first = be16_at(ip) << 16 | be16_at(ip + 2);

	must(first >> 28 == 6 && (uint8_t)(first >> 20) == path->tos);
	must((first & 0xfffff) == (path->flow_label & 0xfffff));
	must(be16_at(ip + 4) == bytes - KTSN_IPV6_HEADER_BYTES);
	must(ip[6] == 17 && ip[7] == path->ttl);
	must(memcmp(ip + 8, path->source_ipv6, 16) == 0 && memcmp(ip + 24, path->destination_ipv6, 16) == 0);
}

/* A datagram with the addresses before it. */
static void udp_check(const uint8_t *udp, size_t bytes, bool summed, size_t address_bytes)
{
	must(be16_at(udp + 4) == bytes);
	if (!summed)
		must(be16_at(udp + 6) == 0);
	else
		must(be16_at(udp + 6) != 0 &&
		     ones_sum(udp, bytes,
			      ones_sum(udp - address_bytes, address_bytes, 17 + (uint32_t)bytes)) == 0xffff);
}

static void macs_check(const uint8_t *ether, const struct ktsn_frame_path *path)
{
	must(memcmp(ether, path->destination_mac, 6) == 0 && memcmp(ether + 6, path->source_mac, 6) == 0);
}

static void ipv4_addresses_check(const uint8_t *ip, const struct ktsn_frame_path *path)
{
	must(memcmp(ip + 12, &path->source_ipv4_be, 4) == 0);
	must(memcmp(ip + 16, &path->destination_ipv4_be, 4) == 0);
	must(ip[1] == path->tos && ip[8] == path->ttl);
	must(be16_at(ip + 4) == (path->fragmentable ? path->id : 0));
	must(be16_at(ip + 6) == (path->fragmentable ? 0 : 0x4000));
}

static void ports_check(const uint8_t *udp, const struct ktsn_frame_path *path)
{
	must(memcmp(udp, &path->source_port_be, 2) == 0);
	must(memcmp(udp + 2, &path->destination_port_be, 2) == 0);
}

static void tag_check(const uint8_t *frame, const struct ktsn_frame_tunnel *tunnel)
{
	must(be16_at(frame + 12) == 0x8100);
	must(be16_at(frame + 14) == ((uint32_t)tunnel->pcp << 13 | tunnel->vlan_id));
}

/* A part of a frame. */
struct part {
	const uint8_t *at;
	size_t bytes;
};

/* Returns the datagram inside ESP (RFC 4303 section 2), given the content of an IP packet. */
static struct part esp_check(struct part content)
{
	struct part datagram = {content.at + KTSN_ESP_HEAD_BYTES, 0};
	const uint8_t *icv = content.at + content.bytes - KTSN_ESP_ICV_BYTES;
	uint8_t padding = icv[-2];

	must(icv[-1] == KTSN_ESP_NEXT_HEADER_UDP && padding < 4 && (icv - datagram.at) % 4 == 0);
	for (uint8_t i = 0; i < padding; i++)
		must(icv[i - 2 - padding] == i + 1);
	datagram.bytes = (size_t)(icv - datagram.at) - 2 - padding;
	return datagram;
}

/* Returns the inner frame. */
static struct part tunnel_check(const uint8_t *frame, size_t bytes, const struct ktsn_frame_tunnel *tunnel)
{
	const uint8_t *ip = frame + KTSN_ETHER_HEADER_BYTES;
	const uint8_t *vxlan;
	struct part datagram;

	if (tunnel->vlan_id) {
		tag_check(frame, tunnel);
		ip += KTSN_VLAN_TAG_BYTES;
	}
	must(be16_at(ip - 2) == 0x0800);
	ipv4_check(ip, bytes - (size_t)(ip - frame), tunnel->esp ? ESP : UDP);
	datagram = (struct part){ip + KTSN_IPV4_HEADER_BYTES,
				 bytes - (size_t)(ip - frame) - KTSN_IPV4_HEADER_BYTES};
	if (tunnel->esp)
		datagram = esp_check(datagram);
	udp_check(datagram.at, datagram.bytes, false, 8);
	macs_check(frame, &tunnel->outer);
	ipv4_addresses_check(ip, &tunnel->outer);
	ports_check(datagram.at, &tunnel->outer);
	vxlan = datagram.at + KTSN_UDP_HEADER_BYTES;
	must(vxlan[0] == 0x08 && vxlan[7] == 0);
	must(((uint32_t)vxlan[4] << 16 | (uint32_t)vxlan[5] << 8 | vxlan[6]) == tunnel->vni);
	return (struct part){vxlan + KTSN_VXLAN_HEADER_BYTES,
			     datagram.bytes - KTSN_UDP_HEADER_BYTES - KTSN_VXLAN_HEADER_BYTES};
}

/* A frame that has a tag of tag_bytes after the addresses. */
static void inner_check(const uint8_t *inner, size_t bytes, size_t tag_bytes,
			const struct ktsn_frame_path *path)
{
	const uint8_t *ip = inner + KTSN_ETHER_HEADER_BYTES + tag_bytes;
	size_t ip_bytes = bytes - KTSN_ETHER_HEADER_BYTES - tag_bytes;

	macs_check(inner, path);
	if (path->kind == KTSN_FRAME_ETHERNET) {
		must(memcmp(ip - 2, &path->ethertype_be, 2) == 0);
	} else if (path->kind == KTSN_FRAME_IPV6) {
		must(be16_at(ip - 2) == 0x86dd);
		ipv6_check(ip, ip_bytes, path);
		udp_check(ip + KTSN_IPV6_HEADER_BYTES, ip_bytes - KTSN_IPV6_HEADER_BYTES, !path->unchecked,
			  32);
		ports_check(ip + KTSN_IPV6_HEADER_BYTES, path);
		must(ktsn_frame_flow_label(path) && ktsn_frame_flow_label(path) < 1 << 20);
	} else {
		must(be16_at(ip - 2) == 0x0800);
		ipv4_check(ip, ip_bytes, UDP);
		ipv4_addresses_check(ip, path);
		udp_check(ip + KTSN_IPV4_HEADER_BYTES, ip_bytes - KTSN_IPV4_HEADER_BYTES, !path->unchecked,
			  8);
		ports_check(ip + KTSN_IPV4_HEADER_BYTES, path);
	}
}

/* The frame that a switch of this node would put into the tunnel. */
static void switched_check(const uint8_t *frame, size_t bytes, const struct request *request)
{
	tag_check(frame, &request->tunnel);
	inner_check(frame, bytes, KTSN_VLAN_TAG_BYTES, &request->inner);
	must(ktsn_frame_link_bytes(bytes, &request->tunnel) ==
	     bytes - KTSN_VLAN_TAG_BYTES + KTSN_TUNNEL_HEADER_BYTES);
}

/* Checks the positions of the encrypted parts, and that the plain frame is left as without ESP. */
static void esp_parts_check(uint8_t *frame, size_t bytes, const struct request *request)
{
	const struct ktsn_esp esp = ktsn_esp_find(frame, bytes);
	struct request clear = *request;
	struct part inner;

	must(esp.text == esp.header + KTSN_ESP_HEAD_BYTES && esp.icv == esp.text + esp.text_bytes);
	must(esp.icv + KTSN_ESP_ICV_BYTES == frame + bytes);
	must(ktsn_esp_destination_be(&esp) == request->tunnel.outer.destination_ipv4_be);
	ktsn_esp_number(&esp, 0x01020304, 0x05060708);
	must(ktsn_esp_sequence(&esp) == 0x05060708 && be16_at(esp.header) == 0x0102);
	clear.tunnel.esp = false;
	clear.tunnel.outer.destination_port_be = htobe16(PORT_IN_CLEAR);
	bytes = ktsn_esp_remove(frame, bytes, htobe16(PORT_IN_CLEAR));
	inner = tunnel_check(frame, bytes, &clear.tunnel);
	inner_check(inner.at, inner.bytes, 0, &clear.inner);
}

static void frame_check(uint8_t *frame, size_t bytes, const struct request *request)
{
	if (request->tunnelled && request->tunnel.switched) {
		switched_check(frame, bytes, request);
	} else {
		struct part inner = {frame, bytes};

		if (request->tunnelled)
			inner = tunnel_check(frame, bytes, &request->tunnel);
		inner_check(inner.at, inner.bytes, 0, &request->inner);
		must(ktsn_frame_sdu_bytes(bytes, request->tunnelled ? &request->tunnel : NULL) < bytes);
	}
	must(be16toh(ktsn_frame_tunnel_source_port_be(&request->inner)) >= 49152);
	must(ktsn_frame_wire_bytes(bytes) >= KTSN_ETHER_MIN_BYTES + KTSN_WIRE_OVERHEAD_BYTES);
	if (request->tunnelled && request->tunnel.esp)
		esp_parts_check(frame, bytes, request);
}

/* A byte of the input is not a valid bool yet. */
static void bool_tame(bool *flag)
{
	uint8_t byte;

	memcpy(&byte, flag, sizeof(byte));
	*flag = byte & 1;
}

static void path_tame(struct ktsn_frame_path *path, uint8_t kind)
{
	path->kind = kind;
	bool_tame(&path->unchecked);
	bool_tame(&path->fragmentable);
}

/* The daemon never requests these: its options refuse them. */
static void request_tame(struct request *request)
{

	path_tame(&request->inner, request->inner.kind % (KTSN_FRAME_ETHERNET + 1));
	path_tame(&request->tunnel.outer, KTSN_FRAME_IPV4);
	request->tunnel.vni &= 0xffffff;
	request->tunnel.vlan_id %= 4095;
	request->tunnel.pcp &= 7;
	bool_tame(&request->tunnel.switched);
	bool_tame(&request->tunnel.esp);
	request->tunnel.esp = request->tunnel.esp && !request->tunnel.switched;
	if (request->tunnel.switched && !request->tunnel.vlan_id)
		request->tunnel.vlan_id = 1;
	request->tunnelled &= 1;
	request->payload_bytes %= 2 * IPV4_BYTES_MAX;
	request->spare_bytes %= 64;
}

static void build(const struct request *request, const uint8_t *payload, size_t payload_bytes)
{
	const struct ktsn_frame_tunnel *tunnel = request->tunnelled ? &request->tunnel : NULL;
	size_t headers_bytes = ktsn_frame_header_bytes(&request->inner, tunnel);
	size_t trailer_bytes = ktsn_frame_trailer_bytes(&request->inner, tunnel, request->payload_bytes);
	size_t bytes = headers_bytes + request->payload_bytes + trailer_bytes;
	size_t short_bytes = request->spare_bytes < bytes ? request->spare_bytes : bytes;
	size_t capacity_bytes = request->too_small % 2 ? bytes - short_bytes : bytes + request->spare_bytes;
	/* The bytes after the outer headers' Ethernet and tag, or after the inner ones: IPv4 must be able
	 * to count them. */
	size_t ipv4_bytes = tunnel && tunnel->switched ? bytes - KTSN_ETHER_HEADER_BYTES - KTSN_VLAN_TAG_BYTES
						       : ktsn_frame_sdu_bytes(bytes, tunnel);
	uint8_t *frame = malloc(capacity_bytes);
	int result;

	must(frame != NULL);
	memset(frame, 0xa5, capacity_bytes);
	for (size_t i = headers_bytes; i < bytes - trailer_bytes && i < capacity_bytes && payload_bytes; i++)
		frame[i] = payload[i % payload_bytes];
	result = ktsn_frame_build(frame, capacity_bytes, &request->inner, tunnel, request->payload_bytes);
	if (capacity_bytes < bytes)
		must(result == -EMSGSIZE);
	else if (result < 0)
		must(result == -EMSGSIZE && ipv4_bytes > IPV4_BYTES_MAX);
	else
		must((size_t)result == headers_bytes);
	if (result > 0)
		frame_check(frame, bytes, request);
	free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct request request;

	if (size < sizeof(request))
		return 0;
	memcpy(&request, data, sizeof(request));
	request_tame(&request);
	build(&request, data + sizeof(request), size - sizeof(request));
	return 0;
}
