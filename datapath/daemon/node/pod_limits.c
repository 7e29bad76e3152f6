/* SPDX-License-Identifier: Apache-2.0 */
#include "pod_limits.h"

#include "clock.h"
#include "commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct pod_limit_bounds pod_limit_bounds[POD_LIMITS] = {
	[POD_LIMIT_PROCESSES] = {"processes", 1, LOOP_RINGS_MAX},
	[POD_LIMIT_SOCKETS] = {"sockets", 1, (int64_t)LOOP_RINGS_MAX *LOOP_FLOWS_PER_RING},
	[POD_LIMIT_MEMORY_BYTES] = {"ring-memory-bytes", 1 << 20, INT64_C(1) << 40},
	[POD_LIMIT_PENDING] = {"pending", 64, 1048576},
	[POD_LIMIT_MESSAGE_RATE] = {"message-rate", 0, 1000000000},
	[POD_LIMIT_DOORBELL_RATE] = {"doorbell-rate", 0, 1000000000},
	[POD_LIMIT_HORIZON_NS] = {"horizon-ns", 0, 86400 * NS_PER_SECOND},
};

static void node_limits_read(const struct quota_limits *limits_of_node, struct pod_limits *limits)
{
	*limits = (struct pod_limits){{
		[POD_LIMIT_PROCESSES] = limits_of_node->processes,
		[POD_LIMIT_SOCKETS] = limits_of_node->sockets,
		[POD_LIMIT_MEMORY_BYTES] = (int64_t)limits_of_node->memory_bytes,
		[POD_LIMIT_PENDING] = limits_of_node->pending,
		[POD_LIMIT_MESSAGE_RATE] = limits_of_node->message_rate,
		[POD_LIMIT_DOORBELL_RATE] = limits_of_node->doorbell_rate,
		[POD_LIMIT_HORIZON_NS] = limits_of_node->horizon_ns,
	}};
}

static struct quota_limits quota_limits_of(const struct pod_limits *limits)
{
	return (struct quota_limits){
		.processes = (uint32_t)limits->values[POD_LIMIT_PROCESSES],
		.sockets = (uint32_t)limits->values[POD_LIMIT_SOCKETS],
		.memory_bytes = (uint64_t)limits->values[POD_LIMIT_MEMORY_BYTES],
		.pending = (uint32_t)limits->values[POD_LIMIT_PENDING],
		.message_rate = (uint32_t)limits->values[POD_LIMIT_MESSAGE_RATE],
		.doorbell_rate = (uint32_t)limits->values[POD_LIMIT_DOORBELL_RATE],
		.horizon_ns = limits->values[POD_LIMIT_HORIZON_NS],
	};
}

static bool is_lower(enum pod_limit limit, int64_t a, int64_t b)
{
	bool rate = limit == POD_LIMIT_MESSAGE_RATE || limit == POD_LIMIT_DOORBELL_RATE;

	/* A rate of 0 is unlimited. */
	if (rate && (a == 0 || b == 0))
		return a != 0 && b == 0;
	return a < b;
}

static struct network_limits *network_find(const struct node *node, uint32_t vni)
{
	struct network_limits *network = node->network_limits;

	while (network && network->vni != vni)
		network = network->next;
	return network;
}

/* Returns the limits of pods on a network. */
static struct pod_limits network_limits_of(const struct node *node, uint32_t vni)
{
	const struct network_limits *network = network_find(node, vni);
	struct pod_limits limits;

	node_limits_read(&node->limits, &limits);
	for (int i = 0; network && i < POD_LIMITS; i++)
		if (network->limits.values[i] != POD_LIMIT_NOT_GIVEN)
			limits.values[i] = network->limits.values[i];
	return limits;
}

struct quota_limits relay_limits(const struct quota_limits *of_pod)
{
	struct quota_limits limits = *of_pod;

	limits.processes = POD_RELAYS_MAX;
	limits.sockets = POD_RELAYS_MAX * LOOP_FLOWS_PER_RING;
	/* Only the node's limit applies: the number of connections is bounded. */
	limits.memory_bytes = UINT64_MAX;
	return limits;
}

void pod_limits_apply(struct pod *pod)
{
	const struct endpoint *endpoint = pod->endpoints.first;
	struct quota_limits limits = pod->node->limits;

	if (endpoint) {
		struct pod_limits lowest = network_limits_of(pod->node, endpoint->vni);

		while ((endpoint = endpoint->next)) {
			struct pod_limits other = network_limits_of(pod->node, endpoint->vni);

			for (int i = 0; i < POD_LIMITS; i++)
				if (is_lower((enum pod_limit)i, other.values[i], lowest.values[i]))
					lowest.values[i] = other.values[i];
		}
		limits = quota_limits_of(&lowest);
	}
	quota_limits_set(pod->quota, &limits);
	if (pod->relay_quota) {
		limits = relay_limits(&limits);
		quota_limits_set(pod->relay_quota, &limits);
	}
}

static void network_remove(struct node *node, struct network_limits *network)
{
	struct network_limits **at = &node->network_limits;

	while (*at != network)
		at = &(*at)->next;
	*at = network->next;
	node->network_limits_count--;
	free(network);
}

static int network_make(struct node *node, uint32_t vni, struct network_limits **created,
			struct refusal *refusal)
{
	struct network_limits *network;

	if (node->network_limits_count == NETWORKS_WITH_LIMITS_MAX)
		return refuse(refusal, "vni",
			      "%u: %d networks have limits already; take them from one first, with limits "
			      "that are empty",
			      vni, NETWORKS_WITH_LIMITS_MAX);
	network = calloc(1, sizeof(*network));
	if (!network)
		return -ENOMEM;
	network->vni = vni;
	network->next = node->network_limits;
	node->network_limits = network;
	node->network_limits_count++;
	*created = network;
	return 0;
}

static bool any_given(const struct pod_limits *limits)
{
	for (int i = 0; i < POD_LIMITS; i++)
		if (limits->values[i] != POD_LIMIT_NOT_GIVEN)
			return true;
	return false;
}

static bool pod_is_on(const struct pod *pod, uint32_t vni)
{
	const struct endpoint *endpoint = pod->endpoints.first;

	while (endpoint && endpoint->vni != vni)
		endpoint = endpoint->next;
	return endpoint != NULL;
}

int node_network_limits_set(struct node *node, uint32_t vni, const struct pod_limits *limits,
			    struct refusal *refusal)
{
	struct network_limits *network = network_find(node, vni);
	int err = 0;

	if (!any_given(limits)) {
		if (!network)
			return 0;
		network_remove(node, network);
	} else {
		if (!network)
			err = network_make(node, vni, &network, refusal);
		if (err)
			return err;
		/* NOLINTNEXTLINE(clang-analyzer-core.*): network_make() gives an error or a network */
		network->limits = *limits;
	}
	for (struct pod *pod = node->pods; pod; pod = pod->next)
		if (pod_is_on(pod, vni))
			pod_limits_apply(pod);
	/* Blocked rings may continue now. */
	loop_command(node->loop, &(struct loop_command){.type = COMMAND_LIMITS});
	return 0;
}

void node_network_limits_free(struct node *node)
{
	while (node->network_limits)
		network_remove(node, node->network_limits);
}
