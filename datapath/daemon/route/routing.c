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

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- MTUs and the way to other nodes ---- */

/*
 * Changes of MTUs while ktsnd runs: the uplink's, and those of pods' interfaces. New destinations use them at
 * once. Existing destinations are updated a moment later, at most every 100 ms and a tenth of the time,
 * because a pod may change its own MTU any number of times. The same holds for the node's routes.
 *
 * The uplink's MTU is used up to its value at the start of ktsnd, for which the buffers are made. It is not
 * followed where a switch does the tunnelling.
 */
enum { FOLLOW_MS = 100, FOLLOW_FACTOR = 10 };

static void uplink_mtu_changed(struct routing *routing, uint32_t mtu_bytes)
{
	struct uplink *uplink = &routing->uplink;
	uint32_t usable_bytes = mtu_bytes < uplink->mtu_bytes_max ? mtu_bytes : uplink->mtu_bytes_max;

	if (usable_bytes == uplink->mtu_bytes)
		return;
	uplink->mtu_bytes = usable_bytes;
	routing->changes.mtus = true;
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
	routing->changes.mtus = true;
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
static int changes_tick(struct routing *routing)
{
	struct changes *changes = &routing->changes;
	int64_t began_ms = clock_monotonic_ms(), took_ms;

	if (!changes->mtus && !changes->underlay)
		return -1;
	if (began_ms < changes->follow_from_ms)
		return (int)(changes->follow_from_ms - began_ms);
	if (changes->underlay)
		destinations_underlay_changed(routing); /* with MTUs */
	else
		destinations_mtus_changed(routing);
	changes->mtus = changes->underlay = false;
	took_ms = clock_monotonic_ms() - began_ms;
	changes->follow_from_ms = began_ms + took_ms +
				  (took_ms * FOLLOW_FACTOR > FOLLOW_MS ? took_ms * FOLLOW_FACTOR : FOLLOW_MS);
	return -1;
}

/* ---- bridges of endpoints: one that is removed and made again has another index ---- */

static bool bridge_is_used(const struct routing *routing, int link_index)
{
	for (const struct endpoint_set *set = routing->endpoint_sets; set; set = set->next)
		for (const struct endpoint *endpoint = set->first; endpoint; endpoint = endpoint->next)
			if (*endpoint->bridge && (int)endpoint->bridge_link_index == link_index)
				return true;
	return false;
}

static void bridge_follow(struct routing *routing, struct endpoint *endpoint)
{
	struct rtnl_link link;

	if (rtnl_link_get(routing->own_ns->rtnl, endpoint->bridge, &link)) {
		routing->bridges_gone = true; /* still */
		return;
	}
	if ((int)endpoint->bridge_link_index == link.index)
		return;
	endpoint->bridge_link_index = (uint32_t)link.index;
	routing->receivers.changed = routing->bridge_receivers.changed = true;
	destinations_bridge_changed(routing, endpoint);
}

void routing_bridges_follow(struct routing *routing)
{
	routing->bridges_gone = false;
	for (const struct endpoint_set *set = routing->endpoint_sets; set; set = set->next)
		for (struct endpoint *endpoint = set->first; endpoint; endpoint = endpoint->next)
			if (*endpoint->bridge)
				bridge_follow(routing, endpoint);
}

/* ---- the uplink ---- */

/* Returns the first IPv4 address of a link that other nodes can reach, or 0. */
static uint32_t ipv4_address(const struct routing *routing, int link_index)
{
	enum { LINK_LOCAL = 0xa9fe }; /* 169.254.0.0/16, which a host without DHCP gives itself */
	struct ktsn_address addresses[ENDPOINT_ADDRESSES_MAX];
	int count = rtnl_addresses_get(routing->own_ns->rtnl, link_index, addresses, ENDPOINT_ADDRESSES_MAX);

	for (int i = 0; i < count; i++) {
		uint32_t address_be =
			ktsn_address_is_ipv4(&addresses[i]) ? ktsn_address_ipv4_be(&addresses[i]) : 0;

		if (address_be == routing->uplink.first_address_be ||
		    (address_be && ntohl(address_be) >> 16 != LINK_LOCAL))
			return address_be;
	}
	return 0;
}

static bool uplink_has(const struct routing *routing, uint32_t address_be)
{
	struct ktsn_address address = ktsn_address_of_ipv4(address_be);

	return rtnl_address_on(routing->own_ns->rtnl, routing->uplink.link_index, &address) > 0;
}

/* Returns the address to send from: the one at the start of ktsnd if the uplink has it, else the current one,
 * else another, or 0. */
static uint32_t uplink_address(const struct routing *routing)
{
	const struct uplink *uplink = &routing->uplink;

	if (uplink_has(routing, uplink->first_address_be))
		return uplink->first_address_be;
	return uplink_has(routing, uplink->local_address_be) ? uplink->local_address_be
							     : ipv4_address(routing, uplink->link_index);
}

/* The port, filters and frames are made for the uplink with the index that it had at the start of ktsnd. When
 * it was removed and created again, and is ready, ktsnd ends, so that whoever supervises it starts it again.
 */
static void uplink_follow(struct routing *routing)
{
	struct rtnl *rtnl = routing->own_ns->rtnl;
	struct rtnl_link link;
	int err;

	if (!routing->uplink_gone)
		return;
	err = rtnl_link_at(rtnl, routing->uplink.link_index, &link);
	if (err != -ENODEV) {
		routing->uplink_gone = err != 0; /* unknown */
		return;
	}
	if (rtnl_link_get(rtnl, routing->uplink.interface, &link) || !link.up ||
	    !ipv4_address(routing, link.index))
		return;
	log_error("--interface %s: was removed and created again; ktsnd ends, and must be started again",
		  routing->uplink.interface);
	routing->uplink_changed = true;
}

static void uplink_mac_follow(struct routing *routing)
{
	struct uplink *uplink = &routing->uplink;
	struct rtnl_link link;

	if (rtnl_link_at(routing->own_ns->rtnl, uplink->link_index, &link) ||
	    memcmp(uplink->mac, link.mac, sizeof(uplink->mac)) == 0)
		return;
	memcpy(uplink->mac, link.mac, sizeof(uplink->mac));
	routing->changes.underlay = true;
	log_info("--interface %s: has another hardware address, which ktsnd sends from now",
		 uplink->interface);
}

/* Other programs remove addresses and add them again: another one than at the start is used only if the
 * former one has not come back when it has been there for a while. Returns ms until it must be called again,
 * or -1. */
static int uplink_address_follow(struct routing *routing)
{
	enum { GONE_MS = 3000 };
	struct uplink *uplink = &routing->uplink;
	int64_t now_ms = clock_monotonic_ms();
	uint32_t address_be = uplink_address(routing);
	char text[INET_ADDRSTRLEN];

	if (!address_be || address_be == uplink->local_address_be) {
		routing->address_gone_ms = 0;
		return -1;
	}
	if (!routing->address_gone_ms)
		routing->address_gone_ms = now_ms;
	if (address_be != uplink->first_address_be && now_ms - routing->address_gone_ms < GONE_MS)
		return (int)(routing->address_gone_ms + GONE_MS - now_ms);
	routing->address_gone_ms = 0;
	uplink->local_address_be = address_be;
	routing->changes.underlay = true;
	log_warning("--interface %s: has another address, %s, which ktsnd sends from now", uplink->interface,
		    inet_ntop(AF_INET, &address_be, text, sizeof(text)));
	return -1;
}

static int uplink_addresses_tick(struct routing *routing)
{
	int due_ms = -1;

	if (!routing->addresses_changed || routing->uplink.switched)
		return -1;
	uplink_mac_follow(routing);
	if (!routing->uplink.address_given)
		due_ms = uplink_address_follow(routing);
	routing->addresses_changed = due_ms >= 0;
	return due_ms;
}

static void carrier_reread(const struct routing *routing)
{
	struct rtnl_link link;

	if (!routing->uplink.switched &&
	    rtnl_link_at(routing->own_ns->rtnl, routing->uplink.link_index, &link) == 0)
		loop_link_set(routing->loop, link.carrying);
}

/* ---- updates from the kernel ---- */

static void link_changed(struct namespace *ns, int link_index, bool carrying, uint32_t mtu_bytes)
{
	struct routing *routing = ns->all->owner;

	mtu_changed(routing, ns, link_index, mtu_bytes);
	if (ns != routing->own_ns)
		return;
	if (!mtu_bytes)
		routing->bridges_gone |= bridge_is_used(routing, link_index);
	/* The link may be or have been a port of a bridge. */
	routing->ports.changed = true;
	/* A switch handles its links itself. */
	if (link_index != routing->uplink.link_index || routing->uplink.switched)
		return;
	routing->addresses_changed = true;
	if (!mtu_bytes) {
		routing->uplink_gone = true;
		log_warning("--interface %s: was removed; messages to other nodes are dropped meanwhile",
			    routing->uplink.interface);
	}
	loop_link_set(routing->loop, carrying);
	/* Neighbours that did not answer while the link was down may answer now. */
	if (carrying)
		neighbors_retry(ns);
}

static void addresses_changed(struct namespace *ns, int link_index)
{
	struct routing *routing = ns->all->owner;

	if (ns == routing->own_ns && link_index == routing->uplink.link_index)
		routing->addresses_changed = true;
	endpoints_addresses_changed(routing, ns, link_index);
}

static void routes_changed(struct namespace *ns)
{
	struct routing *routing = ns->all->owner;

	routing->changes.underlay = !routing->uplink.switched;
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
	if (ns == routing->own_ns) {
		forwarding_reread(routing);
		routing->bridges_gone = true;                     /* maybe */
		routing->uplink_gone = !routing->uplink.switched; /* maybe */
		carrier_reread(routing);
		routing->addresses_changed = true;                     /* maybe */
		routing->changes.underlay = !routing->uplink.switched; /* maybe */
	}
	endpoints_addresses_changed(routing, ns, 0);
}

static const struct namespace_observer observer = {
	.neighbor_changed = neighbor_entry_changed,
	.forwarding_changed = forwarding_changed,
	.link_changed = link_changed,
	.addresses_changed = addresses_changed,
	.groups_changed = groups_changed,
	.routes_changed = routes_changed,
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
	routing->uplink.first_address_be = uplink->local_address_be;
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

	uplink_follow(routing);
	if (routing->ports.changed && routing->bridges_gone)
		routing_bridges_follow(routing);
	/* Most changes of links concern no port: a pod can cause any number of them by switching its
	 * interface on and off. */
	if (routing->ports.changed && (bridge_ports_read(routing) || !routing->ports.groups_notified)) {
		routing->ports.groups_notified = true;
		routing->receivers.changed = routing->bridge_receivers.changed = true;
		groups_ports_changed(routing->groups);
	}
	routing->ports.changed = false;
	bridge_receivers_follow(routing);
	due_ms = uplink_addresses_tick(routing);
	due_ms = events_earlier(due_ms,
				events_earlier(neighbors_tick(&routing->namespaces), changes_tick(routing)));
	due_ms = events_earlier(due_ms, groups_tick(routing->groups));
	due_ms = events_earlier(due_ms, associations_tick(routing));
	return events_earlier(due_ms, destinations_tick(routing));
}

int routing_peer_add(struct routing *routing, uint32_t vni, uint32_t address_be, uint16_t port,
		     const struct subnet *subnets, uint32_t subnet_count, struct refusal *refusal)
{
	int err = peer_set(routing, vni, address_be, port, subnets, subnet_count, refusal);

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
	groups_encryption_changed(routing->groups, vni);
	return 0;
}

int routing_peer_del(struct routing *routing, uint32_t vni, uint32_t address_be)
{
	if (peer_remove(routing, vni, address_be))
		destinations_peers_changed(routing, vni);
	return 0;
}
