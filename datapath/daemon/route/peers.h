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

/* When announcements of the peer were received last, on CLOCK_MONOTONIC; 0: never (groups.h). With Open
 * vSwitch they are seen at the tunnel only. */
struct peer_health {
	bool encrypted;                          /* they are encrypted, and seen at the tunnel only */
	int64_t listening_ms;                    /* since when they would be received; 0: no tunnel here */
	int64_t uplink_ms;                       /* at the uplink, before the node's packet filter */
	int64_t tunnel_ms;                       /* at the tunnel, where messages to pods arrive, too */
	bool ended;                              /* the last one said that the peer's ktsnd ends */
	uint8_t mac[KTSN_ETHER_ADDR_BYTES];      /* inner source address of the last one */
	struct peer_announcements announcements; /* at the uplink; encrypted ones at the tunnel */
};

struct peer {
	struct hash_entry entry;
	struct peer_network *network;
	uint32_t vni;
	uint32_t address_be;
	uint16_t port; /* as it was added: UDP port of the network's tunnels; 0: the uplink's */
	struct peer_subnet *subnets;
	uint32_t subnet_count;
	/* The next hop to the node in the underlay at the last look-up (tunnels.h). */
	struct neighbor *next_hop; /* NULL: no route */
	struct neighbor_observer next_hop_observer;
	uint32_t route_mtu_bytes;  /* 0: the uplink's */
	int64_t next_hop_found_ms; /* 0: not looked up yet */
	/* The largest IP packet of a pod that the route to the node lets pass, at the last announcement; 0:
	 * not known. */
	uint32_t mtu_bytes;
	struct peer_groups groups; /* groups of its pods */
	struct peer_health health;
	struct peer *next, **previous_next;                       /* of all */
	struct peer *next_in_network, **previous_next_in_network; /* of its network */
};

/* Tables of the peers. */
struct peer_index {
	struct hash_table *networks, *peers, *subnets;
	struct peer_network *first_network;
};

/* Adds a peer, or replaces port and subnets of an existing one. 0, -ENOMEM, or -EINVAL with *refusal filled
 * in; after an error nothing has changed. */
int peer_set(struct routing *routing, uint32_t vni, uint32_t address_be, uint16_t port,
	     const struct subnet *subnets, uint32_t subnet_count, struct refusal *refusal);
/* Returns false when there is no such peer. */
bool peer_remove(struct routing *routing, uint32_t vni, uint32_t address_be);

/* Returns the peer with that underlay address, or NULL. */
struct peer *peer_find(const struct routing *routing, uint32_t vni, uint32_t address_be);
/* Returns the remote node of an address (longest prefix; of equal ones the newest), or NULL. */
struct peer *peer_of_address(const struct routing *routing, uint32_t vni, const struct ktsn_address *address);
/* Returns the network, or NULL when it has no peers. */
struct peer_network *peer_network_find(const struct routing *routing, uint32_t vni);
/* Returns the UDP port of a network's tunnels while its frames are in clear: that of its newest peer, as all
 * have the same. */
uint16_t peer_network_port(const struct routing *routing, uint32_t vni);

#endif
