/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flow of each descriptor.
 *
 * Any thread. The look-up of a descriptor that never asked for SO_TXTIME costs two loads. Flows live in
 * memory that is never unmapped; a use count keeps one from being reused while a thread still sends through
 * it.
 */
#ifndef KTSN_PRELOAD_FLOW_TABLE_H
#define KTSN_PRELOAD_FLOW_TABLE_H

#include "flow.h"

#include <poll.h>
#include <stddef.h>

/* The flow of a descriptor, to be given back by flow_release(); NULL when it has none. */
struct flow *flow_acquire(int fd);
/* True when it was the last use: the socket has been closed, and the flow is to be ended
 * (calls/flow_end.h). */
bool flow_release(struct flow *flow);
/* Gives back the memory of a flow that nobody uses any more. */
void flow_dispose(struct flow *flow);

/* A flow whose last use ended in flow_each() or flow_acquire(), whose callers may hold locks: to be ended and
 * disposed of. NULL: none, as nearly always. */
struct flow *flow_ended_take(void);

/* Makes a flow for the caller to fill in and then enter by flow_share(). Acquired, as by flow_acquire(). NULL
 * without memory. */
struct flow *flow_create(void);

/* Enters an acquired flow for a descriptor of its socket. 0, -ENOMEM, or -EEXIST when the descriptor has a
 * flow: another thread may have been faster. The caller still holds the flow. */
int flow_share(struct flow *flow, int fd);

/* Takes the descriptor's flow out of the table; acquired, or NULL. */
struct flow *flow_remove(int fd);

/* Calls `visit` for each entry of the table with an acquired flow, which `visit` gives back. `visit` returns
 * what flow_release() said. */
void flow_each(bool (*visit)(int fd, struct flow *flow, void *context), void *context);

/* In the child, right after fork: resets the locks that other threads of the parent held. */
void flows_forked(void);

/* The table, for the two functions below, which every call of the application pays. Two levels: 1,048,576
 * descriptors (the kernel's default nr_open), a page of pointers at a time. */
enum { FLOW_PAGE_ENTRIES = 1024, FLOW_PAGES = 1024 };
extern _Atomic(_Atomic(struct flow *) *) flow_pages[FLOW_PAGES];
extern _Atomic bool flow_entered;

/* Whether any descriptor ever had a flow. Cheaper still than flow_known(). */
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

/* Whether the descriptor has a flow. */
static inline bool flow_known(int fd)
{
	_Atomic(struct flow *) *entry = flow_entry(fd);

	return entry && atomic_load_explicit(entry, memory_order_relaxed);
}

/* Whether any of the descriptors has a flow. Neither inline nor const: the C library declares that poll()
 * only writes its list, and the compiler believes that. */
bool flows_any_polled(struct pollfd *fds, nfds_t count);

#endif
