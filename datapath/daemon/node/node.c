/* SPDX-License-Identifier: Apache-2.0 */
#include "node.h"

#include "doorbells.h"

#include <stdlib.h>
#include <string.h>

/* Sets for so many rings are made at once; others when there are more rings than ever before. */
enum { DOORBELLS_AT_ONCE = 64 };

int node_init(struct node *node, struct events *events, struct loop *loop, const struct node_uplink *uplink,
	      const struct node_shaping *shaping, const struct quota_limits *limits, uint32_t ring_slots,
	      uint64_t ring_bytes_max)
{
	int err;

	memset(node, 0, sizeof(*node));
	node->events = events;
	node->loop = loop;
	node->uplink = *uplink;
	node->uplink.mtu_bytes_max = uplink->mtu_bytes;
	node->ring_geometry = ktsn_ring_geometry_make(ring_slots, uplink->mtu_bytes);
	ring_charges_init(&node->ring_charges, ring_bytes_max);
	node->limits = *limits;
	node->retired =
		(struct event_source){.fd = loop_retired_fd(loop), .readable = graves_retired, .owner = node};
	node->wakes = (struct event_source){
		.fd = loop_notifications_fd(loop), .readable = wakes_readable, .owner = node};
	err = events_add(events, &node->retired);
	if (!err)
		err = events_add(events, &node->wakes);
	if (!err)
		err = doorbells_create(&node->doorbells, loop_epoll_fd(loop), DOORBELLS_AT_ONCE);
	if (!err)
		err = pod_threads_create(&node->threads, events);
	if (!err)
		err = namespace_get(node, NULL, &node->own_ns);
	if (!err)
		err = node_shaping_init(node, shaping);
	if (err) {
		pod_threads_destroy(node->threads);
		doorbells_destroy(node->doorbells);
		events_remove(events, &node->wakes);
		events_remove(events, &node->retired);
	}
	return err;
}

int node_tick(struct node *node)
{
	enum { GRAVES_MS = 10, LISTENERS_MS = 10, CONNECTIONS_MS = 2 };

	graves_sweep(node);
	listeners_wake(node);
	connections_wake(node);
	if (node->ports_changed) {
		node->ports_changed = false;
		destinations_ports_changed(node);
	}
	return events_earlier(
		events_earlier(neighbors_tick(node), node->graves ? GRAVES_MS : -1),
		events_earlier(node->listeners_resting ? LISTENERS_MS : -1,
			       events_earlier(node->connections_resting ? CONNECTIONS_MS : -1,
					      events_earlier(ring_charges_tick(&node->ring_charges),
							     mtus_tick(node)))));
}

void node_close(struct node *node)
{
	while (node->pods)
		pod_free(node->pods);
	while (node->peers)
		(void)node_peer_del(node, node->peers->vni, node->peers->address_be);
	node_network_limits_free(node);
}

void node_fini(struct node *node)
{
	graves_free_all(node);
	while (node->closing)
		process_free(node, node->closing);
	ring_charges_fini(&node->ring_charges);
	/* Pods that were handed over still have theirs, until ktsnd ends. */
	if (!node->pods)
		pod_threads_destroy(node->threads);
	doorbells_destroy(node->doorbells);
	free(node->shaping.gates);
	events_remove(node->events, &node->wakes);
	free(node->ports);
	events_remove(node->events, &node->retired);
	namespace_put(node->own_ns);
}
