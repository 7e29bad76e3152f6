/* SPDX-License-Identifier: Apache-2.0 */
#include "peers.h"

#include "container_of.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Keys ---- */

static uint32_t peer_hash(uint32_t vni, uint32_t address_be)
{
	return hash_of(&address_be, sizeof(address_be), hash_of(&vni, sizeof(vni), 0));
}

static uint32_t network_hash(uint32_t vni)
{
	return hash_of(&vni, sizeof(vni), 0);
}

/* Returns the first bits of an address; the others are 0. */
static struct ktsn_address prefix_of(const struct ktsn_address *address, unsigned int bits)
{
	struct ktsn_address prefix = {{0}};

	memcpy(prefix.bytes, address->bytes, bits / 8);
	if (bits % 8)
		prefix.bytes[bits / 8] = (uint8_t)(address->bytes[bits / 8] & 0xff00 >> bits % 8);
	return prefix;
}

static uint32_t subnet_hash(uint32_t vni, const struct subnet *subnet)
{
	uint32_t hash = hash_of(&subnet->prefix_bits, sizeof(subnet->prefix_bits), network_hash(vni));

	return hash_of(subnet->network.bytes, sizeof(subnet->network.bytes), hash);
}

/* ---- Looking up ---- */

struct peer_network *peer_network_find(const struct routing *routing, uint32_t vni)
{
	struct hash_table *networks = routing->peer_index ? routing->peer_index->networks : NULL;

	if (!networks)
		return NULL;
	for (struct hash_entry *entry = hash_table_first(networks, network_hash(vni)); entry;
	     entry = hash_table_next(networks, entry)) {
		struct peer_network *network = container_of(entry, struct peer_network, entry);

		if (network->vni == vni)
			return network;
	}
	return NULL;
}

uint16_t peer_network_port(const struct routing *routing, uint32_t vni)
{
	const struct peer_network *network = peer_network_find(routing, vni);

	return network && network->peers && network->peers->port ? network->peers->port
								 : routing->uplink.vxlan_port;
}

struct peer *peer_find(const struct routing *routing, uint32_t vni, uint32_t address_be)
{
	struct hash_table *peers = routing->peer_index ? routing->peer_index->peers : NULL;

	if (!peers)
		return NULL;
	for (struct hash_entry *entry = hash_table_first(peers, peer_hash(vni, address_be)); entry;
	     entry = hash_table_next(peers, entry)) {
		struct peer *peer = container_of(entry, struct peer, entry);

		if (peer->vni == vni && peer->address_be == address_be)
			return peer;
	}
	return NULL;
}

static struct peer *peer_of_subnet(const struct routing *routing, uint32_t vni, const struct subnet *subnet)
{
	struct hash_table *subnets = routing->peer_index->subnets;

	for (struct hash_entry *entry = hash_table_first(subnets, subnet_hash(vni, subnet)); entry;
	     entry = hash_table_next(subnets, entry)) {
		const struct peer_subnet *entry_subnet = container_of(entry, struct peer_subnet, entry);

		if (entry_subnet->peer->vni == vni &&
		    entry_subnet->subnet.prefix_bits == subnet->prefix_bits &&
		    ktsn_address_equal(&entry_subnet->subnet.network, &subnet->network))
			return entry_subnet->peer;
	}
	return NULL;
}

struct peer *peer_of_address(const struct routing *routing, uint32_t vni, const struct ktsn_address *address)
{
	const struct peer_network *network = peer_network_find(routing, vni);

	for (int bits = PREFIX_BITS_MAX; network && bits >= 0; bits--) {
		struct subnet subnet = {.prefix_bits = (uint8_t)bits};
		struct peer *peer;

		if (!network->prefixes[bits])
			continue;
		subnet.network = prefix_of(address, (unsigned int)bits);
		peer = peer_of_subnet(routing, vni, &subnet);
		if (peer)
			return peer;
	}
	return NULL;
}

/* ---- Tables ---- */

static void index_free(struct routing *routing)
{
	struct peer_index *index = routing->peer_index;

	hash_table_destroy(index->networks);
	hash_table_destroy(index->peers);
	hash_table_destroy(index->subnets);
	free(index);
	routing->peer_index = NULL;
}

static int index_ensure(struct routing *routing)
{
	struct peer_index *index;

	if (routing->peer_index)
		return 0;
	index = calloc(1, sizeof(*index));
	if (!index)
		return -ENOMEM;
	routing->peer_index = index;
	if (hash_table_create(&index->networks) || hash_table_create(&index->peers) ||
	    hash_table_create(&index->subnets)) {
		index_free(routing);
		return -ENOMEM;
	}
	return 0;
}

static struct peer_network *network_ensure(const struct routing *routing, uint32_t vni)
{
	struct peer_network *network = peer_network_find(routing, vni);

	if (network)
		return network;
	network = calloc(1, sizeof(*network));
	if (!network)
		return NULL;
	network->vni = vni;
	hash_table_insert(routing->peer_index->networks, &network->entry, network_hash(vni));
	network->next = routing->peer_index->first_network;
	network->previous_next = &routing->peer_index->first_network;
	if (network->next)
		network->next->previous_next = &network->next;
	routing->peer_index->first_network = network;
	return network;
}

/* Frees a network without peers, and the index without networks. */
static void unused_free(struct routing *routing, struct peer_network *network)
{
	if (network && !network->peer_count) {
		hash_table_remove(routing->peer_index->networks, &network->entry);
		*network->previous_next = network->next;
		if (network->next)
			network->next->previous_next = network->previous_next;
		free(network->announced);
		free(network);
	}
	if (!routing->peer_count)
		index_free(routing);
}

/* ---- Subnets of a peer ---- */

static void subnets_leave(const struct routing *routing, struct peer *peer)
{
	for (uint32_t i = 0; i < peer->subnet_count; i++) {
		hash_table_remove(routing->peer_index->subnets, &peer->subnets[i].entry);
		peer->network->prefixes[peer->subnets[i].subnet.prefix_bits]--;
	}
	free(peer->subnets);
	peer->subnets = NULL;
	peer->subnet_count = 0;
}

static void subnets_enter(const struct routing *routing, struct peer *peer, struct peer_subnet *entries,
			  const struct subnet *subnets, uint32_t count)
{
	peer->subnets = entries;
	peer->subnet_count = count;
	for (uint32_t i = 0; i < count; i++) {
		entries[i].peer = peer;
		entries[i].subnet = subnets[i];
		hash_table_insert(routing->peer_index->subnets, &entries[i].entry,
				  subnet_hash(peer->vni, &subnets[i]));
		peer->network->prefixes[subnets[i].prefix_bits]++;
	}
}

/* ---- Peers ---- */

static void peer_link(struct routing *routing, struct peer *peer)
{
	struct peer_network *network = peer->network;

	peer->next = routing->peers;
	peer->previous_next = &routing->peers;
	if (peer->next)
		peer->next->previous_next = &peer->next;
	routing->peers = peer;
	routing->peer_count++;
	peer->next_in_network = network->peers;
	peer->previous_next_in_network = &network->peers;
	if (peer->next_in_network)
		peer->next_in_network->previous_next_in_network = &peer->next_in_network;
	network->peers = peer;
	network->peer_count++;
}

static void peer_unlink(struct routing *routing, struct peer *peer)
{
	*peer->previous_next = peer->next;
	if (peer->next)
		peer->next->previous_next = peer->previous_next;
	routing->peer_count--;
	*peer->previous_next_in_network = peer->next_in_network;
	if (peer->next_in_network)
		peer->next_in_network->previous_next_in_network = peer->previous_next_in_network;
	peer->network->peer_count--;
}

static struct peer *peer_make(struct routing *routing, struct peer_network *network, uint32_t address_be)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->network = network;
	peer->vni = network->vni;
	peer->address_be = address_be;
	hash_table_insert(routing->peer_index->peers, &peer->entry, peer_hash(peer->vni, address_be));
	peer_link(routing, peer);
	return peer;
}

int peer_set(struct routing *routing, uint32_t vni, uint32_t address_be, uint16_t port,
	     const struct subnet *subnets, uint32_t subnet_count, struct refusal *refusal)
{
	struct peer_subnet *entries;
	struct peer_network *network;
	struct peer *peer;

	if (address_be == routing->uplink.local_address_be)
		return refuse(refusal, "address",
			      "this is the local node's own address; give the remote node's");
	if (port && port == routing->uplink.encrypted_port)
		return refuse(refusal, "port", "%u is the port of networks that are encrypted; give another",
			      port);
	if (index_ensure(routing))
		return -ENOMEM;
	entries = calloc(subnet_count, sizeof(*entries));
	network = entries ? network_ensure(routing, vni) : NULL;
	peer = peer_find(routing, vni, address_be);
	if (!peer && network)
		peer = peer_make(routing, network, address_be);
	if (!peer || !entries) {
		free(entries);
		unused_free(routing, network);
		return -ENOMEM;
	}
	subnets_leave(routing, peer);
	subnets_enter(routing, peer, entries, subnets, subnet_count);
	peer->port = port;
	peer->next_hop_found_ms = 0;
	return 0;
}

bool peer_remove(struct routing *routing, uint32_t vni, uint32_t address_be)
{
	struct peer *peer = peer_find(routing, vni, address_be);

	if (!peer)
		return false;
	subnets_leave(routing, peer);
	peer_unlink(routing, peer);
	hash_table_remove(routing->peer_index->peers, &peer->entry);
	neighbor_observer_remove(&peer->next_hop_observer);
	neighbor_put(peer->next_hop);
	peer_groups_fini(&peer->groups);
	unused_free(routing, peer->network);
	free(peer);
	return true;
}
