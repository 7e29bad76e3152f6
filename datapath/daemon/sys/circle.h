/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has turns, in a circle. It is a pointer to whose turn it is, NULL: nobody's. Nothing is allocated: the places are in
 * those who take turns.
 */
#ifndef KTSN_DAEMON_CIRCLE_H
#define KTSN_DAEMON_CIRCLE_H

#include <stddef.h>

/* A place in a circle. */
struct circle_link {
	struct circle_link *next, *previous;
};

/* Its turn comes last. */
static inline void circle_add(struct circle_link **turn, struct circle_link *link)
{
	if (!*turn)
		*turn = link->next = link->previous = link;
	link->next = *turn;
	link->previous = (*turn)->previous;
	link->previous->next = link;
	(*turn)->previous = link;
}

static inline void circle_remove(struct circle_link **turn, const struct circle_link *link)
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
