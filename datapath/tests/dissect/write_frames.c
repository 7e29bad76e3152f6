/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes frames built by the frame stage to a capture file, and to standard output the values that tshark
 * must find in them: a line with the names of tshark's fields, then one line of values per frame. The values
 * come from the inputs and the RFCs' constants, never from the bytes that were built. check_frames.sh
 * compares them.
 */
#include "frame.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
	FRAME_BYTES_MAX = 1600,
	LAYERS_MAX = 2,
	/* Values of tshark's fields ip.checksum.status and udp.checksum.status. */
	CHECKSUM_GOOD = 1,
	CHECKSUM_NOT_PRESENT = 3,
};

static const size_t payload_sizes_bytes[] = {0, 1, 64, 256, 1023, 1024, 1400};

/* A hop in readable form; the frame stage gets it in wire order. */
struct hop {
	uint8_t source_mac[6];
	uint8_t destination_mac[6];
	uint8_t source_ipv4[4];
	uint8_t destination_ipv4[4];
	uint16_t source_port;
	uint16_t destination_port;
	uint8_t ttl;
	uint8_t tos;
	uint8_t kind; /* enum ktsn_frame_kind; frames other than IPv4 use the next fields instead of those
			 above */
	uint8_t source_ipv6[16];
	uint8_t destination_ipv6[16];
	uint32_t flow_label;
	uint16_t ethertype;
	uint16_t id;
	bool fragmentable;
	bool unchecked;
};

static const struct hop node_to_node = {
	.source_mac = {2, 0, 0, 1, 0, 1},
	.destination_mac = {2, 0, 0, 1, 0, 2},
	.source_ipv4 = {192, 0, 2, 1},
	.destination_ipv4 = {192, 0, 2, 2},
	.source_port = 49152,
	.destination_port = 4789,
	.ttl = 64,
};

static const struct hop node_to_group = {
	.source_mac = {6, 9, 8, 7, 6, 5},
	.destination_mac = {1, 0, 0x5e, 1, 2, 3},
	.source_ipv4 = {172, 31, 255, 1},
	.destination_ipv4 = {239, 1, 2, 3},
	.source_port = 65534,
	.destination_port = 4789,
	.ttl = 1,
	.tos = 0xb8,
};

static const struct hop pod_to_pod = {
	.source_mac = {2, 0, 0, 0, 0, 1},
	.destination_mac = {2, 0, 0, 0, 0, 2},
	.source_ipv4 = {10, 1, 0, 1},
	.destination_ipv4 = {10, 1, 0, 2},
	.source_port = 40000,
	.destination_port = 40001,
	.ttl = 64,
};

static const struct hop pod_to_group = {
	.source_mac = {2, 0, 0, 0, 0, 3},
	.destination_mac = {1, 0, 0x5e, 7, 7, 7},
	.source_ipv4 = {10, 2, 0, 3},
	.destination_ipv4 = {239, 7, 7, 7},
	.source_port = 50000,
	.destination_port = 40001,
	.ttl = 1,
	.tos = 0x88,
};

static const struct hop highest_values = {
	.source_mac = {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff},
	.destination_mac = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	.source_ipv4 = {223, 255, 255, 254},
	.destination_ipv4 = {255, 255, 255, 255},
	.source_port = 65535,
	.destination_port = 65535,
	.ttl = 255,
	.tos = 0xff,
};

static const struct hop pod_to_pod_ipv6 = {
	.source_mac = {2, 0, 0, 0, 0, 1},
	.destination_mac = {2, 0, 0, 0, 0, 2},
	.kind = KTSN_FRAME_IPV6,
	.source_ipv6 = {0xfd, 0, 0, 0x42, 0, 1, [15] = 2},
	.destination_ipv6 = {0xfd, 0, 0, 0x42, 0, 2, [15] = 2},
	.source_port = 40000,
	.destination_port = 40001,
	.ttl = 64,
	.flow_label = 1,
};

static const struct hop pod_to_group_ipv6 = {
	.source_mac = {2, 0, 0, 0, 0, 3},
	.destination_mac = {0x33, 0x33, 0, 1, 0, 2},
	.kind = KTSN_FRAME_IPV6,
	.source_ipv6 = {0xfe, 0x80, [8] = 2, [15] = 3},
	.destination_ipv6 = {0xff, 0x15, [13] = 1, [15] = 2},
	.source_port = 50000,
	.destination_port = 40001,
	.ttl = 1,
	.tos = 0x88,
	.flow_label = 0xfffff,
};

static const struct hop fragmentable = {
	.source_mac = {2, 0, 0, 0, 0, 1},
	.destination_mac = {2, 0, 0, 0, 0, 2},
	.source_ipv4 = {10, 1, 0, 1},
	.destination_ipv4 = {10, 1, 0, 2},
	.source_port = 40000,
	.destination_port = 40001,
	.ttl = 64,
	.id = 0xfffe,
	.fragmentable = true,
};

static const struct hop fragmentable_unchecked = {
	.source_mac = {2, 0, 0, 0, 0, 1},
	.destination_mac = {2, 0, 0, 0, 0, 2},
	.source_ipv4 = {10, 1, 0, 1},
	.destination_ipv4 = {10, 1, 0, 2},
	.source_port = 40000,
	.destination_port = 40001,
	.ttl = 64,
	.id = 0x0102,
	.fragmentable = true,
	.unchecked = true,
};

static const struct hop of_layer_2 = {
	.source_mac = {2, 0, 0, 0, 0, 1},
	.destination_mac = {2, 0, 0, 0, 0, 2},
	.kind = KTSN_FRAME_ETHERNET,
	.ethertype = 0x88b5,
};

struct flow {
	const struct hop *inner;
	const struct hop *outer; /* NULL: no tunnel */
	uint32_t vni;
	uint16_t vlan_id; /* of the outer frame; 0: no tag */
	uint8_t pcp;
};

static const struct flow flows[] = {
	{&pod_to_pod, NULL, 0, 0, 0},
	{&pod_to_group, NULL, 0, 0, 0},
	{&highest_values, NULL, 0, 0, 0},
	{&pod_to_pod, &node_to_node, 1, 0, 0},
	{&pod_to_group, &node_to_group, 0xabcdef, 0, 0},
	{&highest_values, &node_to_node, 0xffffff, 0, 0},
	{&pod_to_pod, &node_to_node, 1, 1, 0},
	{&pod_to_group, &node_to_group, 0xabcdef, 100, 5},
	{&highest_values, &node_to_node, 0xffffff, 4094, 7},
	{&pod_to_pod_ipv6, NULL, 0, 0, 0},
	{&pod_to_group_ipv6, NULL, 0, 0, 0},
	{&pod_to_pod_ipv6, &node_to_node, 42, 0, 0},
	{&pod_to_group_ipv6, &node_to_group, 43, 100, 5},
	{&fragmentable, NULL, 0, 0, 0},
	{&fragmentable_unchecked, NULL, 0, 0, 0},
	{&fragmentable, &node_to_node, 46, 0, 0},
	{&fragmentable_unchecked, &node_to_node, 47, 7, 3},
	{&of_layer_2, NULL, 0, 0, 0},
	{&of_layer_2, &node_to_node, 44, 0, 0},
	{&of_layer_2, &node_to_node, 45, 7, 3},
};

/* Ethernet to UDP, once or twice in a frame. */
struct layer {
	const struct hop *hop;
	size_t udp_payload_bytes;
	int udp_checksum_status;
	bool tagged;
};

struct expected {
	struct layer layers[LAYERS_MAX]; /* from the outside in */
	int layer_count;
	const struct flow *flow;
	const uint8_t *payload;
	size_t payload_bytes;
};

static void print_mac(const uint8_t *mac)
{
	printf("%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
}

static void print_ipv4(const uint8_t *address)
{
	printf("%u.%u.%u.%u", address[0], address[1], address[2], address[3]);
}

static void eth_src(const struct layer *layer)
{
	print_mac(layer->hop->source_mac);
}

static void eth_dst(const struct layer *layer)
{
	print_mac(layer->hop->destination_mac);
}

static void eth_type(const struct layer *layer)
{
	static const uint16_t of_kind[] = {[KTSN_FRAME_IPV4] = 0x0800, [KTSN_FRAME_IPV6] = 0x86dd};

	printf("0x%04x", layer->tagged                             ? 0x8100
			 : layer->hop->kind == KTSN_FRAME_ETHERNET ? layer->hop->ethertype
								   : of_kind[layer->hop->kind]);
}

static void ip_hdr_len(const struct layer *layer)
{
	(void)layer;
	printf("20");
}

static void ip_dsfield(const struct layer *layer)
{
	printf("0x%02x", layer->hop->tos);
}

static void ip_len(const struct layer *layer)
{
	printf("%zu", 20 + 8 + layer->udp_payload_bytes);
}

static void ip_id(const struct layer *layer)
{
	printf("0x%04x", layer->hop->id);
}

/* With and without "don't fragment", otherwise equal. */
static void ip_flags(const struct layer *layer)
{
	printf("0x%02x", layer->hop->fragmentable ? 0 : 2);
}

static void ip_frag_offset(const struct layer *layer)
{
	(void)layer;
	printf("0");
}

static void ip_ttl(const struct layer *layer)
{
	printf("%u", layer->hop->ttl);
}

static void ip_proto(const struct layer *layer)
{
	(void)layer;
	printf("17");
}

static void ip_checksum_status(const struct layer *layer)
{
	(void)layer;
	printf("%d", CHECKSUM_GOOD);
}

static void ip_src(const struct layer *layer)
{
	print_ipv4(layer->hop->source_ipv4);
}

static void ip_dst(const struct layer *layer)
{
	print_ipv4(layer->hop->destination_ipv4);
}

static void ipv6_version(const struct layer *layer)
{
	(void)layer;
	printf("6");
}

static void ipv6_tclass(const struct layer *layer)
{
	printf("0x%08x", layer->hop->tos);
}

static void ipv6_flow(const struct layer *layer)
{
	printf("0x%06" PRIx32, layer->hop->flow_label);
}

static void ipv6_plen(const struct layer *layer)
{
	printf("%zu", 8 + layer->udp_payload_bytes);
}

static void ipv6_nxt(const struct layer *layer)
{
	(void)layer;
	printf("17");
}

static void ipv6_hlim(const struct layer *layer)
{
	printf("%u", layer->hop->ttl);
}

static void print_ipv6(const uint8_t *address)
{
	char text[INET6_ADDRSTRLEN];

	printf("%s", inet_ntop(AF_INET6, address, text, sizeof(text)));
}

static void ipv6_src(const struct layer *layer)
{
	print_ipv6(layer->hop->source_ipv6);
}

static void ipv6_dst(const struct layer *layer)
{
	print_ipv6(layer->hop->destination_ipv6);
}

static void udp_srcport(const struct layer *layer)
{
	printf("%u", layer->hop->source_port);
}

static void udp_dstport(const struct layer *layer)
{
	printf("%u", layer->hop->destination_port);
}

static void udp_length(const struct layer *layer)
{
	printf("%zu", 8 + layer->udp_payload_bytes);
}

static void udp_checksum_status(const struct layer *layer)
{
	printf("%d", layer->udp_checksum_status);
}

enum { IPV4 = 1 << KTSN_FRAME_IPV4, IPV6 = 1 << KTSN_FRAME_IPV6, ETHERNET = 1 << KTSN_FRAME_ETHERNET };

/* Fields that occur in every layer of those kinds; tshark joins the occurrences with commas. */
static const struct {
	const char *name;
	void (*print)(const struct layer *layer);
	unsigned int kinds;
} layer_fields[] = {
	{"eth.src", eth_src, IPV4 | IPV6 | ETHERNET},
	{"eth.dst", eth_dst, IPV4 | IPV6 | ETHERNET},
	{"eth.type", eth_type, IPV4 | IPV6 | ETHERNET},
	{"ip.hdr_len", ip_hdr_len, IPV4},
	{"ip.dsfield", ip_dsfield, IPV4},
	{"ip.len", ip_len, IPV4},
	{"ip.id", ip_id, IPV4},
	{"ip.flags", ip_flags, IPV4},
	{"ip.frag_offset", ip_frag_offset, IPV4},
	{"ip.ttl", ip_ttl, IPV4},
	{"ip.proto", ip_proto, IPV4},
	{"ip.checksum.status", ip_checksum_status, IPV4},
	{"ip.src", ip_src, IPV4},
	{"ip.dst", ip_dst, IPV4},
	{"ipv6.version", ipv6_version, IPV6},
	{"ipv6.tclass", ipv6_tclass, IPV6},
	{"ipv6.flow", ipv6_flow, IPV6},
	{"ipv6.plen", ipv6_plen, IPV6},
	{"ipv6.nxt", ipv6_nxt, IPV6},
	{"ipv6.hlim", ipv6_hlim, IPV6},
	{"ipv6.src", ipv6_src, IPV6},
	{"ipv6.dst", ipv6_dst, IPV6},
	{"udp.srcport", udp_srcport, IPV4 | IPV6},
	{"udp.dstport", udp_dstport, IPV4 | IPV6},
	{"udp.length", udp_length, IPV4 | IPV6},
	{"udp.checksum.status", udp_checksum_status, IPV4 | IPV6},
};

enum { LAYER_FIELDS = sizeof(layer_fields) / sizeof(layer_fields[0]) };

static void print_names(void)
{
	for (int field = 0; field < LAYER_FIELDS; field++)
		printf("%s|", layer_fields[field].name);
	printf("vlan.id|vlan.priority|vlan.dei|vlan.etype|vxlan.flags|vxlan.vni|data.data|_ws.expert\n");
}

static void print_expected(const struct expected *expected)
{
	for (int field = 0; field < LAYER_FIELDS; field++) {
		const char *comma = "";

		for (int layer = 0; layer < expected->layer_count; layer++) {
			if (!(layer_fields[field].kinds & 1U << expected->layers[layer].hop->kind))
				continue;
			printf("%s", comma);
			layer_fields[field].print(&expected->layers[layer]);
			comma = ",";
		}
		printf("|");
	}
	if (expected->flow->vlan_id)
		printf("%u|%u|0|0x0800|", expected->flow->vlan_id, expected->flow->pcp);
	else
		printf("||||");
	if (expected->layer_count > 1)
		printf("0x0800|%" PRIu32 "|", expected->flow->vni);
	else
		printf("||");
	for (size_t i = 0; i < expected->payload_bytes; i++)
		printf("%02x", expected->payload[i]);
	printf("|\n"); /* and no expert information: nothing malformed, no bad checksum */
}

/* Different in each frame. */
static void fill_payload(uint8_t *payload, size_t bytes, size_t flow_index)
{
	for (size_t i = 0; i < bytes; i++)
		payload[i] = (uint8_t)(i * 31 + i / 256 + bytes + flow_index * 97 + 1);
}

static size_t inner_header_bytes(const struct hop *inner)
{
	static const size_t bytes[] = {
		[KTSN_FRAME_IPV4] = 14 + 20 + 8,
		[KTSN_FRAME_IPV6] = 14 + 40 + 8,
		[KTSN_FRAME_ETHERNET] = 14,
	};

	return bytes[inner->kind];
}

static struct expected expect(const struct flow *flow, const uint8_t *payload, size_t payload_bytes)
{
	struct expected expected = {
		.flow = flow,
		.payload = payload,
		.payload_bytes = payload_bytes,
	};

	if (flow->outer)
		expected.layers[expected.layer_count++] =
			(struct layer){flow->outer, 8 + inner_header_bytes(flow->inner) + payload_bytes,
				       CHECKSUM_NOT_PRESENT, flow->vlan_id != 0};
	expected.layers[expected.layer_count++] =
		(struct layer){flow->inner, payload_bytes,
			       flow->inner->unchecked ? CHECKSUM_NOT_PRESENT : CHECKSUM_GOOD, false};
	return expected;
}

static struct ktsn_frame_path path_of(const struct hop *hop)
{
	struct ktsn_frame_path path = {
		.source_port_be = htobe16(hop->source_port),
		.destination_port_be = htobe16(hop->destination_port),
		.ttl = hop->ttl,
		.tos = hop->tos,
		.kind = hop->kind,
		.flow_label = hop->flow_label,
		.ethertype_be = htobe16(hop->ethertype),
		.id = hop->id,
		.fragmentable = hop->fragmentable,
		.unchecked = hop->unchecked,
	};

	memcpy(path.source_mac, hop->source_mac, sizeof(path.source_mac));
	memcpy(path.destination_mac, hop->destination_mac, sizeof(path.destination_mac));
	if (hop->kind == KTSN_FRAME_IPV6) {
		memcpy(path.source_ipv6, hop->source_ipv6, sizeof(path.source_ipv6));
		memcpy(path.destination_ipv6, hop->destination_ipv6, sizeof(path.destination_ipv6));
		return path;
	}
	memcpy(&path.source_ipv4_be, hop->source_ipv4, sizeof(path.source_ipv4_be));
	memcpy(&path.destination_ipv4_be, hop->destination_ipv4, sizeof(path.destination_ipv4_be));
	return path;
}

/* Returns the length of the frame, or -errno. */
static int build(uint8_t *frame, const struct flow *flow, const uint8_t *payload, size_t payload_bytes)
{
	struct ktsn_frame_path inner = path_of(flow->inner);
	struct ktsn_frame_tunnel tunnel;
	int header_bytes;

	if (flow->outer)
		tunnel = (struct ktsn_frame_tunnel){.outer = path_of(flow->outer),
						    .vni = flow->vni,
						    .vlan_id = flow->vlan_id,
						    .pcp = flow->pcp};
	memcpy(frame + ktsn_frame_header_bytes(&inner, flow->outer ? &tunnel : NULL), payload, payload_bytes);
	header_bytes =
		ktsn_frame_build(frame, FRAME_BYTES_MAX, &inner, flow->outer ? &tunnel : NULL, payload_bytes);
	return header_bytes < 0 ? header_bytes : header_bytes + (int)payload_bytes;
}

/* A capture in the classic format, in this machine's byte order (pcap-savefile(5)). */
static int write_capture_header(FILE *capture)
{
	static const struct {
		uint32_t magic;
		uint16_t version_major;
		uint16_t version_minor;
		int32_t zone_s;
		uint32_t accuracy;
		uint32_t captured_bytes_max;
		uint32_t link_type;
	} header = {0xa1b2c3d4, 2, 4, 0, 0, 65535, 1 /* Ethernet */};

	_Static_assert(sizeof(header) == 24, "pcap file header");
	return fwrite(&header, sizeof(header), 1, capture) == 1 ? 0 : -EIO;
}

static int write_frame(FILE *capture, const uint8_t *frame, uint32_t bytes)
{
	const struct {
		uint32_t time_s;
		uint32_t time_us;
		uint32_t captured_bytes;
		uint32_t wire_bytes;
	} header = {0, 0, bytes, bytes};

	_Static_assert(sizeof(header) == 16, "pcap record header");
	if (fwrite(&header, sizeof(header), 1, capture) != 1 || fwrite(frame, bytes, 1, capture) != 1)
		return -EIO;
	return 0;
}

static int write_one(FILE *capture, size_t flow_index, size_t payload_bytes)
{
	static uint8_t frame[FRAME_BYTES_MAX], payload[FRAME_BYTES_MAX];
	const struct flow *flow = &flows[flow_index];
	struct expected expected = expect(flow, payload, payload_bytes);
	int bytes;

	fill_payload(payload, payload_bytes, flow_index);
	print_expected(&expected);
	bytes = build(frame, flow, payload, payload_bytes);
	return bytes < 0 ? bytes : write_frame(capture, frame, (uint32_t)bytes);
}

static int write_all(FILE *capture)
{
	int error = write_capture_header(capture);

	print_names();
	for (size_t flow = 0; flow < sizeof(flows) / sizeof(flows[0]); flow++) {
		for (size_t i = 0; !error && i < sizeof(payload_sizes_bytes) / sizeof(size_t); i++)
			error = write_one(capture, flow, payload_sizes_bytes[i]);
	}
	return error;
}

int main(int argc, char **argv)
{
	FILE *capture = argc == 2 ? fopen(argv[1], "wb") : NULL;
	int error;

	if (!capture) {
		fprintf(stderr, "usage: write_frames CAPTURE (a file that can be written)\n");
		return 2;
	}
	error = write_all(capture);
	if (fclose(capture) != 0 && !error)
		error = -errno;
	if (error)
		fprintf(stderr, "write_frames: %s: %s\n", argv[1], strerror(-error));
	return error ? 1 : 0;
}
