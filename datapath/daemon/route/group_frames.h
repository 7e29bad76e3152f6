/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames about multicast groups: queries to pods, reports of pods on other nodes, announcements between two
 * ktsnd. Pure: no system calls, no clock; any thread. Received frames come from the wire and are not trusted.
 *
 * A node announces to each peer of a network which groups its pods are members of. An announcement is an
 * Ethernet frame in the network's tunnel, to a hardware address that bridges forward nowhere (IEEE Std
 * 802.1Q-2022 table 8-1), so that a pod can neither see nor forge one:
 *
 *   | outer headers, VXLAN | 01:80:c2:00:00:0e  uplink's  0x88b5 | "KTSG"  1  flags  lifetime | counts |
 * groups | number | address
 *
 * 0x88b5 is for local use (IEEE Std 802 clause 9). Lifetime (seconds) and the two counts are 16 bits in
 * network order; IPv4 groups of 4 bytes come first, IPv6 groups of 16 follow. Flag 1: all groups. Flag 2: the
 * groups are followed by a number of 32 bits, which counts the announcements to this peer since ktsnd began.
 * Flag 4: the tunnel address of the sender follows, which receivers behind the tunnel do not see otherwise.
 * 0.1.0 sends neither, and ignores these flags and what follows the groups.
 */
#ifndef KTSN_DAEMON_GROUP_FRAMES_H
#define KTSN_DAEMON_GROUP_FRAMES_H

#include "address.h"
#include "frame.h"

enum {
	GROUP_ETHERTYPE = 0x88b5,
	/* The most groups in a frame or an announcement. */
	GROUP_LIST_MAX = 256,
	/* Peers read whole packets only, and a router towards them may have a smaller MTU than the uplink. */
	GROUP_ANNOUNCEMENT_BYTES_MAX = 1200,
	/* The size of an announcement of all groups. */
	GROUP_ANNOUNCEMENT_BYTES_MIN = 20,
	GROUP_QUERY_BYTES_MAX = 90,
	/* In the first byte of a VXLAN header: its VNI is valid (RFC 7348 section 5). */
	VXLAN_FLAG_VNI = 0x08,
};

/* Where announcements go. */
extern const uint8_t group_announcement_mac[KTSN_ETHER_ADDR_BYTES];

struct group_list {
	/* All groups, whatever is in the list: the groups are unknown or too many. */
	bool everything;
	uint32_t count;
	struct ktsn_address groups[GROUP_LIST_MAX];
};

/* ---- Sent frames ---- */

/* Builds a general query of IGMPv3 (RFC 3376 section 4.1) or MLDv2 (RFC 3810 section 5.1), which members
 * answer within the given time. Returns the frame's bytes. */
size_t group_query_build(uint8_t frame[GROUP_QUERY_BYTES_MAX], bool ipv4, const uint8_t source_mac[6],
			 uint32_t response_ms);

/* Builds the part of an announcement after the inner Ethernet header. A list that does not fit is announced
 * as all groups. Returns its bytes; room_bytes must be at least GROUP_ANNOUNCEMENT_BYTES_MIN. */
size_t group_announcement_build(uint8_t *payload, size_t room_bytes, const struct group_list *list,
				uint16_t lifetime_s, uint32_t number, uint32_t sender_be);

/* ---- Received frames ---- */

enum group_message { GROUP_NOTHING, GROUP_ANNOUNCEMENT, GROUP_REPORT };

struct group_packet {
	enum group_message message;
	uint32_t vni;
	uint16_t port;       /* UDP port of the tunnel */
	uint32_t node_be;    /* outer source address */
	uint16_t lifetime_s; /* of an announcement */
	bool numbered;       /* the announcement has a number */
	uint32_t number;
	uint32_t sender_be;                        /* tunnel address in an announcement; 0: it has none */
	uint8_t source_mac[KTSN_ETHER_ADDR_BYTES]; /* inner source address */
	struct group_list list;                    /* announced, or reported to have been joined */
};

/* Parses a frame that arrived at the uplink, without tag. GROUP_NOTHING for frames that are not about groups
 * or are invalid. */
enum group_message group_packet_parse(const uint8_t *frame, size_t bytes, struct group_packet *packet);
/* The same for a frame at a tunnel: without outer headers. VNI, port and node_be are not set. */
enum group_message group_content_parse(const uint8_t *frame, size_t bytes, struct group_packet *packet);

/* ---- Groups ---- */

/* Whether the members of the group are known by their reports. False for groups that a switch always floods
 * (RFC 4541 sections 2.1.2 and 3), such as 224.0.0.x and ff02::x. */
bool group_is_reported(const struct ktsn_address *group);

/* Sorts the list and removes duplicates. */
void group_list_sort(struct group_list *list);
/* The groups must be sorted. */
bool group_list_has(const struct ktsn_address *groups, uint32_t count, const struct ktsn_address *group);

#endif
