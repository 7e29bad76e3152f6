/* SPDX-License-Identifier: Apache-2.0 */
#include "node.h"

#include "associations.h"
#include "bridge_ports.h"
#include "clocks.h"
#include "commands.h"
#include "doorbells.h"
#include "flow_notifications.h"
#include "flows.h"
#include "node_state.h"
#include "pod_limits.h"
#include "pod_thread.h"
#include "pods.h"
#include "process_requests.h"
#include "processes.h"
#include "receive_maps.h"
#include "receiving.h"
#include "routing.h"
#include "shaping.h"

#include <stdlib.h>
#include <string.h>

/* Number of doorbell sets that are created in advance; more are added when there are more rings. */
enum { DOORBELLS_AT_ONCE = 64 };

/* ---- objects that the loop retired ----
 *
 * Commands that were queued when the loop returned an object may still name it, so it is kept until the loop
 * has executed them. Later commands do not name it. */

struct deferred_free {
	enum loop_object_kind kind;
	void *owner;
	uint32_t mark;
	struct deferred_free *next;
};

static void object_free(struct node *node, enum loop_object_kind kind, void *owner)
{
	switch (kind) {
	case LOOP_RING:
		process_free(node, owner);
		break;
	case LOOP_FLOW:
		notifications_forget(node, owner);
		flow_free(owner);
		break;
	case LOOP_DESTINATION:
		destination_free(owner);
		break;
	case LOOP_ASSOCIATION:
		association_free(owner);
		break;
	case LOOP_RECEIVER:
		bridge_receiver_free(&node->routing, owner);
		break;
	case LOOP_GATES:
	case LOOP_REPLICATION:
	case LOOP_SOURCES:
	case LOOP_ATTACHMENT:
		free(owner);
		break;
	}
}

/* Appends the object, because a flow must be freed before its ring. */
static void defer(struct node *node, const struct loop_object *object)
{
	struct deferred_free *deferred = malloc(sizeof(*deferred));
	struct deferred_free **last = &node->deferred;

	/* After this no new command names the object; the mark covers earlier commands. */
	if (object->kind == LOOP_DESTINATION)
		destination_detach(object->owner);
	else if (object->kind == LOOP_RING)
		destination_table_detach(&((struct process *)object->owner)->destinations);
	if (!deferred)
		return; /* leaks the object */
	*deferred = (struct deferred_free){
		.kind = object->kind, .owner = object->owner, .mark = loop_commands_mark(node->loop)};
	while (*last)
		last = &(*last)->next;
	*last = deferred;
}

static void deferred_free_take(struct node *node)
{
	struct loop_object *object = loop_retired(node->loop);

	while (object) {
		struct loop_object *next = object->next;

		defer(node, object);
		object = next;
	}
}

static void deferred_free_first(struct node *node)
{
	struct deferred_free *deferred = node->deferred;

	node->deferred = deferred->next;
	object_free(node, deferred->kind, deferred->owner);
	free(deferred);
}

static void deferred_free_run(struct node *node)
{
	/* A retired flow may still be in the loop's list of notifications: take it from there. */
	if (node->deferred)
		notifications_serve(node);
	while (node->deferred && loop_commands_passed(node->loop, node->deferred->mark))
		deferred_free_first(node);
}

static void deferred_free_all(struct node *node)
{
	deferred_free_take(node);
	notifications_serve(node);
	while (node->deferred) {
		deferred_free_first(node);
		/* Freeing it may retire other objects. */
		if (!node->deferred)
			deferred_free_take(node);
	}
}

/* ---- the node ---- */

static void retired_readable(struct event_source *source)
{
	deferred_free_take(source->owner);
}

static void notifications_readable(struct event_source *source)
{
	notifications_serve(source->owner);
}

int node_init(struct node *node, struct events *events, struct loop *loop, const struct uplink *uplink,
	      const struct node_shaping *shaping, const struct quota_limits *limits, uint32_t ring_slots,
	      uint64_t ring_bytes_max)
{
	int err;

	memset(node, 0, sizeof(*node));
	node->events = events;
	node->loop = loop;
	node->ring_geometry = ktsn_ring_geometry_make(ring_slots, uplink->mtu_bytes);
	ring_charges_init(&node->ring_charges, ring_bytes_max);
	node->limits = *limits;
	node->retired = (struct event_source){
		.fd = loop_retired_fd(loop), .readable = retired_readable, .owner = node};
	node->notifications = (struct event_source){
		.fd = loop_notifications_fd(loop), .readable = notifications_readable, .owner = node};
	err = events_add(events, &node->retired);
	if (!err)
		err = events_add(events, &node->notifications);
	if (!err)
		err = doorbells_create(&node->doorbells, loop_epoll_fd(loop), DOORBELLS_AT_ONCE);
	if (!err)
		err = pod_threads_create(&node->threads, events);
	if (!err)
		err = routing_init(&node->routing, loop, events, uplink);
	if (!err)
		err = node_shaping_init(node, shaping);
	if (!err)
		clock_steps_watch(&node->clocks.steps, events);
	if (!err)
		receiving_begin(node, RECEIVE_MAPS_FOLDER);
	if (err) {
		pod_threads_destroy(node->threads);
		doorbells_destroy(node->doorbells);
		events_remove(events, &node->notifications);
		events_remove(events, &node->retired);
	}
	return err;
}

int node_tick(struct node *node)
{
	enum { DEFERRED_MS = 10, LISTENERS_MS = 10, CONNECTIONS_MS = 2 };

	clock_steps_check(&node->clocks.steps);
	deferred_free_run(node);
	listeners_resume(node);
	connections_resume(node);
	return events_earlier(
		events_earlier(events_earlier(events_earlier(routing_tick(&node->routing), clocks_tick(node)),
					      events_earlier(receiving_tick(node), notifications_tick(node))),
			       node->deferred ? DEFERRED_MS : -1),
		events_earlier(node->listeners_paused ? LISTENERS_MS : -1,
			       events_earlier(node->connections_paused ? CONNECTIONS_MS : -1,
					      events_earlier(ring_charges_tick(&node->ring_charges),
							     pod_threads_tick(node->threads)))));
}

void node_close(struct node *node)
{
	while (node->pods)
		pod_free(node->pods);
	routing_close(&node->routing);
	node_network_limits_free(node);
	node_network_clocks_free(node);
}

void node_fini(struct node *node)
{
	bridge_receivers_close(&node->routing);
	deferred_free_all(node);
	while (node->closing)
		process_free(node, node->closing);
	deferred_free_all(node);
	ring_charges_fini(&node->ring_charges);
	/* A thread whose close() waits for a descriptor that a later work closes would outlive a killed
	 * ktsnd. */
	pod_threads_settle(node->threads);
	/* Pods that were handed over, or whose take-over failed, still use their threads until ktsnd ends. */
	if (!node->pods) {
		pod_threads_destroy(node->threads);
		doorbells_destroy(node->doorbells);
	}
	receiving_fini(node);
	free(node->shaping.gates);
	clock_steps_end(&node->clocks.steps, node->events);
	events_remove(node->events, &node->notifications);
	events_remove(node->events, &node->retired);
	routing_fini(&node->routing);
}
