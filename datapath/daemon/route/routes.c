/* SPDX-License-Identifier: Apache-2.0 */
#include "routes.h"

#include "app_protocol.h"
#include "encryption.h"
#include "group_frames.h"
#include "namespace.h"
#include "peers.h"
#include "replication_lists.h"
#include "socket_identity.h"
#include "tunnels.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <string.h>
#include <sys/socket.h>

/* ---- keys: the ends of a datagram, from the application's key and the socket ---- */

/* The ends of a datagram, and its interface. */
struct route_key {
	struct ktsn_address destination;
	struct ktsn_address source; /* any: the routes decide */
	uint16_t port_be;
	uint32_t interface; /* 0: the routes decide */
	bool group;         /* multicast */
};

static struct ktsn_address key_address(uint16_t family, const uint8_t bytes[KTSN_ADDRESS_BYTES])
{
	uint32_t ipv4_be;

	if (family != AF_INET)
		return ktsn_address_of_ipv6(bytes);
	memcpy(&ipv4_be, bytes, sizeof(ipv4_be));
	return ktsn_address_of_ipv4(ipv4_be);
}

static bool key_has_source(const struct ktsn_app_key *request)
{
	static const uint8_t none[sizeof(request->source)];

	return memcmp(request->source, none, sizeof(none)) != 0;
}

static int key_destination(const struct ktsn_app_key *request, const struct socket_attributes *attributes,
			   struct route_key *key)
{
	if (request->family == AF_UNSPEC)
		return -EDESTADDRREQ;
	if (request->family != AF_INET && request->family != AF_INET6)
		return -EAFNOSUPPORT;
	if (request->family == AF_INET6 && attributes->family == AF_INET)
		return -EAFNOSUPPORT;
	if (request->port_be == 0)
		return -EINVAL;
	key->destination = key_address(request->family, request->address);
	key->port_be = request->port_be;
	return 0;
}

/* Finds the interface of the key. It must not contradict the one that the socket is bound to. */
static int key_interface(const struct ktsn_app_key *request, const struct socket_attributes *attributes,
			 struct route_key *key)
{
	bool ipv4 = ktsn_address_is_ipv4(&key->destination);

	if (request->interface)
		key->interface = request->interface;
	if (attributes->interface && key->interface && key->interface != attributes->interface)
		return -EINVAL;
	if (attributes->interface)
		key->interface = attributes->interface;
	if (!key->interface && key->group)
		key->interface =
			ipv4 ? attributes->multicast_interface_ipv4 : attributes->multicast_interface;
	return 0;
}

/* Checks that the pod has the address: with IP_FREEBIND, IPV6_FREEBIND or net.ipv4.ip_nonlocal_bind a socket
 * can be bound to any. */
static int source_check(const struct namespace *ns, const struct ktsn_address *source)
{
	int owner = rtnl_address_owner(ns->rtnl, source);

	return owner < 0 ? owner : owner ? 0 : -EINVAL;
}

/* Finds the source address: the message's, or else the socket's. The pod must have it. */
static int key_source(const struct ktsn_app_key *request, const struct socket_attributes *attributes,
		      const struct namespace *ns, struct route_key *key)
{
	bool ipv4 = ktsn_address_is_ipv4(&key->destination);
	int owner;

	key->source = attributes->local.address;
	if (key_has_source(request)) {
		key->source = key_address(ipv4 ? AF_INET : AF_INET6, request->source);
		return source_check(ns, &key->source);
	}
	if (!ktsn_address_is_any(&key->source))
		return ktsn_address_is_ipv4(&key->source) == ipv4 ? source_check(ns, &key->source)
								  : -ENETUNREACH;
	if (!key->group || !ipv4 || ktsn_address_is_any(&attributes->multicast_source))
		return 0;
	/* IP_MULTICAST_IF by address: send from it, through the interface that has it. */
	key->source = attributes->multicast_source;
	owner = rtnl_address_owner(ns->rtnl, &key->source);
	if (owner > 0 && !key->interface)
		key->interface = (uint32_t)owner;
	return owner < 0 ? owner : 0;
}

static int route_key_make(const struct ktsn_app_key *request, const struct socket_attributes *attributes,
			  const struct namespace *ns, struct route_key *key)
{
	int err;

	*key = (struct route_key){.port_be = 0};
	err = key_destination(request, attributes, key);
	if (err)
		return err;
	if (ktsn_address_is_ipv4(&key->destination) && attributes->v6only)
		return -ENETUNREACH;
	key->group = ktsn_address_is_multicast(&key->destination);
	err = key_interface(request, attributes, key);
	return err ? err : key_source(request, attributes, ns, key);
}

/* Returns the length of the headers between the Ethernet header and the payload. */
static uint32_t header_bytes(const struct ktsn_frame_path *path)
{
	return (uint32_t)ktsn_frame_header_bytes(path, NULL) - KTSN_ETHER_HEADER_BYTES;
}

/* A tag inside the frame does not count for the MTU. */
static uint32_t tag_bytes(const struct ktsn_frame_path *path)
{
	return path->kind == KTSN_FRAME_ETHERNET && ktsn_frame_is_tagged(path->ethertype_be)
		       ? KTSN_VLAN_TAG_BYTES
		       : 0;
}

static uint32_t payload_max_bytes(const struct route *route, const struct endpoint *sender,
				  uint32_t tag_bytes)
{
	uint32_t headers_bytes = header_bytes(&route->frames.path);
	uint32_t sender_bytes = sender->mtu_bytes + tag_bytes;
	uint32_t other_bytes =
		route->local ? route->local->mtu_bytes + tag_bytes
			     : tunnel_mtu_bytes(route->routing, sender->vni, route->underlay_mtu_bytes);
	uint32_t least_bytes = sender_bytes < other_bytes ? sender_bytes : other_bytes;

	return least_bytes > headers_bytes ? least_bytes - headers_bytes : 0;
}

void route_payload_max_find(struct route *route, const struct endpoint *sender)
{
	route->frames.payload_max_bytes = payload_max_bytes(route, sender, tag_bytes(&route->frames.path));
	route->frames.tagged_max_bytes = payload_max_bytes(route, sender, KTSN_VLAN_TAG_BYTES);
}

static const struct peer *peer_of_route(const struct route *route)
{
	const struct peer *peer = peer_of_address(route->routing, route->vni, &route->address);

	return peer ? peer : peer_of_address(route->routing, route->vni, &route->next_hop_address);
}

/* Finds the peer and the tunnel of a route that is complete otherwise. */
static int underlay_find(struct route *route)
{
	const struct peer *peer;

	/* The switch finds the node by the hardware address. */
	if (route->routing->uplink.switched)
		return 0;
	peer = peer_of_route(route);
	if (!peer)
		return -EHOSTUNREACH;
	route->remote_be = peer->address_be;
	return tunnel_find(route->routing, peer->address_be, &route->frames.tunnel, &route->underlay_next_hop,
			   &route->underlay_mtu_bytes);
}

/* Sends onto the bridge, if `local` is on the sender's bridge. */
static bool local_take(struct route *route, const struct endpoint *sender, const struct endpoint *local)
{
	if (!local || !sender->bridge_link_index || local->bridge_link_index != sender->bridge_link_index)
		return false;
	route->local = local;
	route->frames.bridge_link_index = sender->bridge_link_index;
	route_payload_max_find(route, sender);
	return true;
}

/* Returns whose queue a frame onto a bridge waits in. The sender's own neighbour table may have a hardware
 * address that is not the receiver's: the bridge then delivers the frame to others, and the receiver's queue
 * must not be used for it. */
static void receiver_find(struct route *route)
{
	struct loop_route *frames = &route->frames;
	bool known = route->local && route->local->port_link_index &&
		     endpoint_admits_mac(&route->local->admission, frames->path.destination_mac);

	frames->receiver_link_index = known ? route->local->port_link_index : frames->bridge_link_index;
}

/* A high priority needs a privilege. The kernel checks it for a socket, but the sender of this request need
 * not have it, so the endpoint's limit applies. */
static bool priority_granted(const struct route_query *query, const struct endpoint *sender)
{
	return !(query->key->carries & KTSN_APP_CARRIES_PRIORITY) ||
	       query->key->priority <= sender->admission.priority_max;
}

/* ---- IP ---- */

static uint8_t ttl_of(const struct route_query *query, bool ipv4, bool group)
{
	const struct socket_attributes *attributes = query->attributes;

	if (query->key->carries & KTSN_APP_CARRIES_TTL)
		return query->key->ttl;
	if (group)
		return ipv4 ? attributes->multicast_ttl : attributes->multicast_hops;
	return ipv4 ? attributes->ttl : attributes->hops;
}

/* The headers inside the tunnel. */
static void path_fill(struct ktsn_frame_path *path, const struct route_query *query,
		      const struct endpoint *sender, const struct route_key *key)
{
	const struct socket_attributes *attributes = query->attributes;
	bool ipv4 = ktsn_address_is_ipv4(&key->destination);

	memcpy(path->source_mac, sender->mac, sizeof(path->source_mac));
	path->source_port_be = attributes->local.port_be;
	path->destination_port_be = key->port_be;
	path->ttl = ttl_of(query, ipv4, key->group);
	path->tos = query->key->carries & KTSN_APP_CARRIES_TOS ? query->key->tos
		    : ipv4                                     ? attributes->tos
							       : attributes->tclass;
	path->unchecked = ipv4 ? attributes->unchecked : attributes->unchecked6;
	if (ipv4) {
		path->kind = KTSN_FRAME_IPV4;
		path->fragmentable = attributes->fragmentable;
		path->source_ipv4_be = ktsn_address_ipv4_be(&key->source);
		path->destination_ipv4_be = ktsn_address_ipv4_be(&key->destination);
		return;
	}
	path->kind = KTSN_FRAME_IPV6;
	memcpy(path->source_ipv6, key->source.bytes, sizeof(path->source_ipv6));
	memcpy(path->destination_ipv6, key->destination.bytes, sizeof(path->destination_ipv6));
	path->flow_label = ktsn_frame_flow_label(path);
}

/* Sets the hardware address of a group (RFC 1112 section 6.4, RFC 2464 section 7). */
static void group_mac_fill(struct ktsn_frame_path *path, const struct ktsn_address *group)
{
	const uint8_t *low = group->bytes + 12;
	const uint8_t ipv4[6] = {0x01, 0x00, 0x5e, low[1] & 0x7f, low[2], low[3]};
	const uint8_t ipv6[6] = {0x33, 0x33, low[0], low[1], low[2], low[3]};

	memcpy(path->destination_mac, ktsn_address_is_ipv4(group) ? ipv4 : ipv6, sizeof(ipv4));
}

/* Finds a route to all others in the network, or to the members of a group. */
static int replicated_find(struct route *route, const struct endpoint *sender)
{
	int err;

	tunnel_fill(&route->frames.tunnel, route->routing, &route->frames.path, sender->vni);
	encryption_route_fill(route->routing, sender->vni, &route->frames);
	err = replication_find(route, sender);
	if (!err)
		route_payload_max_find(route, sender);
	return err;
}

static bool is_ethernet(const struct route *route)
{
	return route->frames.path.kind == KTSN_FRAME_ETHERNET;
}

/* Returns the endpoint of this node that receives, or NULL. */
static const struct endpoint *local_receiver(const struct route *route)
{
	return is_ethernet(route)
		       ? endpoint_of_mac(route->routing, route->vni, route->frames.path.destination_mac)
		       : endpoint_of_address(route->routing, route->vni, &route->address);
}

/* Finds the place of one receiver: a pod of this node, or the node of a peer. */
static int receiver_place_find(struct route *route, const struct endpoint *sender)
{
	struct routing *routing = route->routing;
	int err;

	if (local_take(route, sender, local_receiver(route)))
		return 0;
	/* Link-local addresses are not announced, so no peer is known for them. */
	if (is_ethernet(route) || (ktsn_address_is_link_local(&route->address) && !routing->uplink.switched))
		return replicated_find(route, sender);
	tunnel_fill(&route->frames.tunnel, routing, &route->frames.path, sender->vni);
	encryption_route_fill(routing, sender->vni, &route->frames);
	err = underlay_find(route);
	if (!err)
		route_payload_max_find(route, sender);
	return err;
}

static int unicast_find(struct route *route, const struct endpoint *sender)
{
	int err = neighbor_get(sender->ns, sender->link_index, &route->next_hop_address, &route->next_hop);

	return err ? err : receiver_place_find(route, sender);
}

static void sender_set(struct route *route, const struct endpoint *sender)
{
	route->vni = sender->vni;
	route->ns = sender->ns;
	route->link_index = sender->link_index;
}

/* Fills in the route by the answer of the pod's routing table; `key` has the source address. */
static int answer_take(struct route *route, const struct route_query *query, const struct endpoint *sender,
		       const struct route_key *key, const struct rtnl_route *answer)
{
	static const uint8_t broadcast_mac[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	struct ktsn_frame_path *path = &route->frames.path;

	sender_set(route, sender);
	path_fill(path, query, sender, key);
	switch (answer->type) {
	case ROUTE_UNICAST:
		route->address = key->destination;
		route->next_hop_address =
			ktsn_address_is_any(&answer->gateway) ? key->destination : answer->gateway;
		return unicast_find(route, sender);
	case ROUTE_MULTICAST:
		group_mac_fill(path, &key->destination);
		if (group_is_reported(&key->destination))
			route->group = key->destination;
		/* A TTL of 0 must not leave the host: leave the message to the kernel. */
		return path->ttl ? replicated_find(route, sender) : ROUTE_TO_HOST;
	case ROUTE_BROADCAST:
		memcpy(path->destination_mac, broadcast_mac, sizeof(broadcast_mac));
		return query->attributes->broadcast ? replicated_find(route, sender) : -EACCES;
	case ROUTE_LOCAL:
	case ROUTE_OTHER:
		break;
	}
	return -EOPNOTSUPP;
}

/* The index of the loopback interface in every network namespace. */
enum { LOOPBACK_INDEX = 1 };

static int ip_route_find(struct route *route, const struct route_query *query)
{
	const struct endpoint *sender;
	struct rtnl_route answer;
	struct route_key key;
	int err = route_key_make(query->key, query->attributes, query->ns, &key);

	/* The unspecified address means this host, as in the kernel. */
	if (!err && ktsn_address_is_any(&key.destination))
		return ROUTE_TO_HOST;
	if (!err)
		err = rtnl_route_get(
			query->ns->rtnl,
			&(struct rtnl_route_query){key.destination, key.source, (int)key.interface}, &answer);
	if (err)
		return err;
	sender = endpoint_on(query->endpoints, query->ns, answer.link_index);
	if (!sender)
		return answer.type == ROUTE_LOCAL || answer.link_index == LOOPBACK_INDEX ? ROUTE_TO_HOST
											 : ROUTE_OFF_NETWORK;
	key.source = answer.source;
	if (!priority_granted(query, sender) || !endpoint_admits_address(&sender->admission, &key.source))
		return -EPERM;
	return answer_take(route, query, sender, &key, &answer);
}

/* ---- Layer 2 ---- */

/* Pods must not send the nodes' own announcements. */
static bool is_announcement(const struct ktsn_app_key *key, bool frames)
{
	return (frames || key->port_be == htons(GROUP_ETHERTYPE)) &&
	       memcmp(key->address, group_announcement_mac, sizeof(group_announcement_mac)) == 0;
}

/* Finds the source address of frames. The address of another sender would make the bridges forward that
 * sender's frames here. The kernel would send it. */
static int source_mac_take(struct ktsn_frame_path *path, const struct route_query *query,
			   const struct endpoint *sender)
{
	const uint8_t *claimed =
		query->attributes->raw ? query->key->address + KTSN_ETHER_ADDR_BYTES : sender->mac;

	memcpy(path->source_mac, claimed, sizeof(path->source_mac));
	return endpoint_admits_mac(&sender->admission, claimed) ? 0 : -EPERM;
}

static int link_route_find(struct route *route, const struct route_query *query)
{
	const struct ktsn_app_key *key = query->key;
	struct ktsn_frame_path *path = &route->frames.path;
	uint32_t interface = key->interface ? key->interface : query->attributes->interface;
	const struct endpoint *sender;
	int err;

	if (key->family != AF_PACKET)
		return -EINVAL;
	if (!interface)
		return -ENXIO;
	sender = endpoint_on(query->endpoints, query->ns, (int)interface);
	if (!sender)
		return interface == LOOPBACK_INDEX ? ROUTE_TO_HOST : ROUTE_OFF_NETWORK;
	err = is_announcement(key, query->frames) || !priority_granted(query, sender)
		      ? -EPERM
		      : source_mac_take(path, query, sender);
	if (err)
		return err;
	sender_set(route, sender);
	path->kind = KTSN_FRAME_ETHERNET;
	path->ethertype_be = query->frames ? 0 : key->port_be;
	memcpy(path->destination_mac, key->address, sizeof(path->destination_mac));
	return receiver_place_find(route, sender);
}

int route_find(struct route *route, const struct route_query *query)
{
	const struct ktsn_app_key *key = query->key;

	if (key->carries & ~KTSN_APP_CARRIES_ALL)
		return -EINVAL;
	return query->attributes->family == AF_PACKET ? link_route_find(route, query)
						      : ip_route_find(route, query);
}

/* ---- Following neighbours and peers ---- */

void route_release(struct route *route)
{
	neighbor_put(route->next_hop);
	neighbor_put(route->underlay_next_hop);
	replication_free(route->routing, route->replication);
}

/* Returns the state of the underlay's neighbour of a route to one receiver. */
static enum loop_destination_state unicast_state(const struct route *route)
{
	enum rtnl_neighbor_state underlay =
		route->underlay_next_hop ? route->underlay_next_hop->entry.state : NEIGHBOR_VALID;

	if (underlay == NEIGHBOR_VALID)
		return DESTINATION_RESOLVED;
	return underlay == NEIGHBOR_FAILED ? DESTINATION_UNREACHABLE : DESTINATION_RESOLVING;
}

void route_apply(struct route *route)
{
	struct loop_route *frames = &route->frames;
	/* A pod of this node is on the sender's link, and without IP there is no neighbour to resolve. */
	enum rtnl_neighbor_state next_hop = route->next_hop ? route->next_hop->entry.state : NEIGHBOR_VALID;

	if (route->next_hop)
		memcpy(frames->path.destination_mac, route->next_hop->entry.mac, 6);
	if (frames->bridge_link_index)
		receiver_find(route);
	if (route->underlay_next_hop)
		memcpy(frames->tunnel.outer.destination_mac, route->underlay_next_hop->entry.mac, 6);
	frames->state = route->replication ? replication_state(route) : unicast_state(route);
	if (route->replication && replication_outdated(route))
		route->routing->forwarding.changed = true;
	if (next_hop == NEIGHBOR_FAILED)
		frames->state = DESTINATION_UNREACHABLE;
	else if (next_hop != NEIGHBOR_VALID && frames->state == DESTINATION_RESOLVED)
		frames->state = DESTINATION_RESOLVING;
}

void route_observe_begin(struct route *route)
{
	neighbor_observer_add(route->next_hop, &route->next_hop_observer, route->changed, route->owner);
	neighbor_observer_add(route->underlay_next_hop, &route->underlay_observer, route->changed,
			      route->owner);
}

void route_observe_end(struct route *route)
{
	neighbor_observer_remove(&route->next_hop_observer);
	neighbor_observer_remove(&route->underlay_observer);
}

/* Finds the tunnel to a node again. 1, or -errno; after an error nothing has changed. */
static int underlay_refind(struct route *route, uint32_t remote_be)
{
	struct neighbor *underlay_next_hop = NULL;
	int err = tunnel_find(route->routing, remote_be, &route->frames.tunnel, &underlay_next_hop,
			      &route->underlay_mtu_bytes);

	if (err)
		return err;
	neighbor_observer_remove(&route->underlay_observer);
	neighbor_observer_add(underlay_next_hop, &route->underlay_observer, route->changed, route->owner);
	neighbor_put(route->underlay_next_hop);
	route->underlay_next_hop = underlay_next_hop;
	route->remote_be = remote_be;
	return 1;
}

void route_underlay_refind(struct route *route)
{
	if (route->routing->uplink.switched || route->local)
		return;
	tunnel_source_fill(&route->frames.tunnel, &route->routing->uplink);
	/* Without a route the last next hop stays: the route may return. */
	if (route->remote_be && underlay_refind(route, route->remote_be) > 0)
		route_apply(route);
}

int route_peer_refind(struct route *route)
{
	const struct peer *peer;

	if (route->routing->uplink.switched)
		return 0;
	peer = peer_of_route(route);
	if (!peer)
		return -EHOSTUNREACH;
	if (peer->address_be == route->remote_be)
		return 0;
	return underlay_refind(route, peer->address_be);
}

int route_receiver_refind(struct route *route, const struct endpoint *sender)
{
	int err;

	neighbor_observer_remove(&route->underlay_observer);
	neighbor_put(route->underlay_next_hop);
	route->underlay_next_hop = NULL;
	route->remote_be = 0;
	route->local = NULL;
	route->frames.bridge_link_index = route->frames.receiver_link_index = 0;
	err = receiver_place_find(route, sender);
	neighbor_observer_add(route->underlay_next_hop, &route->underlay_observer, route->changed,
			      route->owner);
	return err;
}
