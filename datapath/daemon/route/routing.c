/* SPDX-License-Identifier: Apache-2.0 */
#include "routing.h"

#include "associations.h"
#include "bridge_ports.h"
#include "clock.h"
#include "commands.h"
#include "destinations.h"
#include "forwarding.h"
#include "groups.h"
#include "log.h"

#include <stdlib.h>

/* ---- MTUs ---- */

/*
 * Changes of MTUs while ktsnd runs: the uplink's, and those of pods' interfaces. New destinations use them at
 * once. Existing destinations are updated a moment later, at most every 100 ms, because a pod may change its
 * own MTU any number of times.
 *
 * The uplink's MTU is used up to its value at the start of ktsnd, for which the buffers are made. It is not
 * followed where a switch does the tunnelling.
 */
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

/* Handles another MTU of a link; 0: the link is gone. */
static void mtu_changed(struct routing *routing, const struct namespace *ns, int link_index,
			uint32_t mtu_bytes)
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

/* The kernel dropped notifications of a namespace: reads the MTUs of its endpoints one by one, because a pod
 * may have any number of other links. */
static void mtus_reread(struct routing *routing, const struct namespace *ns)
{
	if (ns == routing->own_ns)
		link_reread(routing, ns, routing->uplink.interface);
	for (const struct endpoint_set *set = routing->endpoint_sets; set; set = set->next)
		for (const struct endpoint *endpoint = set->first; endpoint; endpoint = endpoint->next)
			if (endpoint->ns == ns)
				link_reread(routing, ns, endpoint->interface);
}

/* Updates destinations when due. Returns ms until it must be called again, or -1. */
static int mtus_tick(struct routing *routing)
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

/* ---- updates from the kernel ---- */

static void link_changed(struct namespace *ns, int link_index, bool carrying, uint32_t mtu_bytes)
{
	struct routing *routing = ns->all->owner;

	mtu_changed(routing, ns, link_index, mtu_bytes);
	if (ns != routing->own_ns)
		return;
	/* The link may be or have been a port of a bridge. */
	routing->ports.changed = true;
	/* A switch handles its links itself. */
	if (link_index != routing->uplink.link_index || routing->uplink.switched)
		return;
	loop_link_set(routing->loop, carrying);
	/* Neighbours that did not answer while the link was down may answer now. */
	if (carrying)
		neighbors_retry(ns);
}

static void addresses_changed(struct namespace *ns, int link_index)
{
	endpoints_addresses_changed(ns->all->owner, ns, link_index);
}

static void groups_changed(struct namespace *ns)
{
	struct routing *routing = ns->all->owner;

	if (ns == routing->own_ns)
		groups_members_changed(routing->groups);
}

static void forwarding_changed(struct namespace *ns, const struct rtnl_forwarding *entry)
{
	struct routing *routing = ns->all->owner;

	if (ns == routing->own_ns)
		forwarding_entry_changed(routing, entry);
}

static void notifications_lost(struct namespace *ns)
{
	struct routing *routing = ns->all->owner;

	neighbors_reread(ns);
	mtus_reread(routing, ns);
	routing->ports.changed = true;
	groups_members_changed(routing->groups);
	if (ns == routing->own_ns)
		forwarding_reread(routing);
	endpoints_addresses_changed(routing, ns, 0);
}

static const struct namespace_observer observer = {
	.neighbor_changed = neighbor_entry_changed,
	.forwarding_changed = forwarding_changed,
	.link_changed = link_changed,
	.addresses_changed = addresses_changed,
	.groups_changed = groups_changed,
	.notifications_lost = notifications_lost,
};

int routing_init(struct routing *routing, struct loop *loop, struct events *events,
		 const struct uplink *uplink)
{
	*routing = (struct routing){
		.loop = loop,
		.uplink = *uplink,
		.namespaces = {.events = events, .observer = &observer, .owner = routing},
	};
	int err;

	routing->uplink.mtu_bytes_max = uplink->mtu_bytes;
	routing->ports.changed = true; /* they have not been read yet */
	err = namespace_get(&routing->namespaces, NULL, &routing->own_ns);
	if (err)
		return err;
	err = encryption_init(routing);
	if (!err)
		err = groups_init(routing, events);
	if (err) {
		encryption_fini(routing);
		namespace_put(routing->own_ns);
	}
	return err;
}

void routing_close(struct routing *routing)
{
	groups_close(routing->groups);
	while (routing->peers)
		(void)routing_peer_del(routing, routing->peers->vni, routing->peers->address_be);
	destinations_receivers_changed(routing);
}

void routing_fini(struct routing *routing)
{
	groups_fini(routing);
	forwarding_fini(routing);
	associations_fini(routing);
	encryption_fini(routing);
	free(routing->ports.entries);
	namespace_put(routing->own_ns);
}

int routing_tick(struct routing *routing)
{
	int due_ms;

	/* Most changes of links concern no port: a pod can cause any number of them by switching its
	 * interface on and off. */
	if (routing->ports.changed && (bridge_ports_read(routing) || !routing->ports.groups_notified)) {
		routing->ports.groups_notified = true;
		routing->receivers.changed = routing->bridge_receivers.changed = true;
		groups_ports_changed(routing->groups);
	}
	routing->ports.changed = false;
	bridge_receivers_follow(routing);
	due_ms = events_earlier(neighbors_tick(&routing->namespaces), mtus_tick(routing));
	due_ms = events_earlier(due_ms, groups_tick(routing->groups));
	due_ms = events_earlier(due_ms, associations_tick(routing));
	return events_earlier(due_ms, destinations_tick(routing));
}

int routing_peer_add(struct routing *routing, uint32_t vni, uint32_t address_be, const struct subnet *subnets,
		     uint32_t subnet_count, struct refusal *refusal)
{
	int err = peer_set(routing, vni, address_be, subnets, subnet_count, refusal);

	if (!err) {
		groups_peers_changed(routing->groups);
		destinations_peers_changed(routing, vni);
	}
	return err;
}

int routing_encryption_set(struct routing *routing, uint32_t vni, enum loop_encryption encryption,
			   struct refusal *refusal)
{
	int err;

	if (encryption == encryption_of(routing, vni))
		return 0;
	err = encryption_network_set(routing, vni, encryption, refusal);
	if (err)
		return err;
	/* Destinations first: frames with the old routes that are made until the second command are waiting
	 * then, and are updated by it. */
	destinations_encryption_changed(routing, vni);
	loop_command(
		routing->loop,
		&(struct loop_command){.type = COMMAND_ENCRYPTION, .index = vni, .encryption = encryption});
	return 0;
}

int routing_peer_del(struct routing *routing, uint32_t vni, uint32_t address_be)
{
	if (peer_remove(routing, vni, address_be))
		destinations_peers_changed(routing, vni);
	return 0;
}
