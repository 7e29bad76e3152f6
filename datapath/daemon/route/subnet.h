/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An IP subnet of either family. Pure; any thread.
 */
#ifndef KTSN_DAEMON_SUBNET_H
#define KTSN_DAEMON_SUBNET_H

#include "address.h"

struct subnet {
	struct ktsn_address network;
	/* Of all 128: an IPv4 subnet has KTSN_ADDRESS_MAPPED_BITS more than it is written with. */
	uint8_t prefix_bits;
};

#endif
