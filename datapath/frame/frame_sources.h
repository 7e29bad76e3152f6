/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a frame says that it is from, beyond its hardware address: what it claims of addresses that others
 * would believe. Frames of anybody, so all is bounds-checked. Pure; safe from any thread.
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
 * What a frame claims whose payload stands behind that EtherType: the source of IPv4 and IPv6, the target of
 * a neighbour advertisement, the sender's two addresses of ARP and RARP; behind one or two VLAN tags as well.
 * Returns how many; 0 of another protocol; or -EBADMSG when it is cut short, or has more tags, so that nobody
 * can tell.
 */
int ktsn_frame_sources(uint16_t ethertype_be, const uint8_t *payload, size_t bytes,
		       struct ktsn_frame_source sources[KTSN_FRAME_SOURCES_MAX]);

#endif
