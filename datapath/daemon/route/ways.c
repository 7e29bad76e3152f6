/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what an application asks for to a way for frames: the pod's routing table says through which of its
 * interfaces, from which address and to which neighbour; the peers say behind which node that is; the two
 * neighbour tables give the hardware addresses, which may come later. For the kernel's errors see udp_sendmsg()
 * and udpv6_sendmsg().
 */
#include "node.h"

#include <endian.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <string.h>

enum {
	IPV4_TTL_OUTER = 64,
	VLAN_TAG_BYTES = 4,
	PRIORITY_UNPRIVILEGED_MAX = 6, /* sk_set_prio_allowed() */
};

/* A datagram's ends and way, from the key and the socket. */
struct wish {
	struct ktsn_address destination;
	struct ktsn_address source; /* any: the routes decide */
	uint16_t port_be;
	uint32_t interface; /* 0: the routes decide */
	bool group;         /* multicast */
};

static struct endpoint *endpoint_of_link(const struct pod *pod, const struct namespace *ns, int link_index)
{
	struct endpoint *endpoint = pod->endpoints;

	while (endpoint && (endpoint->ns != ns || endpoint->link_index != link_index))
		endpoint = endpoint->next;
	return endpoint;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* Between the Ethernet header and the payload. */
static uint32_t header_bytes(const struct ktsn_frame_path *path)
{
	return (uint32_t)ktsn_frame_header_bytes(path, NULL) - KTSN_ETHER_HEADER_BYTES;
}

/* A tag inside the frame comes on top of the MTU. */
static uint32_t tag_bytes(const struct ktsn_frame_path *path)
{
	return path->kind == KTSN_FRAME_ETHERNET && (path->ethertype_be == htons(ETH_P_8021Q) ||
						     path->ethertype_be == htons(ETH_P_8021AD))
		       ? VLAN_TAG_BYTES
		       : 0;
}

/* Payload of a message that fits the sender's link and one of `other_bytes`. */
static uint32_t payload_max(const struct ktsn_frame_path *path, const struct endpoint *sender,
			    uint32_t other_bytes)
{
	uint32_t link_bytes = smaller(sender->mtu_bytes + tag_bytes(path), other_bytes);

	return link_bytes > header_bytes(path) ? link_bytes - header_bytes(path) : 0;
}

/* What the tunnel leaves of the uplink. */
static uint32_t tunnel_mtu(const struct node *node)
{
	uint32_t mtu_bytes = node->uplink.mtu_bytes;

	return mtu_bytes > KTSN_TUNNEL_HEADER_BYTES ? mtu_bytes - KTSN_TUNNEL_HEADER_BYTES : 0;
}

void way_payload_max_find(struct destination *destination, const struct endpoint *sender)
{
	struct loop_route *route = &destination->route;
	uint32_t other_bytes = destination->here ? destination->here->mtu_bytes + tag_bytes(&route->path)
						 : tunnel_mtu(destination->node);

	route->payload_max_bytes = payload_max(&route->path, sender, other_bytes);
}

/* All of the outer headers but the remote node's addresses; once the inner path is known. */
static void tunnel_fill(struct ktsn_frame_tunnel *tunnel, const struct node *node,
			const struct ktsn_frame_path *inner, uint32_t vni)
{
	memcpy(tunnel->outer.source_mac, node->uplink.mac, sizeof(tunnel->outer.source_mac));
	tunnel->outer.source_ipv4_be = node->uplink.local_address_be;
	tunnel->outer.source_port_be = ktsn_frame_tunnel_source_port_be(inner);
	tunnel->outer.destination_port_be = htons(node->uplink.vxlan_port);
	tunnel->outer.ttl = IPV4_TTL_OUTER;
	tunnel->vni = vni;
	tunnel->switched = node->uplink.switched;
	/* The switch keeps the networks apart by tags of their numbers (node_endpoint_add). */
	tunnel->vlan_id = node->uplink.switched ? (uint16_t)vni : node->uplink.vlan_id;
}

int way_tunnel_find(struct node *node, uint32_t remote_be, struct ktsn_frame_tunnel *tunnel,
		    struct neighbor **outer)
{
	struct rtnl_way way = {.destination = ktsn_address_of_ipv4(remote_be),
			       .source = ktsn_address_of_ipv4(node->uplink.local_address_be)};
	struct rtnl_route route;
	int err = rtnl_route_get(node->own_ns->rtnl, &way, &route);

	if (err)
		return err;
	if (route.type != ROUTE_UNICAST || route.link_index != node->uplink.link_index)
		return -ENETUNREACH;
	tunnel->outer.destination_ipv4_be = remote_be;
	return neighbor_get(node->own_ns, route.link_index,
			    ktsn_address_is_any(&route.gateway) ? &way.destination : &route.gateway, outer);
}

int way_outer_find(struct destination *destination)
{
	struct node *node = destination->node;
	const struct peer *peer;

	/* It finds the node by the hardware address. */
	if (node->uplink.switched)
		return 0;
	peer = node_peer_of(node, destination->vni, &destination->address);
	if (!peer)
		peer = node_peer_of(node, destination->vni, &destination->next_hop);
	if (!peer)
		return -EHOSTUNREACH;
	return way_tunnel_find(node, peer->address_be, &destination->route.tunnel, &destination->outer);
}

/* Onto the bridge, if `here` is on the sender's. */
static bool here_take(struct destination *destination, const struct endpoint *sender,
		      const struct endpoint *here)
{
	struct loop_route *route = &destination->route;

	if (!here || !sender->bridge_link_index || here->bridge_link_index != sender->bridge_link_index)
		return false;
	destination->here = here;
	route->bridge_link_index = sender->bridge_link_index;
	way_payload_max_find(destination, sender);
	return true;
}

/* --- IP ---------------------------------------------------------------------------------------------------- */

static struct ktsn_address key_address(uint16_t family, const uint8_t bytes[KTSN_ADDRESS_BYTES])
{
	uint32_t ipv4_be;

	if (family != AF_INET)
		return ktsn_address_of_ipv6(bytes);
	memcpy(&ipv4_be, bytes, sizeof(ipv4_be));
	return ktsn_address_of_ipv4(ipv4_be);
}

static bool key_has_source(const struct ktsn_app_key *key)
{
	static const uint8_t none[sizeof(key->source)];

	return memcmp(key->source, none, sizeof(none)) != 0;
}

static int wish_destination(const struct ktsn_app_key *key, const struct socket_manner *manner,
			    struct wish *wish)
{
	if (key->family == AF_UNSPEC)
		return -EDESTADDRREQ;
	if (key->family != AF_INET && key->family != AF_INET6)
		return -EAFNOSUPPORT;
	if (key->family == AF_INET6 && manner->family == AF_INET)
		return -EAFNOSUPPORT;
	if (key->port_be == 0)
		return -EINVAL;
	wish->destination = key_address(key->family, key->address);
	wish->port_be = key->port_be;
	return 0;
}

/* The interface that was named, and none that contradicts the one that the socket is bound to. */
static int wish_interface(const struct ktsn_app_key *key, const struct socket_manner *manner,
			  struct wish *wish)
{
	bool ipv4 = ktsn_address_is_ipv4(&wish->destination);

	if (key->interface)
		wish->interface = key->interface;
	if (manner->interface && wish->interface && wish->interface != manner->interface)
		return -EINVAL;
	if (manner->interface)
		wish->interface = manner->interface;
	if (!wish->interface && wish->group)
		wish->interface = ipv4 ? manner->multicast_interface_ipv4 : manner->multicast_interface;
	return 0;
}

/* Whether the pod has it. IP_FREEBIND, IPV6_FREEBIND and net.ipv4.ip_nonlocal_bind let a socket be bound to any. */
static int source_check(const struct flow *flow, const struct ktsn_address *source)
{
	int holder = rtnl_address_holder(flow->ns->rtnl, source);

	return holder < 0 ? holder : holder ? 0 : -EINVAL;
}

/* The address that the message asks for, or else the socket's: either must be the pod's own. */
static int wish_source(const struct ktsn_app_key *key, const struct flow *flow, struct wish *wish)
{
	const struct socket_manner *manner = &flow->manner;
	bool ipv4 = ktsn_address_is_ipv4(&wish->destination);
	int holder;

	wish->source = manner->local.address;
	if (key_has_source(key)) {
		wish->source = key_address(ipv4 ? AF_INET : AF_INET6, key->source);
		return source_check(flow, &wish->source);
	}
	if (!ktsn_address_is_any(&wish->source))
		return ktsn_address_is_ipv4(&wish->source) == ipv4 ? source_check(flow, &wish->source)
								   : -ENETUNREACH;
	if (!wish->group || !ipv4 || ktsn_address_is_any(&manner->multicast_source))
		return 0;
	/* IP_MULTICAST_IF by address: from it, and through the interface that has it. */
	wish->source = manner->multicast_source;
	holder = rtnl_address_holder(flow->ns->rtnl, &wish->source);
	if (holder > 0 && !wish->interface)
		wish->interface = (uint32_t)holder;
	return holder < 0 ? holder : 0;
}

static int wish_make(const struct ktsn_app_key *key, const struct flow *flow, struct wish *wish)
{
	const struct socket_manner *manner = &flow->manner;
	int err;

	*wish = (struct wish){.port_be = 0};
	err = wish_destination(key, manner, wish);
	if (err)
		return err;
	if (ktsn_address_is_ipv4(&wish->destination) && manner->v6only)
		return -ENETUNREACH;
	wish->group = ktsn_address_is_multicast(&wish->destination);
	err = wish_interface(key, manner, wish);
	return err ? err : wish_source(key, flow, wish);
}

static uint8_t ttl_of(const struct destination *destination, const struct socket_manner *manner, bool ipv4,
		      bool group)
{
	if (destination->key.carries & KTSN_APP_CARRIES_TTL)
		return destination->key.ttl;
	if (group)
		return ipv4 ? manner->multicast_ttl : manner->multicast_hops;
	return ipv4 ? manner->ttl : manner->hops;
}

static void inner_path_fill(struct destination *destination, const struct socket_manner *manner,
			    const struct endpoint *endpoint, const struct wish *wish)
{
	struct ktsn_frame_path *path = &destination->route.path;
	bool ipv4 = ktsn_address_is_ipv4(&wish->destination);

	memcpy(path->source_mac, endpoint->mac, sizeof(path->source_mac));
	path->source_port_be = manner->local.port_be;
	path->destination_port_be = wish->port_be;
	path->ttl = ttl_of(destination, manner, ipv4, wish->group);
	path->tos = destination->key.carries & KTSN_APP_CARRIES_TOS ? destination->key.tos
		    : ipv4                                          ? manner->tos
								    : manner->tclass;
	path->unchecked = ipv4 ? manner->unchecked : manner->unchecked6;
	if (ipv4) {
		path->kind = KTSN_FRAME_IPV4;
		path->fragmentable = manner->fragmentable;
		path->source_ipv4_be = ktsn_address_ipv4_be(&wish->source);
		path->destination_ipv4_be = ktsn_address_ipv4_be(&wish->destination);
		return;
	}
	path->kind = KTSN_FRAME_IPV6;
	memcpy(path->source_ipv6, wish->source.bytes, sizeof(path->source_ipv6));
	memcpy(path->destination_ipv6, wish->destination.bytes, sizeof(path->destination_ipv6));
	path->flow_label = ktsn_frame_flow_label(path);
}

/* RFC 1112 section 6.4, RFC 2464 section 7. */
static void group_mac_fill(struct ktsn_frame_path *path, const struct ktsn_address *group)
{
	const uint8_t *low = group->bytes + 12;
	const uint8_t ipv4[6] = {0x01, 0x00, 0x5e, low[1] & 0x7f, low[2], low[3]};
	const uint8_t ipv6[6] = {0x33, 0x33, low[0], low[1], low[2], low[3]};

	memcpy(path->destination_mac, ktsn_address_is_ipv4(group) ? ipv4 : ipv6, sizeof(ipv4));
}

static int unicast_find(struct destination *destination, const struct flow *flow,
			const struct endpoint *sender)
{
	struct loop_route *route = &destination->route;
	int err = neighbor_get(flow->ns, sender->link_index, &destination->next_hop, &destination->inner);

	if (err || here_take(destination, sender,
			     node_endpoint_of(destination->node, sender->vni, &destination->address)))
		return err;
	tunnel_fill(&route->tunnel, destination->node, &route->path, sender->vni);
	way_payload_max_find(destination, sender);
	/* Behind which node an address lives that means something on this link only, nobody was told. */
	if (ktsn_address_is_link_local(&destination->address) && !destination->node->uplink.switched)
		return many_find(destination, sender);
	return way_outer_find(destination);
}

/* To all others in the network, or to those that hardware address is one of. */
static int all_find(struct destination *destination, const struct endpoint *sender)
{
	struct loop_route *route = &destination->route;

	tunnel_fill(&route->tunnel, destination->node, &route->path, sender->vni);
	way_payload_max_find(destination, sender);
	return many_find(destination, sender);
}

static void sender_set(struct destination *destination, const struct endpoint *sender)
{
	destination->vni = sender->vni;
	destination->ns = sender->ns;
	destination->link_index = sender->link_index;
}

static int ip_way_find(struct destination *destination, const struct flow *flow)
{
	static const uint8_t everybody[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	struct ktsn_frame_path *path = &destination->route.path;
	const struct endpoint *sender;
	struct rtnl_route route;
	struct wish wish;
	int err = wish_make(&destination->key, flow, &wish);

	/* "This host", as the kernel takes it. */
	if (!err && ktsn_address_is_any(&wish.destination))
		return 1;
	if (!err)
		err = rtnl_route_get(flow->ns->rtnl,
				     &(struct rtnl_way){wish.destination, wish.source, (int)wish.interface},
				     &route);
	if (err)
		return err;
	sender = endpoint_of_link(flow->process->pod, flow->ns, route.link_index);
	if (!sender)
		return 1;
	wish.source = route.source;
	sender_set(destination, sender);
	inner_path_fill(destination, &flow->manner, sender, &wish);
	switch (route.type) {
	case ROUTE_UNICAST:
		break;
	case ROUTE_MULTICAST:
		group_mac_fill(path, &wish.destination);
		/* It must not leave the host, so it is the kernel's. */
		return path->ttl ? all_find(destination, sender) : 1;
	case ROUTE_BROADCAST:
		memcpy(path->destination_mac, everybody, sizeof(everybody));
		return flow->manner.broadcast ? all_find(destination, sender) : -EACCES;
	case ROUTE_LOCAL:
	case ROUTE_OTHER:
		return -EOPNOTSUPP;
	}
	destination->address = wish.destination;
	destination->next_hop = ktsn_address_is_any(&route.gateway) ? wish.destination : route.gateway;
	return unicast_find(destination, flow, sender);
}

/* --- Layer 2 ----------------------------------------------------------------------------------------------- */

/* A frame of another sender's would have the bridges look for that one here. The kernel would send it. */
static int source_mac_check(const struct ktsn_app_key *key, const struct socket_manner *manner,
			    const struct endpoint *sender)
{
	const uint8_t *claimed = key->address + KTSN_ETHER_ADDR_BYTES;

	return manner->raw && memcmp(claimed, sender->mac, sizeof(sender->mac)) != 0 ? -EPERM : 0;
}

static int link_way_find(struct destination *destination, const struct flow *flow)
{
	const struct ktsn_app_key *key = &destination->key;
	struct ktsn_frame_path *path = &destination->route.path;
	uint32_t interface = key->interface ? key->interface : flow->manner.interface;
	const struct endpoint *sender;
	int err;

	if (key->family != AF_PACKET)
		return -EINVAL;
	if (!interface)
		return -ENXIO;
	sender = endpoint_of_link(flow->process->pod, flow->ns, (int)interface);
	if (!sender)
		return 1;
	err = source_mac_check(key, &flow->manner, sender);
	if (err)
		return err;
	sender_set(destination, sender);
	path->kind = KTSN_FRAME_ETHERNET;
	path->ethertype_be = key->port_be;
	memcpy(path->source_mac, sender->mac, sizeof(path->source_mac));
	memcpy(path->destination_mac, key->address, sizeof(path->destination_mac));
	if (here_take(destination, sender,
		      node_endpoint_of_mac(destination->node, sender->vni, path->destination_mac)))
		return 0;
	return all_find(destination, sender);
}

int way_find(struct destination *destination, const struct flow *flow)
{
	const struct ktsn_app_key *key = &destination->key;

	if (key->carries & ~KTSN_APP_CARRIES_ALL)
		return -EINVAL;
	/* More takes a privilege, which whoever wrote the request need not have: the kernel checks it for the socket. */
	if (key->carries & KTSN_APP_CARRIES_PRIORITY && key->priority > PRIORITY_UNPRIVILEGED_MAX)
		return -EPERM;
	return flow->manner.family == AF_PACKET ? link_way_find(destination, flow)
						: ip_way_find(destination, flow);
}
