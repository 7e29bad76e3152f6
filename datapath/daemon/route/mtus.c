/* SPDX-License-Identifier: Apache-2.0 */
#include "mtus.h"

#include "clock.h"
#include "destinations.h"
#include "log.h"

enum { FOLLOW_MS = 100 };

static void uplink_mtu_changed(struct routing *routing, uint32_t mtu_bytes)
{
	struct uplink *uplink = &routing->uplink;
	uint32_t usable_bytes = mtu_bytes < uplink->mtu_bytes_max ? mtu_bytes : uplink->mtu_bytes_max;

	if (usable_bytes == uplink->mtu_bytes)
		return;
	uplink->mtu_bytes = usable_bytes;
	routing->mtus.changed = true;
	log_info("--interface %s: its MTU is %u now; ktsnd uses %u of it", uplink->interface, mtu_bytes,
		 usable_bytes);
}

void mtu_changed(struct routing *routing, const struct namespace *ns, int link_index, uint32_t mtu_bytes)
{
	struct endpoint *endpoint;

	if (!mtu_bytes)
		return;
	if (ns == routing->own_ns && link_index == routing->uplink.link_index && !routing->uplink.switched)
		uplink_mtu_changed(routing, mtu_bytes);
	endpoint = endpoint_at(routing, ns, link_index);
	if (!endpoint || endpoint->mtu_bytes == mtu_bytes)
		return;
	endpoint->mtu_bytes = mtu_bytes;
	routing->mtus.changed = true;
}

static void link_reread(struct routing *routing, const struct namespace *ns, const char *interface)
{
	struct rtnl_link link;

	if (rtnl_link_get(ns->rtnl, interface, &link) == 0)
		mtu_changed(routing, ns, link.index, link.mtu_bytes);
}

void mtus_reread(struct routing *routing, const struct namespace *ns)
{
	if (ns == routing->own_ns)
		link_reread(routing, ns, routing->uplink.interface);
	for (const struct endpoint_set *set = routing->endpoint_sets; set; set = set->next)
		for (const struct endpoint *endpoint = set->first; endpoint; endpoint = endpoint->next)
			if (endpoint->ns == ns)
				link_reread(routing, ns, endpoint->interface);
}

int mtus_tick(struct routing *routing)
{
	int64_t now_ms = clock_monotonic_ms();
	int64_t left_ms = routing->mtus.followed_ms + FOLLOW_MS - now_ms;

	if (!routing->mtus.changed)
		return -1;
	if (routing->mtus.followed_ms && left_ms > 0)
		return (int)left_ms;
	routing->mtus.changed = false;
	routing->mtus.followed_ms = now_ms;
	destinations_mtus_changed(routing);
	return -1;
}
