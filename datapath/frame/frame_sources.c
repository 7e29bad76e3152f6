/* SPDX-License-Identifier: Apache-2.0 */
#include "frame_sources.h"

#include "frame.h"

#include <errno.h>
#include <string.h>

enum {
	ETHERTYPE_IPV4 = 0x0800,
	ETHERTYPE_ARP = 0x0806,
	ETHERTYPE_RARP = 0x8035,
	ETHERTYPE_IPV6 = 0x86dd,
	TAGS_MAX = 2,
	IPV4_SOURCE = 12,
	/* RFC 826, for IPv4 over Ethernet. */
	ARP_BYTES = 28,
	ARP_SENDER_MAC = 8,
	ARP_SENDER_IPV4 = 14,
	/* RFC 8200 */
	IPV6_NEXT_HEADER = 6,
	IPV6_SOURCE = 8,
	IPV6_EXTENSIONS_MAX = 8,
	EXTENSION_UNIT_BYTES = 8,
	NEXT_HOP_BY_HOP = 0,
	NEXT_ROUTING = 43,
	NEXT_DESTINATION_OPTIONS = 60,
	NEXT_ICMPV6 = 58,
	/* RFC 4861 section 4.4 */
	NEIGHBOUR_ADVERTISEMENT = 136,
	ADVERTISEMENT_TARGET = 8,
};

/* The rest of a frame that is not parsed yet. */
struct rest {
	const uint8_t *at;
	size_t bytes;
};

static void rest_skip(struct rest *rest, size_t bytes)
{
	rest->at += bytes;
	rest->bytes -= bytes;
}

static void source_put(struct ktsn_frame_source *source, enum ktsn_frame_source_kind kind,
		       const uint8_t *from, size_t bytes)
{
	memset(source, 0, sizeof(*source));
	source->kind = kind;
	memcpy(source->bytes, from, bytes);
}

static int ipv4_sources(struct rest rest, struct ktsn_frame_source *sources)
{
	if (rest.bytes < KTSN_IPV4_HEADER_BYTES || rest.at[0] >> 4 != 4)
		return -EBADMSG;
	source_put(&sources[0], KTSN_SOURCE_IPV4, rest.at + IPV4_SOURCE, 4);
	return 1;
}

/* Only IPv4 over Ethernet is supported, here as by hosts. */
static int arp_sources(struct rest rest, struct ktsn_frame_source *sources)
{
	static const uint8_t ipv4_on_ethernet[] = {0, 1, ETHERTYPE_IPV4 >> 8, ETHERTYPE_IPV4 & 0xff, 6, 4};

	if (rest.bytes < ARP_BYTES || memcmp(rest.at, ipv4_on_ethernet, sizeof(ipv4_on_ethernet)) != 0)
		return -EBADMSG;
	source_put(&sources[0], KTSN_SOURCE_MAC, rest.at + ARP_SENDER_MAC, KTSN_ETHER_ADDR_BYTES);
	source_put(&sources[1], KTSN_SOURCE_IPV4, rest.at + ARP_SENDER_IPV4, 4);
	return 2;
}

static int is_extension(uint8_t header)
{
	return header == NEXT_HOP_BY_HOP || header == NEXT_ROUTING || header == NEXT_DESTINATION_OPTIONS;
}

/* Returns 1 if `rest` then starts at a neighbour advertisement, 0 if not, or -EBADMSG. Hosts ignore fragments
 * of advertisements (RFC 6980). */
static int advertisement_find(struct rest *rest, uint8_t header)
{
	for (int i = 0; is_extension(header); i++) {
		size_t bytes;

		if (i == IPV6_EXTENSIONS_MAX || rest->bytes < EXTENSION_UNIT_BYTES)
			return -EBADMSG;
		bytes = ((size_t)rest->at[1] + 1) * EXTENSION_UNIT_BYTES;
		if (bytes > rest->bytes)
			return -EBADMSG;
		header = rest->at[0];
		rest_skip(rest, bytes);
	}
	return header == NEXT_ICMPV6 && rest->bytes && rest->at[0] == NEIGHBOUR_ADVERTISEMENT;
}

static int ipv6_sources(struct rest rest, struct ktsn_frame_source *sources)
{
	uint8_t header;
	int advertises;

	if (rest.bytes < KTSN_IPV6_HEADER_BYTES || rest.at[0] >> 4 != 6)
		return -EBADMSG;
	source_put(&sources[0], KTSN_SOURCE_IPV6, rest.at + IPV6_SOURCE, KTSN_IPV6_ADDR_BYTES);
	header = rest.at[IPV6_NEXT_HEADER];
	rest_skip(&rest, KTSN_IPV6_HEADER_BYTES);
	advertises = advertisement_find(&rest, header);
	if (advertises <= 0)
		return advertises < 0 ? advertises : 1;
	if (rest.bytes < ADVERTISEMENT_TARGET + KTSN_IPV6_ADDR_BYTES)
		return -EBADMSG;
	source_put(&sources[1], KTSN_SOURCE_IPV6, rest.at + ADVERTISEMENT_TARGET, KTSN_IPV6_ADDR_BYTES);
	return 2;
}

/* Skips VLAN tags. The two bytes of a tag are followed by another EtherType. */
static int tags_skip(uint16_t *ethertype_be, struct rest *rest)
{
	for (int tags = 0; ktsn_frame_is_tagged(*ethertype_be); tags++) {
		if (tags == TAGS_MAX || rest->bytes < KTSN_VLAN_TAG_BYTES)
			return -EBADMSG;
		memcpy(ethertype_be, rest->at + 2, sizeof(*ethertype_be));
		rest_skip(rest, KTSN_VLAN_TAG_BYTES);
	}
	return 0;
}

int ktsn_frame_sources(uint16_t ethertype_be, const uint8_t *payload, size_t bytes,
		       struct ktsn_frame_source sources[KTSN_FRAME_SOURCES_MAX])
{
	struct rest rest = {payload, bytes};
	int err = tags_skip(&ethertype_be, &rest);

	if (err)
		return err;
	switch (be16toh(ethertype_be)) {
	case ETHERTYPE_IPV4:
		return ipv4_sources(rest, sources);
	case ETHERTYPE_ARP:
	case ETHERTYPE_RARP:
		return arp_sources(rest, sources);
	case ETHERTYPE_IPV6:
		return ipv6_sources(rest, sources);
	default:
		return 0;
	}
}
