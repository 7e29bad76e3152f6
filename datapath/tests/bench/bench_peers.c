/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations of the control thread per address or per peer: look up the peer of an address, add a peer,
 * choose the peers that have members of a group. Each of four networks has as many peers as the case says,
 * with two subnets each. The look-up in tables is compared with the one that it replaced, which compares each
 * subnet of each peer.
 */
#include "bench_suites.h"
#include "group_peers.h"
#include "peers.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

enum { NETWORKS = 4, ADDRESSES = 1 << 12, GROUPS = 8 };

static const uint32_t counts[] = {10, 100, 1000, 4000};
enum { COUNTS = sizeof(counts) / sizeof(counts[0]) };

struct fabric {
	struct routing routing;
	uint32_t nodes;
	struct ktsn_address addresses[ADDRESSES]; /* of pods of any node */
};

static void subnets_of(uint32_t node, struct subnet subnets[2])
{
	const struct ktsn_address ipv6 = {{0xfd, 0, 0, 0x42, (uint8_t)(node >> 8), (uint8_t)node}};

	subnets[0] = (struct subnet){ktsn_address_of_ipv4(htonl(0x0a000000 | node << 8)),
				     KTSN_ADDRESS_MAPPED_BITS + 24};
	subnets[1] = (struct subnet){ipv6, 64};
}

static void peer_announce(struct fabric *fabric, uint32_t vni, uint32_t node)
{
	struct subnet subnets[2];
	struct refusal refusal;

	subnets_of(node, subnets);
	bench_must(peer_set(&fabric->routing, vni, htonl(0xc6120000 + node), 0, subnets, 2, &refusal) == 0,
		   "cannot add a peer");
}

static struct fabric *fabric_make(uint32_t nodes)
{
	struct fabric *fabric = bench_alloc(sizeof(*fabric));
	uint32_t random = 1;

	memset(fabric, 0, sizeof(*fabric));
	fabric->nodes = nodes;
	for (uint32_t node = 0; node < nodes; node++)
		for (uint32_t vni = 1; vni <= NETWORKS; vni++)
			peer_announce(fabric, vni, node);
	for (uint32_t i = 0; i < ADDRESSES; i++) {
		random = random * 1664525 + 1013904223;
		fabric->addresses[i] = ktsn_address_of_ipv4(htonl(0x0a000002 | (random >> 8) % nodes << 8));
	}
	return fabric;
}

static void fabric_free(struct fabric *fabric)
{
	while (fabric->routing.peers)
		(void)peer_remove(&fabric->routing, fabric->routing.peers->vni,
				  fabric->routing.peers->address_be);
	free(fabric);
}

/* ---- the peer of an address ---- */

static bool subnet_holds(const struct subnet *subnet, const struct ktsn_address *address)
{
	size_t bytes = subnet->prefix_bits / 8;

	return memcmp(subnet->network.bytes, address->bytes, bytes) == 0;
}

static const struct peer *peer_by_comparing(const struct routing *routing, uint32_t vni,
					    const struct ktsn_address *address)
{
	const struct peer *best = NULL;
	int best_bits = -1;

	for (const struct peer *peer = routing->peers; peer; peer = peer->next) {
		for (uint32_t i = 0; i < peer->subnet_count; i++) {
			const struct subnet *subnet = &peer->subnets[i].subnet;

			if (peer->vni == vni && subnet->prefix_bits > best_bits &&
			    subnet_holds(subnet, address)) {
				best = peer;
				best_bits = subnet->prefix_bits;
			}
		}
	}
	return best;
}

static void look_ups_measure(const struct fabric *fabric, struct bench_case *bench, uint32_t operations,
			     bool by_table)
{
	int64_t begin_ns = bench_cpu_ns();

	for (uint32_t i = 0; i < operations; i++) {
		const struct ktsn_address *address = &fabric->addresses[i % ADDRESSES];
		uint32_t vni = 1 + i % NETWORKS;

		bench_must(by_table ? peer_of_address(&fabric->routing, vni, address) != NULL
				    : peer_by_comparing(&fabric->routing, vni, address) != NULL,
			   "an address has no peer");
	}
	bench_sample(bench, (double)(bench_cpu_ns() - begin_ns) / operations);
}

/* ---- one more peer ---- */

static void additions_measure(struct fabric *fabric, struct bench_case *bench, uint32_t operations)
{
	int64_t begin_ns = bench_cpu_ns();

	for (uint32_t i = 0; i < operations; i++) {
		uint32_t node = fabric->nodes + i % 16, vni = 1 + i % NETWORKS;

		peer_announce(fabric, vni, node);
		(void)peer_remove(&fabric->routing, vni, htonl(0xc6120000 + node));
	}
	bench_sample(bench, (double)(bench_cpu_ns() - begin_ns) / operations);
}

/* ---- those with members ---- */

/* Every tenth node has announced the group that is asked for; all have announced others. */
static void memberships_make(struct fabric *fabric)
{
	uint32_t number = 0;

	for (struct peer *peer = fabric->routing.peers; peer; peer = peer->next, number++) {
		static struct group_packet packet = {.message = GROUP_ANNOUNCEMENT, .lifetime_s = 100};

		packet.list.count = GROUPS;
		for (uint32_t i = 0; i < GROUPS; i++)
			packet.list.groups[i] = ktsn_address_of_ipv4(
				htonl(0xef010000 + (i || number / NETWORKS % 10 ? 100 + i : 0)));
		(void)peer_groups_take(&peer->groups, &packet, 1);
	}
}

static void members_measure(const struct fabric *fabric, struct bench_case *bench, uint32_t operations)
{
	const struct ktsn_address group = ktsn_address_of_ipv4(htonl(0xef010000));
	uint32_t lists = operations / fabric->nodes + 1, members = 0;
	int64_t begin_ns = bench_cpu_ns();

	for (uint32_t i = 0; i < lists; i++) {
		const struct peer_network *network = peer_network_find(&fabric->routing, 1 + i % NETWORKS);

		for (const struct peer *peer = network->peers; peer; peer = peer->next_in_network)
			members += peer_groups_want(&peer->groups, &group, 2);
	}
	bench_sample(bench, (double)(bench_cpu_ns() - begin_ns) / lists);
	bench_must(members == lists * (fabric->nodes / 10), "others are members than should be");
}

static void count_measure(struct bench_report *report, const struct bench_plan *plan, uint32_t nodes)
{
	struct bench_case *table = report_case(report, "ns", "peers: %u, the peer of an address", nodes);
	struct bench_case *compare =
		report_case(report, "ns", "peers: %u, the same by comparing with all", nodes);
	struct bench_case *add = report_case(report, "ns", "peers: %u, one more and one less", nodes);
	struct bench_case *members =
		report_case(report, "ns", "peers: %u, a list of those with members of a group", nodes);
	struct fabric *fabric = fabric_make(nodes);

	memberships_make(fabric);
	for (uint32_t turn = 0; turn < plan->turns; turn++) {
		look_ups_measure(fabric, table, plan->operations, true);
		look_ups_measure(fabric, compare, plan->operations / nodes + 1, false);
		additions_measure(fabric, add, plan->operations / 10);
		members_measure(fabric, members, plan->operations);
	}
	fabric_free(fabric);
}

static void memory_report(struct bench_report *report)
{
	struct bench_case *bytes = report_case(report, "bytes", "peers: memory of one with two subnets");

	bench_sample(bytes,
		     sizeof(struct peer) + 2 * sizeof(struct peer_subnet) + sizeof(struct hash_entry *) * 3);
}

void bench_peers(struct bench_report *report, const struct bench_plan *plan)
{
	for (int i = 0; i < COUNTS; i++)
		count_measure(report, plan, counts[i]);
	memory_report(report);
}
