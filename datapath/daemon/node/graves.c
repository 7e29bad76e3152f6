/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects that the loop retired. Commands that were under way when they came back may still name them, so they
 * rest here until the loop has executed those; commands that come later name them no more.
 */
#include "node.h"

#include <stdlib.h>

struct grave {
	enum loop_object_kind kind;
	void *owner;
	uint32_t mark;
	struct grave *next;
};

static void object_free(struct node *node, enum loop_object_kind kind, void *owner)
{
	switch (kind) {
	case LOOP_RING:
		process_free(node, owner);
		break;
	case LOOP_FLOW:
		flow_free(owner);
		break;
	case LOOP_DESTINATION:
		destination_free(owner);
		break;
	case LOOP_GATES:
	case LOOP_REPLICATION:
		free(owner);
		break;
	}
}

/* From here on no new command must name the object: the mark covers those that do already. */
static void object_detach(enum loop_object_kind kind, void *owner)
{
	if (kind == LOOP_DESTINATION)
		destination_detach(owner);
	else if (kind == LOOP_RING)
		process_destinations_detach(owner);
}

/* Appended: a flow's grave is emptied before its ring's. */
static void bury(struct node *node, const struct loop_object *object)
{
	struct grave *grave = malloc(sizeof(*grave));
	struct grave **last = &node->graves;

	object_detach(object->kind, object->owner);
	if (!grave)
		return; /* a leak is the lesser evil */
	*grave = (struct grave){
		.kind = object->kind, .owner = object->owner, .mark = loop_commands_mark(node->loop)};
	while (*last)
		last = &(*last)->next;
	*last = grave;
}

void graves_retired(struct event_source *source)
{
	struct node *node = source->owner;
	struct loop_object *object = loop_retired(node->loop);

	while (object) {
		struct loop_object *next = object->next;

		bury(node, object);
		object = next;
	}
}

static void first_empty(struct node *node)
{
	struct grave *grave = node->graves;

	node->graves = grave->next;
	object_free(node, grave->kind, grave->owner);
	free(grave);
}

void graves_sweep(struct node *node)
{
	/* A flow that was retired may still be on the list of those to be woken. */
	if (node->graves)
		wakes_serve(node);
	while (node->graves && loop_commands_passed(node->loop, node->graves->mark))
		first_empty(node);
}

void graves_free_all(struct node *node)
{
	graves_retired(&node->retired);
	wakes_serve(node);
	while (node->graves)
		first_empty(node);
}
