/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MTUs that change while ktsnd runs: the uplink's, and those of pods' interfaces. What is asked for from then on follows at
 * once. Destinations that are known follow a moment later, and not more often than every FOLLOW_MS: a pod may change its
 * own MTU as often as it likes.
 *
 * The uplink's counts up to what it was when ktsnd started, for which the buffers are made. Where a switch does the
 * tunnelling, what becomes of its links is its own business.
 */
#include "clock.h"
#include "log.h"
#include "node.h"

enum { FOLLOW_MS = 100 };

static void uplink_mtu_changed(struct node *node, uint32_t mtu_bytes)
{
	struct node_uplink *uplink = &node->uplink;
	uint32_t usable_bytes = mtu_bytes < uplink->mtu_bytes_max ? mtu_bytes : uplink->mtu_bytes_max;

	if (usable_bytes == uplink->mtu_bytes)
		return;
	uplink->mtu_bytes = usable_bytes;
	node->mtus_changed = true;
	log_info("--interface %s: its MTU is %u now; ktsnd uses %u of it", uplink->interface, mtu_bytes,
		 usable_bytes);
}

void mtu_changed(struct node *node, const struct namespace *ns, int link_index, uint32_t mtu_bytes)
{
	struct endpoint *endpoint;

	if (!mtu_bytes)
		return;
	if (ns == node->own_ns && link_index == node->uplink.link_index && !node->uplink.switched)
		uplink_mtu_changed(node, mtu_bytes);
	endpoint = node_endpoint_at(node, ns, link_index);
	if (!endpoint || endpoint->mtu_bytes == mtu_bytes)
		return;
	endpoint->mtu_bytes = mtu_bytes;
	node->mtus_changed = true;
}

static void link_reread(struct node *node, const struct namespace *ns, const char *interface)
{
	struct rtnl_link link;

	if (rtnl_link_get(ns->rtnl, interface, &link) == 0)
		mtu_changed(node, ns, link.index, link.mtu_bytes);
}

void mtus_reread(struct node *node, const struct namespace *ns)
{
	if (ns == node->own_ns)
		link_reread(node, ns, node->uplink.interface);
	for (struct pod *pod = node->pods; pod; pod = pod->next)
		for (struct endpoint *endpoint = pod->endpoints; endpoint; endpoint = endpoint->next)
			if (endpoint->ns == ns)
				link_reread(node, ns, endpoint->interface);
}

int mtus_tick(struct node *node)
{
	int64_t now_ms = clock_ns(CLOCK_MONOTONIC) / 1000000;
	int64_t left_ms = node->mtus_followed_ms + FOLLOW_MS - now_ms;

	if (!node->mtus_changed)
		return -1;
	if (node->mtus_followed_ms && left_ms > 0)
		return (int)left_ms;
	node->mtus_changed = false;
	node->mtus_followed_ms = now_ms;
	destinations_mtus_changed(node);
	return -1;
}
