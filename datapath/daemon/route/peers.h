/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remote nodes of overlays, and the pod subnets behind each. Control thread.
 */
#ifndef KTSN_DAEMON_PEERS_H
#define KTSN_DAEMON_PEERS_H

#include "address.h"
#include "refusal.h"
#include "routing_state.h"

enum { PEER_SUBNETS_MAX = 64 };

struct subnet {
	struct ktsn_address network;
	/* Of all 128: an IPv4 subnet has KTSN_ADDRESS_MAPPED_BITS more than it is written with. */
	uint8_t prefix_bits;
};

struct peer {
	uint32_t vni;
	uint32_t address_be;
	struct subnet subnets[PEER_SUBNETS_MAX];
	uint32_t subnet_count;
	struct peer *next;
};

/* Adds a peer, or gives a known one other subnets. 0, -ENOMEM, or -EINVAL with *refusal filled in. */
int peer_set(struct routing *routing, uint32_t vni, uint32_t address_be, const struct subnet *subnets,
	     uint32_t subnet_count, struct refusal *refusal);
/* False when there is no such peer. */
bool peer_remove(struct routing *routing, uint32_t vni, uint32_t address_be);

/* The peer of that node, or NULL. */
struct peer *peer_find(const struct routing *routing, uint32_t vni, uint32_t address_be);
/* The remote node behind which an address lives (longest prefix), or NULL. */
const struct peer *peer_of_address(const struct routing *routing, uint32_t vni,
				   const struct ktsn_address *address);

#endif
