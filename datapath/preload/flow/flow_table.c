/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_table.h"

#include "memory.h"

#include <errno.h>
#include <string.h>

enum { CHUNK_BYTES = 64 * 1024 };

_Atomic(_Atomic(struct flow *) *) flow_pages[FLOW_PAGES];
_Atomic bool flow_entered;
static struct lock pool_lock;
static struct flow *free_flows;
static _Atomic(struct flow *) ended_flows; /* changed under the lock */

static _Atomic(struct flow *) *entry_make(int fd)
{
	_Atomic(struct flow *) *page;
	void *memory;

	if (fd < 0 || fd >= FLOW_PAGES * FLOW_PAGE_ENTRIES)
		return NULL;
	lock_take(&pool_lock);
	page = atomic_load_explicit(&flow_pages[fd / FLOW_PAGE_ENTRIES], memory_order_relaxed);
	if (!page && memory_map(FLOW_PAGE_ENTRIES * sizeof(*page), &memory) == 0) {
		page = memory;
		/* Release pairs with the acquire in flow_entry(): the page is all zero before it is seen. */
		atomic_store_explicit(&flow_pages[fd / FLOW_PAGE_ENTRIES], page, memory_order_release);
	}
	lock_give(&pool_lock);
	return page ? &page[fd % FLOW_PAGE_ENTRIES] : NULL;
}

static void pool_fill(void)
{
	struct flow *chunk;
	void *memory;

	if (memory_map(CHUNK_BYTES, &memory))
		return;
	chunk = memory;
	for (size_t i = 0; i < CHUNK_BYTES / sizeof(*chunk); i++) {
		chunk[i].next_free = free_flows;
		free_flows = &chunk[i];
	}
}

static struct flow *pool_take(void)
{
	struct flow *flow;

	lock_take(&pool_lock);
	if (!free_flows)
		pool_fill();
	flow = free_flows;
	if (flow)
		free_flows = flow->next_free;
	lock_give(&pool_lock);
	return flow;
}

/* For flow_ended_take(): the end of a flow takes locks, which the caller may hold. */
static void ended_add(struct flow *flow)
{
	lock_take(&pool_lock);
	flow->next_free = atomic_load_explicit(&ended_flows, memory_order_relaxed);
	atomic_store_explicit(&ended_flows, flow, memory_order_relaxed);
	lock_give(&pool_lock);
}

struct flow *flow_ended_take(void)
{
	struct flow *flow;

	/* There is almost never one. */
	if (!atomic_load_explicit(&ended_flows, memory_order_relaxed))
		return NULL;
	lock_take(&pool_lock);
	flow = atomic_load_explicit(&ended_flows, memory_order_relaxed);
	if (flow)
		atomic_store_explicit(&ended_flows, flow->next_free, memory_order_relaxed);
	lock_give(&pool_lock);
	return flow;
}

/* Raises the count unless it is 0: then the flow has been freed. */
static bool use_count_raise(struct flow *flow)
{
	uint32_t users = atomic_load_explicit(&flow->users, memory_order_relaxed);

	while (users)
		if (atomic_compare_exchange_weak_explicit(&flow->users, &users, users + 1,
							  memory_order_seq_cst, memory_order_relaxed))
			return true;
	return false;
}

struct flow *flow_acquire(int fd)
{
	_Atomic(struct flow *) *entry = flow_entry(fd);
	struct flow *flow;

	if (!entry)
		return NULL;
	while ((flow = atomic_load_explicit(entry, memory_order_acquire))) {
		if (!use_count_raise(flow))
			continue;
		/* The flow may have been freed and taken for another socket in between; the table knows. */
		if (atomic_load_explicit(entry, memory_order_seq_cst) == flow)
			return flow;
		if (flow_release(flow))
			ended_add(flow);
	}
	return NULL;
}

bool flow_release(struct flow *flow)
{
	return atomic_fetch_sub_explicit(&flow->users, 1, memory_order_acq_rel) == 1;
}

void flow_dispose(struct flow *flow)
{
	lock_take(&pool_lock);
	flow->next_free = free_flows;
	free_flows = flow;
	lock_give(&pool_lock);
}

static void flow_reset(struct flow *flow)
{
	lock_reset(&flow->lock);
	atomic_store_explicit(&flow->session, 0, memory_order_relaxed);
	flow->number_session = 0;
	flow->connection = 0;
	flow->left_to_kernel = false;
	flow->adoption_pending = false;
	flow->without_endpoint = false;
	flow->refused = false;
	flow->kernel_knows = false;
	flow->txtime_flags = 0;
	flow->cookie = 0;
	flow->clock = KTSN_CLOCK_REALTIME;
	flow->multicast_interface = 0;
	datagram_options_reset(&flow->options);
	memset(&flow->destinations.connected, 0, sizeof(flow->destinations.connected));
	memset(flow->destinations.others, 0, sizeof(flow->destinations.others));
	flow->destinations.others_next = 0;
	atomic_store_explicit(&flow->sent_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&flow->released_seen, 0, memory_order_relaxed);
	atomic_store_explicit(&flow->send_buffer_bytes, 0, memory_order_relaxed);
	atomic_store_explicit(&flow->write_shut_down, false, memory_order_relaxed);
	atomic_store_explicit(&flow->error_looked_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&flow->asked_again_ns, 0, memory_order_relaxed);
	poll_state_reset(&flow->poll_state);
	cork_reset(&flow->cork);
}

struct flow *flow_create(void)
{
	struct flow *flow = pool_take();

	if (!flow)
		return NULL;
	flow_reset(flow);
	atomic_store_explicit(&flow->users, 1, memory_order_relaxed);
	return flow;
}

int flow_share(struct flow *flow, int fd)
{
	_Atomic(struct flow *) *entry = entry_make(fd);
	struct flow *none = NULL;

	if (!entry)
		return -ENOMEM;
	atomic_fetch_add_explicit(&flow->users, 1, memory_order_relaxed);
	/* Release pairs with the acquire in flow_acquire(): the flow is filled in before it is seen. */
	if (!atomic_compare_exchange_strong_explicit(entry, &none, flow, memory_order_release,
						     memory_order_relaxed)) {
		(void)flow_release(flow); /* not the last use: the caller's use remains */
		return -EEXIST;
	}
	atomic_store_explicit(&flow_entered, true, memory_order_relaxed);
	return 0;
}

static void page_each(int page, bool (*visit)(int fd, struct flow *flow, void *context), void *context)
{
	for (int i = 0; i < FLOW_PAGE_ENTRIES; i++) {
		int fd = page * FLOW_PAGE_ENTRIES + i;
		struct flow *flow = flow_acquire(fd);

		if (!flow)
			continue;
		if (visit(fd, flow, context))
			ended_add(flow);
	}
}

void flow_each(bool (*visit)(int fd, struct flow *flow, void *context), void *context)
{
	for (int page = 0; page < FLOW_PAGES; page++)
		if (atomic_load_explicit(&flow_pages[page], memory_order_acquire))
			page_each(page, visit, context);
}

static bool flow_unlock(int fd, struct flow *flow, void *context)
{
	(void)fd;
	(void)context;
	lock_reset(&flow->lock);
	lock_reset(&flow->poll_state.lock);
	cork_forked(&flow->cork);
	return flow_release(flow);
}

void flows_forked(void)
{
	lock_reset(&pool_lock);
	flow_each(flow_unlock, NULL);
}

bool flows_any_polled(struct pollfd *fds, nfds_t count)
{
	if (!flows_any())
		return false;
	for (nfds_t i = 0; i < count; i++)
		if (flow_known(fds[i].fd))
			return true;
	return false;
}

struct flow *flow_remove(int fd)
{
	_Atomic(struct flow *) *entry = flow_entry(fd);

	/* The table's reference becomes the caller's. */
	return !entry ? NULL : atomic_exchange_explicit(entry, NULL, memory_order_acq_rel);
}
