/* SPDX-License-Identifier: Apache-2.0 */
#include "deferred_free.h"

#include "associations.h"
#include "bridge_receivers.h"
#include "commands.h"
#include "flow_notifications.h"
#include "flows.h"
#include "processes.h"

#include <stdlib.h>

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

/* Appended: a flow is freed before its ring. */
static void defer(struct node *node, const struct loop_object *object)
{
	struct deferred_free *deferred = malloc(sizeof(*deferred));
	struct deferred_free **last = &node->deferred;

	/* From here on no new command must name the object: the mark covers those that do already. */
	if (object->kind == LOOP_DESTINATION)
		destination_detach(object->owner);
	else if (object->kind == LOOP_RING)
		destination_table_detach(&((struct process *)object->owner)->destinations);
	if (!deferred)
		return; /* a leak is the lesser evil */
	*deferred = (struct deferred_free){
		.kind = object->kind, .owner = object->owner, .mark = loop_commands_mark(node->loop)};
	while (*last)
		last = &(*last)->next;
	*last = deferred;
}

void deferred_free_take(struct node *node)
{
	struct loop_object *object = loop_retired(node->loop);

	while (object) {
		struct loop_object *next = object->next;

		defer(node, object);
		object = next;
	}
}

static void first_free(struct node *node)
{
	struct deferred_free *deferred = node->deferred;

	node->deferred = deferred->next;
	object_free(node, deferred->kind, deferred->owner);
	free(deferred);
}

void deferred_free_run(struct node *node)
{
	/* A retired flow may still be in the loop's list of notifications: take it from there. */
	if (node->deferred)
		notifications_serve(node);
	while (node->deferred && loop_commands_passed(node->loop, node->deferred->mark))
		first_free(node);
}

void deferred_free_all(struct node *node)
{
	deferred_free_take(node);
	notifications_serve(node);
	while (node->deferred) {
		first_free(node);
		/* Its end may be that of others. */
		if (!node->deferred)
			deferred_free_take(node);
	}
}
