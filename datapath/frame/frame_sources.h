/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the addresses that a frame claims for its sender, besides its hardware address, and that other hosts
 * would trust. Frames come from any sender, so all accesses are bounds-checked. Pure; safe from any thread.
 */
#ifndef KTSN_FRAME_FRAME_SOURCES_H
#define KTSN_FRAME_FRAME_SOURCES_H

#include <stddef.h>
#include <stdint.h>

enum ktsn_frame_source_kind { KTSN_SOURCE_MAC, KTSN_SOURCE_IPV4, KTSN_SOURCE_IPV6 };

struct ktsn_frame_source {
	enum ktsn_frame_source_kind kind;
	uint8_t bytes[16]; /* the first six of a MAC, the first four of IPv4 */
};

enum { KTSN_FRAME_SOURCES_MAX = 2 };

/*
 * Finds the addresses that a frame with that EtherType and payload claims: the source of IPv4 and IPv6, the
 * target of a neighbour advertisement, the sender's two addresses of ARP and RARP; also after one or two VLAN
 * tags. Returns their number; 0 for another protocol; or -EBADMSG if the addresses are unknown, because the
 * frame is truncated or has more tags.
 */
int ktsn_frame_sources(uint16_t ethertype_be, const uint8_t *payload, size_t bytes,
		       struct ktsn_frame_source sources[KTSN_FRAME_SOURCES_MAX]);

#endif
