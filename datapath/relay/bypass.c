/* SPDX-License-Identifier: Apache-2.0 */
#include "bypass.h"

#include <arpa/inet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/uio.h>

enum {
	IPV4_BYTES = 20,
	IPV4_AT_PROTOCOL = 9,
	IPV6_BYTES = 40,
	IPV6_AT_NEXT_HEADER = 6,
	OPTION_BYTES = 8,
	MLD2_REPORT = 143, /* RFC 3810 */
};

/* 01:80:c2:00:00:00 to 0f, which bridges do not forward. */
static bool is_for_bridge(const uint8_t *address)
{
	static const uint8_t reserved[] = {0x01, 0x80, 0xc2, 0, 0};

	return memcmp(address, reserved, sizeof(reserved)) == 0 && address[5] < 0x10;
}

static bool is_igmp(const struct captured_frame *frame)
{
	return frame->ethertype_be == htons(ETHERTYPE_IP) && frame->payload_bytes >= IPV4_BYTES &&
	       frame->payload[IPV4_AT_PROTOCOL] == IPPROTO_IGMP;
}

/* Multicast listener discovery always has one option before it, the router alert. */
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
	       (is_for_bridge(frame->addresses) || is_igmp(frame) || is_mld(frame));
}

/* The same limits as in the program at a captured interface (capture/capture.bpf.c). */
enum { CONTROL_BYTES_MAX = 102400, CONTROL_BYTES_LEAST = 512 };

#define SECOND_NS INT64_C(1000000000)

bool bypass_is_for(struct bypass *bypass, const struct captured_frame *frame, int64_t now_ns)
{
	uint32_t bytes = FRAME_HEADER_BYTES + frame->payload_bytes;

	if (bypass->fd < 0 || !control_frame_is(frame))
		return false;
	if (now_ns - bypass->since_ns >= SECOND_NS) {
		bypass->since_ns = now_ns;
		bypass->control_bytes = 0;
	}
	bypass->control_bytes += bytes < CONTROL_BYTES_LEAST ? CONTROL_BYTES_LEAST : bytes;
	return bypass->control_bytes <= CONTROL_BYTES_MAX;
}

bool bypass_send(const struct bypass *bypass, const struct captured_frame *frame)
{
	struct virtio_net_hdr nothing_to_do = {0};
	const struct iovec parts[] = {
		{.iov_base = &nothing_to_do, .iov_len = sizeof(nothing_to_do)},
		/* In a backlog these are not adjacent. */
		{.iov_base = (void *)frame->addresses, .iov_len = FRAME_ADDRESSES_BYTES},
		{.iov_base = (void *)&frame->ethertype_be, .iov_len = sizeof(frame->ethertype_be)},
		{.iov_base = (void *)frame->payload, .iov_len = frame->payload_bytes},
	};

	return bypass->fd >= 0 && writev(bypass->fd, parts, sizeof(parts) / sizeof(parts[0])) >= 0;
}
