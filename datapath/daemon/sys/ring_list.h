/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A circular list of objects that take turns. The head points to the entry whose turn it is; NULL is an empty
 * list. Entries are embedded in the objects. One thread at a time.
 */
#ifndef KTSN_SYS_RING_LIST_H
#define KTSN_SYS_RING_LIST_H

#include <stddef.h>

/* A place in a ring list. */
struct ring_list_link {
	struct ring_list_link *next, *previous;
};

/* Adds an entry whose turn comes last. */
static inline void ring_list_add(struct ring_list_link **turn, struct ring_list_link *link)
{
	if (!*turn)
		*turn = link->next = link->previous = link;
	link->next = *turn;
	link->previous = (*turn)->previous;
	link->previous->next = link;
	(*turn)->previous = link;
}

static inline void ring_list_remove(struct ring_list_link **turn, const struct ring_list_link *link)
{
	if (link->next == link) {
		*turn = NULL;
		return;
	}
	link->previous->next = link->next;
	link->next->previous = link->previous;
	if (*turn == link)
		*turn = link->next;
}

#endif
