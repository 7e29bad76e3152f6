/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers by the thousand: the cost of a look-up does not grow with their number. The cost is the number of
 * compared table entries, not time.
 */
#include "encryption.h"
#include "peers.h"
#include "routing.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "unit_test.h"

enum {
	NODES = 1000,
	NETWORKS = 4,
	/* A table is never more than full: on average one entry is compared besides the one that is looked
	 * for. */
	COMPARED_ON_AVERAGE = 2,
	/* One for the network, and one for each length of prefix: /24 and /64. */
	LOOK_UPS_OF_ADDRESS = 3,
};

/* Node n has the subnets 10.NETWORK*16+n/256.n%256.0/24 and fd00:NETWORK:n::/64. */
static void subnets_of(uint32_t network, uint32_t node, struct subnet subnets[2])
{
	uint32_t ipv4 = 0x0a000000 | network << 20 | node << 8;
	const struct ktsn_address ipv6 = {
		{0xfd, 0, 0, (uint8_t)network, (uint8_t)(node >> 8), (uint8_t)node}};

	subnets[0] = (struct subnet){ktsn_address_of_ipv4(htonl(ipv4)), KTSN_ADDRESS_MAPPED_BITS + 24};
	subnets[1] = (struct subnet){ipv6, 64};
}

static uint32_t node_address(uint32_t node)
{
	return htonl(0xc0a80000 + node + 1);
}

static void peer_announce(struct routing *routing, uint32_t network, uint32_t node)
{
	struct refusal refusal;
	struct subnet subnets[2];

	subnets_of(network, node, subnets);
	assert_int_equal(routing_peer_add(routing, network + 1, node_address(node), 0, subnets, 2, &refusal),
			 0);
}

static int set_up(void **state)
{
	struct routing *routing = calloc(1, sizeof(*routing));

	*state = routing;
	if (!routing)
		return -1;
	for (uint32_t network = 0; network < NETWORKS; network++)
		for (uint32_t node = 0; node < NODES; node++)
			peer_announce(routing, network, node);
	return 0;
}

static int tear_down(void **state)
{
	struct routing *routing = *state;

	while (routing->peers)
		assert_int_equal(routing_peer_del(routing, routing->peers->vni, routing->peers->address_be),
				 0);
	assert_null(routing->peer_index);
	free(routing);
	return 0;
}

static uint64_t compared(const struct routing *routing)
{
	const struct peer_index *index = routing->peer_index;

	return index->networks->compared + index->peers->compared + index->subnets->compared;
}

/* An address in one of the node's subnets. */
static struct ktsn_address address_of_node(uint32_t network, uint32_t node, bool ipv4)
{
	struct subnet subnets[2];

	subnets_of(network, node, subnets);
	subnets[!ipv4].network.bytes[15] = 7;
	return subnets[!ipv4].network;
}

TEST_F(lookup_takes_one_step_per_prefix_length)
{
	const struct routing *routing = *state;
	uint64_t before = compared(routing);

	for (uint32_t network = 0; network < NETWORKS; network++) {
		for (uint32_t i = 0; i < 2 * NODES; i++) {
			struct ktsn_address address = address_of_node(network, i / 2, i % 2);
			const struct peer *peer = peer_of_address(routing, network + 1, &address);

			assert_non_null(peer);
			assert_int_equal(peer->vni, network + 1);
			assert_int_equal(peer->address_be, node_address(i / 2));
		}
	}
	assert_true(compared(routing) - before <=
		    (uint64_t)NETWORKS * 2 * NODES * LOOK_UPS_OF_ADDRESS * COMPARED_ON_AVERAGE);
}

TEST_F(failed_lookup_is_as_fast)
{
	const struct routing *routing = *state;
	uint64_t before = compared(routing);

	for (uint32_t i = 0; i < NODES; i++) {
		struct ktsn_address address = ktsn_address_of_ipv4(htonl(0xc6336400 + i));

		assert_null(peer_of_address(routing, 1, &address));
		assert_null(peer_of_address(routing, NETWORKS + 1, &address));
	}
	assert_true(compared(routing) - before <=
		    (uint64_t)NODES * (LOOK_UPS_OF_ADDRESS + 1) * COMPARED_ON_AVERAGE);
}

TEST_F(nodes_change_in_a_few_steps)
{
	struct routing *routing = *state;
	uint64_t before = compared(routing);

	for (uint32_t node = 0; node < NODES; node++) {
		const struct peer *peer = peer_find(routing, 2, node_address(node));

		assert_non_null(peer);
		assert_int_equal(peer->subnet_count, 2);
		assert_true(peer_remove(routing, 2, node_address(node)));
		assert_null(peer_find(routing, 2, node_address(node)));
		peer_announce(routing, 1, node);
	}
	assert_int_equal(routing->peer_count, NETWORKS * NODES);
	/* A look-up that succeeds, for removal, that fails, and for addition; and the network's look-up. */
	assert_true(compared(routing) - before <= (uint64_t)NODES * 6 * COMPARED_ON_AVERAGE);
}

TEST_F(new_subnets_replace_old_ones)
{
	struct routing *routing = *state;
	struct ktsn_address address = address_of_node(0, 17, true);
	struct refusal refusal;
	struct subnet subnets[2];

	subnets_of(0, NODES + 1, subnets);
	assert_int_equal(routing_peer_add(routing, 1, node_address(17), 0, subnets, 1, &refusal), 0);
	assert_null(peer_of_address(routing, 1, &address));
	address = address_of_node(0, NODES + 1, true);
	assert_int_equal(peer_of_address(routing, 1, &address)->address_be, node_address(17));
	assert_int_equal(routing->peer_count, NETWORKS * NODES);
}

TEST_F(network_has_the_port_of_its_peers)
{
	struct routing *routing = *state;
	struct loop_route frames = {.encryption = LOOP_CLEAR};
	struct refusal refusal;
	struct subnet subnets[2];

	routing->uplink.vxlan_port = 4789;
	assert_int_equal(encryption_init(routing), 0);
	subnets_of(0, NODES - 1, subnets);
	assert_int_equal(routing_peer_add(routing, 1, node_address(NODES - 1), 8472, subnets, 2, &refusal),
			 0);
	assert_int_equal(peer_network_port(routing, 1), 8472);
	assert_int_equal(peer_network_port(routing, 2), 4789);
	encryption_route_fill(routing, 1, &frames);
	assert_int_equal(frames.tunnel.outer.destination_port_be, htons(8472));
	assert_int_equal(encryption_network_set(routing, 1, LOOP_PREFERRED, &refusal), 0);
	routing->uplink.encrypted_port = 4793;
	encryption_route_fill(routing, 1, &frames);
	assert_int_equal(frames.tunnel.outer.destination_port_be, htons(4793));
	assert_int_equal(frames.clear_port_be, htons(8472));
	encryption_fini(routing);
}

/* While nodes swap their subnets, two nodes have the same one. */
TEST_F(last_node_of_a_shared_subnet_counts)
{
	struct routing *routing = *state;
	struct ktsn_address address = address_of_node(0, 5, true);
	struct refusal refusal;
	struct subnet subnets[2];

	subnets_of(0, 5, subnets);
	assert_int_equal(routing_peer_add(routing, 1, node_address(6), 0, subnets, 2, &refusal), 0);
	assert_int_equal(peer_of_address(routing, 1, &address)->address_be, node_address(6));
	assert_int_equal(routing_peer_del(routing, 1, node_address(6)), 0);
	assert_int_equal(peer_of_address(routing, 1, &address)->address_be, node_address(5));
}

TEST_F(network_lists_its_peers)
{
	const struct routing *routing = *state;
	const struct peer_network *network = peer_network_find(routing, 3);
	uint32_t count = 0;

	assert_non_null(network);
	for (const struct peer *peer = network->peers; peer; peer = peer->next_in_network, count++)
		assert_int_equal(peer->vni, 3);
	assert_int_equal(count, NODES);
	assert_int_equal(network->peer_count, NODES);
	assert_null(peer_network_find(routing, NETWORKS + 1));
}
