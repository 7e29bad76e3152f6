/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the bytes of a frame, from Ethernet to UDP payload, with or without VXLAN around them.
 *
 * Second stage of a packet's path (ring -> frame -> shaper -> port). Pure: no system calls, no clock, no
 * allocation; writes only into the caller's buffer. Safe from any thread.
 *
 * Layout of a frame (RFC 894, RFC 2464, IEEE Std 802.1Q-2022 clause 9, RFC 791, RFC 8200, RFC 768, RFC 7348):
 *
 *   | Ethernet 14 | VLAN 4 | IPv4 20 | UDP 8 | VXLAN 8 | Ethernet 14 | IPv4 20 or IPv6 40 | UDP 8 | payload |
 *    `----- outer, if tunnelled; VLAN if tagged -------'  `--------------- inner ----------------'
 *
 * In an encrypted tunnel, ESP is between IPv4 and UDP, and after the payload (esp.h).
 *
 * With an inner path of kind KTSN_FRAME_ETHERNET the payload follows the inner Ethernet header. If a switch
 * of this node does the tunnelling, it adds the outer headers, and the tag is in the inner Ethernet header.
 */
#ifndef KTSN_FRAME_FRAME_H
#define KTSN_FRAME_FRAME_H

#include "headers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The content of the Ethernet frame. */
enum ktsn_frame_kind {
	KTSN_FRAME_IPV4,     /* UDP over IPv4 */
	KTSN_FRAME_IPV6,     /* UDP over IPv6 */
	KTSN_FRAME_ETHERNET, /* the payload, with any EtherType */
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
	uint16_t ethertype_be; /* for KTSN_FRAME_ETHERNET; the other kinds determine it */
	uint8_t kind;          /* enum ktsn_frame_kind */
	uint8_t ttl;           /* TTL of IPv4, or hop limit of IPv6 */
	uint8_t tos;           /* DSCP and ECN, as in IP_TOS and IPV6_TCLASS */
	bool unchecked;        /* the UDP checksum is 0, "none" */
	bool fragmentable;     /* for IPv4: routers may fragment the datagram, so that it needs an `id` */
	uint16_t id;           /* for fragmentable IPv4: unique for each datagram (RFC 6864 section 4.2) */
	uint32_t flow_label;   /* for IPv6: 20 bits, host order */
};

/* The tunnel of a frame. The outer addresses are those of the two nodes. */
struct ktsn_frame_tunnel {
	struct ktsn_frame_path outer; /* IPv4; the network may have another destination port than 4789 */
	uint32_t vni;                 /* 24 bits, host order */
	uint16_t vlan_id;             /* of the outer frame, 1 to 4094; 0: it has no tag */
	uint8_t pcp;                  /* priority code point of that tag, 0 to 7 */
	/* A switch of this node puts the frame into the tunnel. ktsnd only adds the tag to the inner frame,
	 * which identifies the network to the switch. `outer` and `vni` are ignored. */
	bool switched;
	/* Leaves room for ESP, with which the caller encrypts the frame before it leaves. Not with
	 * `switched`. */
	bool esp;
};

/*
 * Builds the headers for a payload of payload_bytes that is (or will be) placed at the returned offset.
 * `tunnel` may be NULL. Returns the number of header bytes written at `frame`, which is where the payload
 * starts; or -EMSGSIZE when headers, payload and trailer do not fit into capacity_bytes or a 16-bit length.
 *
 * The UDP checksum of the inner datagram includes the payload, so the caller first copies the payload (to
 * `frame + ktsn_frame_header_bytes(inner, tunnel)`) and then calls this. A computed checksum of 0 is sent as
 * 0xffff (RFC 768, RFC 8200 section 8.1). An `unchecked` datagram has the checksum 0 also over IPv6, where
 * only sockets take it that enabled that (RFC 6935). The outer UDP checksum is 0 (RFC 7348 section 4.1).
 */
int ktsn_frame_build(uint8_t *frame, size_t capacity_bytes, const struct ktsn_frame_path *inner,
		     const struct ktsn_frame_tunnel *tunnel, size_t payload_bytes);

/* Bytes before the payload. */
size_t ktsn_frame_header_bytes(const struct ktsn_frame_path *inner, const struct ktsn_frame_tunnel *tunnel);

/* Bytes after the payload, which ESP needs. */
size_t ktsn_frame_trailer_bytes(const struct ktsn_frame_path *inner, const struct ktsn_frame_tunnel *tunnel,
				size_t payload_bytes);

/*
 * Source port of the outer UDP header: a hash of the inner flow in 49152-65535, so that the underlay
 * distributes flows over its links but does not reorder any flow (RFC 7348 section 5). In wire order.
 */
uint16_t ktsn_frame_tunnel_source_port_be(const struct ktsn_frame_path *inner);

/* Flow label of an IPv6 flow: a hash of it that is not 0 (RFC 6437 section 3), as the kernel sets by default.
 */
uint32_t ktsn_frame_flow_label(const struct ktsn_frame_path *inner);

/* Length of a built frame on the link, which is longer if a switch of this node adds the tunnel's headers. */
size_t ktsn_frame_link_bytes(size_t frame_bytes, const struct ktsn_frame_tunnel *tunnel);

/* MAC client data of a built frame on the link: without addresses, EtherType and tag (IEEE Std 802.1Q-2022
 * clause 12.29.1.1, queueMaxSDU). */
size_t ktsn_frame_sdu_bytes(size_t frame_bytes, const struct ktsn_frame_tunnel *tunnel);

/* Bytes that a frame of frame_bytes (without FCS) takes on the wire, padding and gap included. */
size_t ktsn_frame_wire_bytes(size_t frame_bytes);

#endif
