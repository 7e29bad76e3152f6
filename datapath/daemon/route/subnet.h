/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An IP subnet of either family. Pure; any thread.
 */
#ifndef KTSN_DAEMON_SUBNET_H
#define KTSN_DAEMON_SUBNET_H

#include "address.h"

struct subnet {
	struct ktsn_address network;
	/* Of 128 bits: KTSN_ADDRESS_MAPPED_BITS more than the notation of an IPv4 subnet. */
	uint8_t prefix_bits;
};

#endif
