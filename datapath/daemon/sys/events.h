/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread's event loop: descriptors and what to do when they are readable.
 *
 * One thread. A handler may remove any source, its own included. Part of sys: below all other modules.
 */
#ifndef KTSN_SYS_EVENTS_H
#define KTSN_SYS_EVENTS_H

struct events;

/* Embedded in the object that owns the descriptor; must exist until events_remove(). */
struct event_source {
	int fd;
	void (*readable)(struct event_source *source);
	void *owner;
	int watched; /* for events.c only */
};

int events_create(struct events **events);
void events_destroy(struct events *events);

/* 0 or -errno. */
int events_add(struct events *events, struct event_source *source);

/* Does not close the descriptor. Harmless for a source that was never added. */
void events_remove(struct events *events, struct event_source *source);

/* Discards the other events of this round; for a handler that hands the sources over. */
void events_forget_round(struct events *events);

/* Waits at most timeout_ms (-1: for ever) and calls the handlers. 0 or -errno. */
int events_run_once(struct events *events, int timeout_ms);

/* Returns the shorter of two timeouts; -1 is none. */
static inline int events_earlier(int a_ms, int b_ms)
{
	if (a_ms < 0 || b_ms < 0)
		return a_ms < 0 ? b_ms : a_ms;
	return a_ms < b_ms ? a_ms : b_ms;
}

#endif
