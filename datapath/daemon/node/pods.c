/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods: their sockets and their endpoints, two halves that arrive in either order.
 */
#include "log.h"
#include "node.h"
#include "unix_socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Applications of any user may connect: who may reach the socket is decided by who can see its folder. */
enum { APP_SOCKET_MODE = 0666, ENDPOINT_MTU_MIN_BYTES = 68 /* RFC 791 */ };

struct pod *pod_find(const struct node *node, const char *identity)
{
	struct pod *pod = node->pods;

	while (pod && strcmp(pod->identity, identity) != 0)
		pod = pod->next;
	return pod;
}

static struct pod *pod_get(struct node *node, const char *identity)
{
	struct pod *pod = pod_find(node, identity);

	if (pod)
		return pod;
	pod = calloc(1, sizeof(*pod));
	if (!pod)
		return NULL;
	pod->quota = quota_create(&node->limits, &node->quota_count);
	if (!pod->quota || pod_thread_start(node->threads, &pod->thread)) {
		quota_put(pod->quota);
		free(pod);
		return NULL;
	}
	pod->node = node;
	pod->listener.fd = -1;
	snprintf(pod->identity, sizeof(pod->identity), "%s", identity);
	snprintf(pod->called, sizeof(pod->called), "%s", identity);
	pod->next = node->pods;
	node->pods = pod;
	return pod;
}

/* Why there is no room for another pod. */
static int pod_refuse(const struct node *node, const char *identity, struct refusal *refusal)
{
	if (node->quota_count < QUOTAS_MAX)
		return -ENOMEM;
	return refuse(refusal, "identity", "%s: %d pods are served already; remove one first", identity,
		      QUOTAS_MAX);
}

static void pod_unlink_if_empty(struct pod *pod)
{
	struct pod **at = &pod->node->pods;

	if (pod->listener.fd >= 0 || pod->endpoints || pod->processes)
		return;
	while (*at != pod)
		at = &(*at)->next;
	*at = pod->next;
	ring_charges_pod_gone(&pod->node->ring_charges, pod->quota);
	quota_put(pod->quota);
	pod_thread_put(pod->thread);
	free(pod);
}

static void socket_close(struct pod *pod)
{
	if (pod->listener.fd < 0)
		return;
	events_remove(pod->node->events, &pod->listener);
	if (pod->listener_rests)
		pod->node->listeners_resting--;
	pod->listener_rests = false;
	/* With connections that were not accepted, and what was sent on them. */
	pod_thread_close(pod->thread, pod->listener.fd);
	unlink(pod->socket_path);
	pod->listener.fd = -1;
	pod->node->socket_count--;
	while (pod->processes)
		process_close(pod->processes);
}

static int socket_open(struct pod *pod, const char *path, struct refusal *refusal)
{
	int fd;
	int err = unix_listen(path, APP_SOCKET_MODE, &fd);

	if (err)
		return refuse(refusal, "path", "%s: %s", path, unix_listen_advice(err));
	pod->listener = (struct event_source){.fd = fd, .readable = process_accept, .owner = pod};
	err = events_add(pod->node->events, &pod->listener);
	if (err) {
		close(fd);
		unlink(path);
		pod->listener.fd = -1;
		return refuse(refusal, "path", "%s: cannot be watched: %s", path, strerror(-err));
	}
	snprintf(pod->socket_path, sizeof(pod->socket_path), "%s", path);
	pod->node->socket_count++;
	return 0;
}

int node_socket_add(struct node *node, const char *identity, const char *path, struct refusal *refusal)
{
	struct pod *pod;
	int err;

	if (path[0] != '/')
		return refuse(refusal, "path", "%s: not an absolute path; begin it with /", path);
	pod = pod_get(node, identity);
	if (!pod)
		return pod_refuse(node, identity, refusal);
	if (pod->listener.fd >= 0) {
		if (strcmp(pod->socket_path, path) == 0)
			return 0;
		return refuse(refusal, "path", "%s has its socket at %s already; remove that one first",
			      identity, pod->socket_path);
	}
	err = socket_open(pod, path, refusal);
	if (err)
		pod_unlink_if_empty(pod);
	return err;
}

int node_socket_take_over(struct node *node, const char *identity, const char *path, int fd)
{
	struct pod *pod = fd < 0 ? NULL : pod_get(node, identity);
	int err;

	if (!pod)
		return -ENOMEM;
	pod->listener = (struct event_source){.fd = fd, .readable = process_accept, .owner = pod};
	err = events_add(node->events, &pod->listener);
	if (err) {
		pod->listener.fd = -1;
		pod_unlink_if_empty(pod);
		return err;
	}
	snprintf(pod->socket_path, sizeof(pod->socket_path), "%s", path);
	node->socket_count++;
	return 0;
}

int node_socket_del(struct node *node, const char *identity)
{
	struct pod *pod = pod_find(node, identity);

	if (!pod)
		return 0;
	socket_close(pod);
	pod_unlink_if_empty(pod);
	return 0;
}

int node_pod_name_set(struct node *node, const char *identity, const char *name, struct refusal *refusal)
{
	struct pod *pod = pod_find(node, identity);

	if (!pod)
		return refuse(refusal, "identity",
			      "%s: no pod of that identity is here; add its socket or an endpoint first",
			      identity);
	snprintf(pod->name, sizeof(pod->name), "%s", name);
	snprintf(pod->called, sizeof(pod->called), "%s (%s)", name, identity);
	return 0;
}

static struct endpoint *endpoint_find(const struct pod *pod, const char *interface)
{
	struct endpoint *endpoint = pod->endpoints;

	while (endpoint && strcmp(endpoint->interface, interface) != 0)
		endpoint = endpoint->next;
	return endpoint;
}

static int link_read(struct endpoint *endpoint, const char *netns, struct refusal *refusal)
{
	struct rtnl_link link;
	int err = rtnl_link_get(endpoint->ns->rtnl, endpoint->interface, &link);

	if (err)
		return refuse(refusal, "interface", "%s: %s in %s; create the pod's interface first",
			      endpoint->interface, strerror(-err), netns);
	if (!link.ethernet)
		return refuse(refusal, "interface",
			      "%s is not an Ethernet interface; use one end of a veth pair",
			      endpoint->interface);
	if (link.mtu_bytes < ENDPOINT_MTU_MIN_BYTES)
		return refuse(refusal, "interface", "%s has an MTU of %u; IPv4 needs at least %d",
			      endpoint->interface, link.mtu_bytes, ENDPOINT_MTU_MIN_BYTES);
	endpoint->link_index = link.index;
	endpoint->port_link_index = (uint32_t)link.peer_index;
	endpoint->mtu_bytes = link.mtu_bytes;
	memcpy(endpoint->mac, link.mac, sizeof(endpoint->mac));
	return 0;
}

/* They may come after the interface, and change. */
static void addresses_read(struct endpoint *endpoint)
{
	int count = rtnl_addresses_get(endpoint->ns->rtnl, endpoint->link_index, endpoint->addresses,
				       ENDPOINT_ADDRESSES_MAX);

	endpoint->address_count = count > 0 ? (uint32_t)count : 0;
	endpoint->addresses_stale = count < 0;
}

static int bridge_read(struct endpoint *endpoint, const struct node *node, const char *bridge,
		       struct refusal *refusal)
{
	struct rtnl_link link;
	int err;

	if (!*bridge)
		return 0;
	err = rtnl_link_get(node->own_ns->rtnl, bridge, &link);
	if (err)
		return refuse(refusal, "bridge",
			      "%s: %s; create the bridge of the network first, in ktsnd's namespace", bridge,
			      strerror(-err));
	snprintf(endpoint->bridge, sizeof(endpoint->bridge), "%s", bridge);
	endpoint->bridge_link_index = (uint32_t)link.index;
	return 0;
}

static void endpoint_free(struct endpoint *endpoint)
{
	namespace_put(endpoint->ns);
	free(endpoint);
}

/* Open vSwitch keeps networks apart by VLAN tags of the same number. */
static int vni_check(const struct node *node, uint32_t vni, struct refusal *refusal)
{
	if (!node->uplink.switched || vni <= KTSN_VLAN_ID_MAX)
		return 0;
	return refuse(refusal, "vni",
		      "%u is too large for uplink ovs, which carries networks 1 to %d; give the network "
		      "another number",
		      vni, KTSN_VLAN_ID_MAX);
}

static int endpoint_make(struct node *node, const char *interface, const char *netns, uint32_t vni,
			 const char *bridge, struct endpoint **result, struct refusal *refusal)
{
	struct endpoint *endpoint;
	int err = vni_check(node, vni, refusal);

	if (err)
		return err;
	endpoint = calloc(1, sizeof(*endpoint));
	if (!endpoint)
		return -ENOMEM;
	snprintf(endpoint->interface, sizeof(endpoint->interface), "%s", interface);
	snprintf(endpoint->netns, sizeof(endpoint->netns), "%s", netns);
	endpoint->vni = vni;
	err = netns[0] == '/' ? namespace_get(node, netns, &endpoint->ns) : -EINVAL;
	err = err ? refuse(refusal, "netns", "%s: %s; give the path of the pod's network namespace", netns,
			   strerror(-err))
		  : link_read(endpoint, netns, refusal);
	if (!err)
		err = bridge_read(endpoint, node, bridge, refusal);
	if (err) {
		endpoint_free(endpoint);
		return err;
	}
	addresses_read(endpoint);
	*result = endpoint;
	return 0;
}

static bool endpoint_equal(const struct endpoint *a, const struct endpoint *b)
{
	return a->ns == b->ns && a->vni == b->vni && a->link_index == b->link_index &&
	       a->bridge_link_index == b->bridge_link_index;
}

int node_endpoint_add(struct node *node, const char *identity, const char *interface, const char *netns,
		      uint32_t vni, const char *bridge, struct refusal *refusal)
{
	struct endpoint *endpoint, *existing;
	struct pod *pod;
	int err = endpoint_make(node, interface, netns, vni, bridge, &endpoint, refusal);

	if (err)
		return err;
	pod = pod_get(node, identity);
	if (!pod) {
		endpoint_free(endpoint);
		return pod_refuse(node, identity, refusal);
	}
	existing = endpoint_find(pod, interface);
	if (existing) {
		bool same = endpoint_equal(existing, endpoint);

		endpoint_free(endpoint);
		return same ? 0
			    : refuse(refusal, "interface",
				     "%s has an endpoint %s with another namespace or network already; "
				     "remove "
				     "that one first",
				     identity, interface);
	}
	endpoint->next = pod->endpoints;
	pod->endpoints = endpoint;
	node->endpoint_count++;
	pod_limits_apply(pod);
	return 0;
}

static bool endpoint_has(struct endpoint *endpoint, const struct ktsn_address *address)
{
	if (endpoint->addresses_stale)
		addresses_read(endpoint);
	for (uint32_t i = 0; i < endpoint->address_count; i++)
		if (ktsn_address_equal(&endpoint->addresses[i], address))
			return true;
	return false;
}

const struct endpoint *node_endpoint_of(struct node *node, uint32_t vni, const struct ktsn_address *address)
{
	for (struct pod *pod = node->pods; pod; pod = pod->next)
		for (struct endpoint *endpoint = pod->endpoints; endpoint; endpoint = endpoint->next)
			if (endpoint->vni == vni && endpoint_has(endpoint, address))
				return endpoint;
	return NULL;
}

const struct endpoint *node_endpoint_of_mac(const struct node *node, uint32_t vni, const uint8_t mac[6])
{
	for (const struct pod *pod = node->pods; pod; pod = pod->next)
		for (const struct endpoint *endpoint = pod->endpoints; endpoint; endpoint = endpoint->next)
			if (endpoint->vni == vni && memcmp(endpoint->mac, mac, sizeof(endpoint->mac)) == 0)
				return endpoint;
	return NULL;
}

struct endpoint *node_endpoint_at(const struct node *node, const struct namespace *ns, int link_index)
{
	for (struct pod *pod = node->pods; pod; pod = pod->next)
		for (struct endpoint *endpoint = pod->endpoints; endpoint; endpoint = endpoint->next)
			if (endpoint->ns == ns && endpoint->link_index == link_index)
				return endpoint;
	return NULL;
}

void node_addresses_changed(struct node *node, const struct namespace *ns, int link_index)
{
	for (struct pod *pod = node->pods; pod; pod = pod->next)
		for (struct endpoint *endpoint = pod->endpoints; endpoint; endpoint = endpoint->next)
			if (endpoint->ns == ns && (!link_index || endpoint->link_index == link_index))
				endpoint->addresses_stale = true;
}

static void endpoint_remove(struct pod *pod, struct endpoint *endpoint)
{
	struct endpoint **at = &pod->endpoints;

	while (*at != endpoint)
		at = &(*at)->next;
	*at = endpoint->next;
	pod->node->endpoint_count--;
	destinations_endpoint_gone(pod->node, endpoint);
	endpoint_free(endpoint);
}

int node_endpoint_del(struct node *node, const char *identity, const char *interface)
{
	struct pod *pod = pod_find(node, identity);
	struct endpoint *endpoint = pod ? endpoint_find(pod, interface) : NULL;

	if (!endpoint)
		return 0;
	endpoint_remove(pod, endpoint);
	pod_limits_apply(pod);
	pod_unlink_if_empty(pod);
	return 0;
}

void pod_free(struct pod *pod)
{
	socket_close(pod);
	while (pod->processes)
		process_close(pod->processes);
	while (pod->endpoints)
		endpoint_remove(pod, pod->endpoints);
	pod_unlink_if_empty(pod);
}
