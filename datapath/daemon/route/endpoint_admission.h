/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source addresses and priorities that an endpoint may send, as set when the pod was attached.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_ENDPOINT_ADMISSION_H
#define KTSN_DAEMON_ENDPOINT_ADMISSION_H

#include "subnet.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
	ADMISSION_MACS_MAX = 8,
	ADMISSION_ADDRESSES_MAX = 16,
	ADMISSION_PRIORITY_DEFAULT =
		6, /* highest priority without a privilege in the kernel: sk_set_prio_allowed() */
	ADMISSION_PRIORITY_MAX = 15,
};

/* Different releases of ktsnd exchange it (handover_records.h): add fields only at its end. */
struct endpoint_admission {
	bool any_address;
	/* Source addresses of frames; the first one of an endpoint is the interface's own. */
	uint32_t mac_count;
	uint8_t macs[ADMISSION_MACS_MAX][6];
	/* Source addresses of packets, unless any is allowed. A subnet of IPv6 contains no IPv4 address. */
	uint32_t address_count;
	struct subnet addresses[ADMISSION_ADDRESSES_MAX];
	uint8_t priority_max;
	bool pcp_is_priority; /* of a frame with an 802.1Q tag */
};

/* The default admission. */
static inline struct endpoint_admission endpoint_admission_default(void)
{
	return (struct endpoint_admission){.any_address = true, .priority_max = ADMISSION_PRIORITY_DEFAULT};
}

/* Whether frames from the hardware address, or packets from the IP address, may leave. */
bool endpoint_admits_mac(const struct endpoint_admission *admission, const uint8_t mac[6]);
bool endpoint_admits_address(const struct endpoint_admission *admission, const struct ktsn_address *address);

/* A group address has bit 0 of its first byte set (IEEE Std 802-2014, clause 8.2); all zeros are no address.
 */
static inline bool mac_is_unicast(const uint8_t mac[6])
{
	static const uint8_t none[6];

	return !(mac[0] & 1) && memcmp(mac, none, sizeof(none)) != 0;
}

#endif
