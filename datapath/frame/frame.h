/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What leaves: the bytes of a frame, from Ethernet to UDP payload, with or without VXLAN around them.
 *
 * Second stage of a packet's path (ring -> frame -> shaper -> port). Pure: no system calls, no clock, no
 * allocation; writes only into the caller's buffer. Safe from any thread.
 *
 * Layout of what is built (RFC 894, RFC 2464, IEEE Std 802.1Q-2022 clause 9, RFC 791, RFC 8200, RFC 768, RFC
 * 7348):
 *
 *   | Ethernet 14 | VLAN 4 | IPv4 20 | UDP 8 | VXLAN 8 | Ethernet 14 | IPv4 20 or IPv6 40 | UDP 8 | payload |
 *    `----- outer, if tunnelled; VLAN if tagged -------'  `--------------- inner ----------------'
 *
 * In a tunnel that is to be encrypted, ESP stands between IPv4 and UDP, and behind the payload (esp.h).
 *
 * An inner path of kind KTSN_FRAME_ETHERNET has its payload behind the inner Ethernet header. Where a switch
 * of this node does the tunnelling, the outer headers are left to it and the tag stands in the inner Ethernet
 * header.
 */
#ifndef KTSN_FRAME_FRAME_H
#define KTSN_FRAME_FRAME_H

#include "headers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What stands in the Ethernet frame. */
enum ktsn_frame_kind {
	KTSN_FRAME_IPV4,     /* UDP over IPv4 */
	KTSN_FRAME_IPV6,     /* UDP over IPv6 */
	KTSN_FRAME_ETHERNET, /* the payload, of whatever EtherType */
};

/* One conversation on one Ethernet hop. Addresses and ports in wire order. */
struct ktsn_frame_path {
	uint8_t source_mac[KTSN_ETHER_ADDR_BYTES];
	uint8_t destination_mac[KTSN_ETHER_ADDR_BYTES];
	union {
		struct {
			uint32_t source_ipv4_be;
			uint32_t destination_ipv4_be;
		};
		struct {
			uint8_t source_ipv6[KTSN_IPV6_ADDR_BYTES];
			uint8_t destination_ipv6[KTSN_IPV6_ADDR_BYTES];
		};
	};
	uint16_t source_port_be;
	uint16_t destination_port_be;
	uint16_t ethertype_be; /* of KTSN_FRAME_ETHERNET; the others have their own */
	uint8_t kind;          /* enum ktsn_frame_kind */
	uint8_t ttl;           /* of IPv4, or hop limit of IPv6 */
	uint8_t tos;           /* DSCP and ECN, as in IP_TOS and IPV6_TCLASS */
	bool unchecked;        /* the UDP checksum is 0, "none" */
	bool fragmentable;     /* of IPv4: routers may cut it, so that `id` is needed */
	uint16_t
		id; /* of IPv4, if it is fragmentable: another one for each datagram (RFC 6864 section 4.2) */
	uint32_t flow_label; /* of IPv6, 20 bits, host order */
};

/* The tunnel that carries it; outer addresses are those of the two nodes. */
struct ktsn_frame_tunnel {
	struct ktsn_frame_path outer; /* IPv4; destination port: 4789 unless the network says otherwise */
	uint32_t vni;                 /* 24 bits, host order */
	uint16_t vlan_id;             /* of the outer frame, 1 to 4094; 0: it carries no tag */
	uint8_t pcp;                  /* priority code point of that tag, 0 to 7 */
	/* A switch of this node puts the frame into the tunnel: only the tag is ours, in the inner frame, and
	 * tells the switch which network it belongs to. `outer` and `vni` are not looked at. */
	bool switched;
	/* With room for ESP, by which the caller encrypts the frame before it leaves. Not with `switched`. */
	bool esp;
};

/*
 * Builds the headers for a payload of payload_bytes that is (or will be) placed at the returned offset.
 * `tunnel` may be NULL. Returns the number of header bytes written at `frame`, which is where the payload
 * starts; or -EMSGSIZE when headers, payload and trailer do not fit into capacity_bytes or a 16-bit length.
 *
 * The UDP checksum of the inner datagram is computed over the payload already in place, so the caller
 * copies the payload first (to `frame + ktsn_frame_header_bytes(inner, tunnel)`), then builds. A computed
 * checksum of 0 is sent as 0xffff (RFC 768, RFC 8200 section 8.1). An `unchecked` datagram has the checksum 0
 * also over IPv6, where only those take it that asked for it (RFC 6935). The outer UDP checksum is 0 (RFC
 * 7348 section 4.1).
 */
int ktsn_frame_build(uint8_t *frame, size_t capacity_bytes, const struct ktsn_frame_path *inner,
		     const struct ktsn_frame_tunnel *tunnel, size_t payload_bytes);

/* Bytes in front of the payload. */
size_t ktsn_frame_header_bytes(const struct ktsn_frame_path *inner, const struct ktsn_frame_tunnel *tunnel);

/* Bytes behind the payload: what ESP needs there. */
size_t ktsn_frame_trailer_bytes(const struct ktsn_frame_path *inner, const struct ktsn_frame_tunnel *tunnel,
				size_t payload_bytes);

/*
 * Source port of the outer UDP header: a hash of the inner flow in 49152-65535, so that the underlay
 * spreads flows but never reorders one (RFC 7348 section 5). Result in wire order.
 */
uint16_t ktsn_frame_tunnel_source_port_be(const struct ktsn_frame_path *inner);

/* Flow label of an IPv6 flow: a hash of it that is not 0 (RFC 6437 section 3), as the kernel sets by default.
 */
uint32_t ktsn_frame_flow_label(const struct ktsn_frame_path *inner);

/* Length of a built frame on the link, which is longer where a switch of this node puts the tunnel's headers
 * on. */
size_t ktsn_frame_link_bytes(size_t frame_bytes, const struct ktsn_frame_tunnel *tunnel);

/* MAC client data of a built frame on the link: without addresses, EtherType and tag (IEEE Std 802.1Q-2022
 * clause 12.29.1.1, queueMaxSDU). */
size_t ktsn_frame_sdu_bytes(size_t frame_bytes, const struct ktsn_frame_tunnel *tunnel);

/* Bytes that a frame of frame_bytes (without FCS) takes on the wire, padding and gap included. */
size_t ktsn_frame_wire_bytes(size_t frame_bytes);

#endif
