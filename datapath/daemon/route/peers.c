/* SPDX-License-Identifier: Apache-2.0 */
#include "peers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct peer *peer_find(const struct routing *routing, uint32_t vni, uint32_t address_be)
{
	struct peer *peer = routing->peers;

	while (peer && (peer->vni != vni || peer->address_be != address_be))
		peer = peer->next;
	return peer;
}

static bool subnet_holds(const struct subnet *subnet, const struct ktsn_address *address)
{
	size_t bytes = subnet->prefix_bits / 8;
	unsigned int bits = subnet->prefix_bits % 8;

	if (memcmp(subnet->network.bytes, address->bytes, bytes) != 0)
		return false;
	return !bits || (subnet->network.bytes[bytes] ^ address->bytes[bytes]) >> (8 - bits) == 0;
}

const struct peer *peer_of_address(const struct routing *routing, uint32_t vni,
				   const struct ktsn_address *address)
{
	const struct peer *best = NULL;
	int best_bits = -1;

	for (const struct peer *peer = routing->peers; peer; peer = peer->next) {
		for (uint32_t i = 0; i < peer->subnet_count; i++) {
			const struct subnet *subnet = &peer->subnets[i];

			if (peer->vni == vni && subnet->prefix_bits > best_bits &&
			    subnet_holds(subnet, address)) {
				best = peer;
				best_bits = subnet->prefix_bits;
			}
		}
	}
	return best;
}

int peer_set(struct routing *routing, uint32_t vni, uint32_t address_be, const struct subnet *subnets,
	     uint32_t subnet_count, struct refusal *refusal)
{
	struct peer *peer = peer_find(routing, vni, address_be);

	if (address_be == routing->uplink.local_address_be)
		return refuse(refusal, "address",
			      "this is the local node's own address; give the remote node's");
	if (!peer) {
		peer = calloc(1, sizeof(*peer));
		if (!peer)
			return -ENOMEM;
		peer->vni = vni;
		peer->address_be = address_be;
		peer->next = routing->peers;
		routing->peers = peer;
		routing->peer_count++;
	}
	memcpy(peer->subnets, subnets, subnet_count * sizeof(*subnets));
	peer->subnet_count = subnet_count;
	return 0;
}

bool peer_remove(struct routing *routing, uint32_t vni, uint32_t address_be)
{
	struct peer *peer = peer_find(routing, vni, address_be);
	struct peer **at = &routing->peers;

	if (!peer)
		return false;
	while (*at != peer)
		at = &(*at)->next;
	*at = peer->next;
	routing->peer_count--;
	free(peer);
	return true;
}
