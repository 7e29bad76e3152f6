/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lengths of headers, and the EtherTypes of VLAN tags.
 */
#ifndef KTSN_FRAME_HEADERS_H
#define KTSN_FRAME_HEADERS_H

#include <endian.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	KTSN_ETHER_ADDR_BYTES = 6,
	KTSN_ETHER_HEADER_BYTES = 14,
	KTSN_VLAN_TAG_BYTES = 4,
	KTSN_VLAN_ID_MAX = 4094,
	KTSN_IPV4_HEADER_BYTES = 20,
	KTSN_IPV6_HEADER_BYTES = 40,
	KTSN_IPV6_ADDR_BYTES = 16,
	KTSN_UDP_HEADER_BYTES = 8,
	KTSN_VXLAN_HEADER_BYTES = 8,
	/* Ethernet + IPv4 + UDP before the payload. */
	KTSN_INNER_HEADER_BYTES = 42,
	/* Ethernet + IPv6 + UDP before the payload: the longest inner headers. */
	KTSN_INNER_HEADER_BYTES_MAX = 62,
	/* Ethernet + IPv4 + UDP + VXLAN before the inner frame, without a VLAN tag. */
	KTSN_TUNNEL_HEADER_BYTES = 50,
	/* Bytes that a frame takes on the wire in addition to its own: preamble and SFD 8, FCS 4, gap 12
	 * (IEEE 802.3 clause 4.4.2). */
	KTSN_WIRE_OVERHEAD_BYTES = 24,
	/* Shortest frame without FCS; shorter ones are padded by the MAC (IEEE 802.3 clause 4.2.3.3). */
	KTSN_ETHER_MIN_BYTES = 60,
};

/* EtherTypes of VLAN tags. */
enum { KTSN_ETHERTYPE_C_TAG = 0x8100, KTSN_ETHERTYPE_S_TAG = 0x88a8 };

static inline bool ktsn_frame_is_tagged(uint16_t ethertype_be)
{
	return ethertype_be == htobe16(KTSN_ETHERTYPE_C_TAG) || ethertype_be == htobe16(KTSN_ETHERTYPE_S_TAG);
}

#endif
