/* SPDX-License-Identifier: Apache-2.0 */
#include "control_frame.h"

#include <arpa/inet.h>
#include <net/ethernet.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <string.h>

enum {
	IPV4_BYTES = 20,
	IPV4_AT_PROTOCOL = 9,
	IPV6_BYTES = 40,
	IPV6_AT_NEXT_HEADER = 6,
	OPTION_BYTES = 8,
	MLD2_REPORT = 143, /* RFC 3810 */
};

/* 01:80:c2:00:00:00 to 0f: none of them is forwarded. */
static bool is_for_the_bridge(const uint8_t *address)
{
	static const uint8_t reserved[] = {0x01, 0x80, 0xc2, 0, 0};

	return memcmp(address, reserved, sizeof(reserved)) == 0 && address[5] < 0x10;
}

static bool is_igmp(const struct captured_frame *frame)
{
	return frame->ethertype_be == htons(ETHERTYPE_IP) && frame->payload_bytes >= IPV4_BYTES &&
	       frame->payload[IPV4_AT_PROTOCOL] == IPPROTO_IGMP;
}

/* Multicast listener discovery always has one option in front, the router alert. */
static bool is_mld(const struct captured_frame *frame)
{
	const uint8_t *option = frame->payload + IPV6_BYTES;
	uint8_t type;

	if (frame->ethertype_be != htons(ETHERTYPE_IPV6) ||
	    frame->payload_bytes < IPV6_BYTES + OPTION_BYTES + 1 ||
	    frame->payload[IPV6_AT_NEXT_HEADER] != IPPROTO_HOPOPTS || option[0] != IPPROTO_ICMPV6 ||
	    option[1])
		return false;
	type = option[OPTION_BYTES];
	return (type >= MLD_LISTENER_QUERY && type <= MLD_LISTENER_REDUCTION) || type == MLD2_REPORT;
}

bool control_frame_is(const struct captured_frame *frame)
{
	return (frame->addresses[0] & 1) &&
	       (is_for_the_bridge(frame->addresses) || is_igmp(frame) || is_mld(frame));
}
