/* SPDX-License-Identifier: Apache-2.0 */
#include "encryption.h"

#include "peers.h"
#include "routing_state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

const char *const loop_encryption_names[LOOP_ENCRYPTIONS] = {
	[LOOP_CLEAR] = "none",
	[LOOP_PREFERRED] = "preferred",
	[LOOP_REQUIRED] = "required",
};

static struct network_encryption **network_find(const struct routing *routing, uint32_t vni)
{
	struct network_encryption **at = &routing->encryption->networks;

	while (*at && (*at)->vni != vni)
		at = &(*at)->next;
	return at;
}

enum loop_encryption encryption_of(const struct routing *routing, uint32_t vni)
{
	const struct network_encryption *network = *network_find(routing, vni);

	return network ? network->encryption : LOOP_CLEAR;
}

void encryption_route_fill(const struct routing *routing, uint32_t vni, struct loop_route *frames)
{
	frames->encryption = encryption_of(routing, vni);
	frames->tunnel.esp = frames->encryption != LOOP_CLEAR;
	frames->clear_port_be = htons(peer_network_port(routing, vni));
	frames->tunnel.outer.destination_port_be =
		frames->tunnel.esp ? htons(routing->uplink.encrypted_port) : frames->clear_port_be;
}

static void network_remove(struct encryption *encryption, struct network_encryption **at)
{
	struct network_encryption *network = *at;

	if (!network)
		return;
	*at = network->next;
	encryption->network_count--;
	free(network);
}

static int network_make(struct encryption *encryption, uint32_t vni, struct network_encryption **created,
			struct refusal *refusal)
{
	struct network_encryption *network;

	if (encryption->network_count == NETWORKS_ENCRYPTED_MAX)
		return refuse(refusal, "vni",
			      "%u: %d networks are encrypted already; take it from one first, with none", vni,
			      NETWORKS_ENCRYPTED_MAX);
	network = calloc(1, sizeof(*network));
	if (!network)
		return -ENOMEM;
	network->vni = vni;
	network->next = encryption->networks;
	encryption->networks = network;
	encryption->network_count++;
	*created = network;
	return 0;
}

int encryption_switched_refuse(const struct routing *routing, const char *field, struct refusal *refusal)
{
	if (!routing->uplink.switched)
		return 0;
	return refuse(
		refusal, field,
		"uplink ovs encrypts nothing: Open vSwitch puts frames into the tunnel; use uplink direct "
		"for networks that are encrypted");
}

int encryption_network_set(struct routing *routing, uint32_t vni, enum loop_encryption encryption,
			   struct refusal *refusal)
{
	struct network_encryption **at = network_find(routing, vni), *network = *at;
	int err = 0;

	if (encryption == LOOP_CLEAR)
		network_remove(routing->encryption, at);
	else
		err = encryption_switched_refuse(routing, "encryption", refusal);
	if (!err && encryption != LOOP_CLEAR && !network)
		err = network_make(routing->encryption, vni, &network, refusal);
	if (err)
		return err;
	if (encryption != LOOP_CLEAR)
		/* NOLINTNEXTLINE(clang-analyzer-core.*): network_make() gives an error or a network */
		network->encryption = encryption;
	return 0;
}

int encryption_init(struct routing *routing)
{
	routing->encryption = calloc(1, sizeof(*routing->encryption));
	return routing->encryption ? 0 : -ENOMEM;
}

void encryption_fini(struct routing *routing)
{
	struct encryption *encryption = routing->encryption;

	if (!encryption)
		return;
	while (encryption->networks)
		network_remove(encryption, &encryption->networks);
	free(encryption);
	routing->encryption = NULL;
}
