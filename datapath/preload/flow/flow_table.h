/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of flows by descriptor.
 *
 * Used by any thread. The look-up of a descriptor without SO_TXTIME costs two loads. Flows are in memory that
 * is never unmapped; a use count keeps a flow from being reused while a thread still sends through it.
 */
#ifndef KTSN_PRELOAD_FLOW_TABLE_H
#define KTSN_PRELOAD_FLOW_TABLE_H

#include "flow.h"

#include <poll.h>
#include <stddef.h>

/* flow_acquire returns the flow of a descriptor, which the caller releases with flow_release(); NULL when it
 * has none. */
struct flow *flow_acquire(int fd);
/* flow_release ends a use. Returns true if it was the last one: the socket has been closed, and the caller
 * ends the flow (calls/flow_end.h). */
bool flow_release(struct flow *flow);
/* flow_dispose frees a flow that is not used any more. */
void flow_dispose(struct flow *flow);

/* flow_ended_take returns a flow whose last use ended in flow_each() or flow_acquire(), whose callers may
 * hold locks. The caller ends and disposes of it. NULL, in most cases, when there is none. */
struct flow *flow_ended_take(void);

/* flow_create returns an acquired flow, which the caller fills in and then enters with flow_share(). NULL
 * without memory. */
struct flow *flow_create(void);

/* flow_share enters an acquired flow for a descriptor of its socket. 0, -ENOMEM, or -EEXIST when the
 * descriptor has a flow, because another thread was faster. The flow stays acquired. */
int flow_share(struct flow *flow, int fd);

/* flow_remove removes the descriptor's flow from the table. Returns it acquired, or NULL. */
struct flow *flow_remove(int fd);

/* flow_each calls `visit` for each entry of the table with an acquired flow. `visit` releases it and returns
 * the result of flow_release(). */
void flow_each(bool (*visit)(int fd, struct flow *flow, void *context), void *context);

/* flows_forked resets, in the child right after fork, the locks that other threads of the parent held. */
void flows_forked(void);

/* The table, for the two functions below, which run in each call of the application. It has two levels, for
 * 1,048,576 descriptors (the kernel's default nr_open). */
enum { FLOW_PAGE_ENTRIES = 1024, FLOW_PAGES = 1024 };
extern _Atomic(_Atomic(struct flow *) *) flow_pages[FLOW_PAGES];
extern _Atomic bool flow_entered;

/* flows_any returns whether any descriptor ever had a flow. It is cheaper than flow_known(). */
static inline bool flows_any(void)
{
	return atomic_load_explicit(&flow_entered, memory_order_relaxed);
}

static inline _Atomic(struct flow *) *flow_entry(int fd)
{
	_Atomic(struct flow *) *page;

	if (fd < 0 || fd >= FLOW_PAGES * FLOW_PAGE_ENTRIES)
		return NULL;
	page = atomic_load_explicit(&flow_pages[fd / FLOW_PAGE_ENTRIES], memory_order_acquire);
	return page ? &page[fd % FLOW_PAGE_ENTRIES] : NULL;
}

/* flow_known returns whether the descriptor has a flow. */
static inline bool flow_known(int fd)
{
	_Atomic(struct flow *) *entry = flow_entry(fd);

	return entry && atomic_load_explicit(entry, memory_order_relaxed);
}

/* flows_any_polled returns whether any of the descriptors has a flow. Neither inline nor const: the C library
 * declares that poll() only writes its list, and the compiler relies on that. */
bool flows_any_polled(struct pollfd *fds, nfds_t count);

#endif
