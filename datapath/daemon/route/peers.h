/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remote nodes of overlays, and the pod subnets of each. Look-ups use hash tables, for a thousand nodes in
 * several networks; the look-up of an address tries each prefix length of its network.
 *
 *   peer_index --+-- by VNI ------------------- peer_network    lengths of prefixes, a list of its peers
 *                +-- by VNI and node ---------- peer
 *                +-- by VNI, length, prefix --- peer_subnet --> its peer
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_PEERS_H
#define KTSN_DAEMON_PEERS_H

#include "address.h"
#include "group_peers.h"
#include "hash_table.h"
#include "log.h"
#include "neighbors.h"
#include "routing_state.h"
#include "subnet.h"

enum { PEER_SUBNETS_MAX = 64, PREFIX_BITS_MAX = 8 * KTSN_ADDRESS_BYTES };

struct peer_subnet {
	struct hash_entry entry;
	struct peer *peer;
	struct subnet subnet;
};

/* The remote nodes of one network. */
struct peer_network {
	struct hash_entry entry;
	uint32_t vni;
	struct peer *peers; /* the newest first */
	uint32_t peer_count;
	uint32_t prefixes[PREFIX_BITS_MAX + 1]; /* subnets of each length */
	struct group_list *announced;           /* last announcement to the peers, or NULL (groups.h) */
	struct peer_network *next, **previous_next;
};

struct peer {
	struct hash_entry entry;
	struct peer_network *network;
	uint32_t vni;
	uint32_t address_be;
	struct peer_subnet *subnets;
	uint32_t subnet_count;
	/* The next hop to the node in the underlay at the last look-up (tunnels.h). */
	struct neighbor *next_hop; /* NULL: no route */
	struct neighbor_observer next_hop_observer;
	int64_t next_hop_found_ms;                                /* 0: not looked up yet */
	struct peer_groups groups;                                /* groups of its pods */
	struct peer *next, **previous_next;                       /* of all */
	struct peer *next_in_network, **previous_next_in_network; /* of its network */
};

/* Tables of the peers. */
struct peer_index {
	struct hash_table *networks, *peers, *subnets;
	struct peer_network *first_network;
};

/* Adds a peer, or replaces the subnets of an existing one. 0, -ENOMEM, or -EINVAL with *refusal filled in;
 * after an error nothing has changed. */
int peer_set(struct routing *routing, uint32_t vni, uint32_t address_be, const struct subnet *subnets,
	     uint32_t subnet_count, struct refusal *refusal);
/* Returns false when there is no such peer. */
bool peer_remove(struct routing *routing, uint32_t vni, uint32_t address_be);

/* Returns the peer with that underlay address, or NULL. */
struct peer *peer_find(const struct routing *routing, uint32_t vni, uint32_t address_be);
/* Returns the remote node of an address (longest prefix; of equal ones the newest), or NULL. */
struct peer *peer_of_address(const struct routing *routing, uint32_t vni, const struct ktsn_address *address);
/* Returns the network, or NULL when it has no peers. */
struct peer_network *peer_network_find(const struct routing *routing, uint32_t vni);

#endif
