/* SPDX-License-Identifier: Apache-2.0 */
#include "epoll_record.h"

#include "kernel.h"
#include "memory.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

/* Two levels, as flow_table.c. */
enum { PAGE_ENTRIES = 1024, PAGES = 1024 };

enum { WRITING = -1, NONE = 0 };

struct record {
	_Atomic int32_t set; /* the set's descriptor + 1, NONE, or WRITING while a thread changes the rest */
	_Atomic uint32_t events;
	_Atomic uint64_t data;
};

static _Atomic(struct record *) pages[PAGES];
static _Atomic uint32_t unseen_mark;

static struct record *page_make(int page)
{
	const size_t bytes = PAGE_ENTRIES * sizeof(struct record);
	struct record *there = NULL;
	void *fresh;

	if (memory_map(bytes, &fresh))
		return NULL;
	/* Release pairs with the acquire in record_of(): the page is all zero before it is seen. */
	if (atomic_compare_exchange_strong_explicit(&pages[page], &there, fresh, memory_order_acq_rel,
						    memory_order_acquire))
		return fresh;
	memory_unmap(fresh, bytes);
	return there;
}

static struct record *record_of(int fd, bool make)
{
	struct record *page;

	if (fd < 0 || fd >= PAGES * PAGE_ENTRIES)
		return NULL;
	page = atomic_load_explicit(&pages[fd / PAGE_ENTRIES], memory_order_acquire);
	if (!page && make)
		page = page_make(fd / PAGE_ENTRIES);
	return page ? &page[fd % PAGE_ENTRIES] : NULL;
}

/* The usual case: a user of EPOLLONESHOT arms the descriptor again and again. */
static bool recorded_already(const struct record *record, int epoll_fd, const struct epoll_event *event)
{
	return atomic_load_explicit(&record->set, memory_order_acquire) == epoll_fd + 1 &&
	       atomic_load_explicit(&record->events, memory_order_relaxed) == event->events &&
	       atomic_load_explicit(&record->data, memory_order_relaxed) == event->data.u64;
}

void epoll_record_put(int epoll_fd, int fd, const struct epoll_event *event)
{
	struct record *record = record_of(fd, true);

	if (!record || recorded_already(record, epoll_fd, event))
		return;
	/* Two threads add the descriptor at the same time: the second one's record is lost. */
	if (atomic_exchange_explicit(&record->set, WRITING, memory_order_acquire) == WRITING)
		return;
	atomic_store_explicit(&record->events, event->events, memory_order_relaxed);
	atomic_store_explicit(&record->data, event->data.u64, memory_order_relaxed);
	atomic_store_explicit(&record->set, epoll_fd + 1, memory_order_release);
}

bool epoll_record_get(int fd, int *epoll_fd, struct epoll_event *event)
{
	struct record *record = record_of(fd, false);
	int32_t set = record ? atomic_load_explicit(&record->set, memory_order_acquire) : NONE;

	if (set == NONE || set == WRITING)
		return false;
	event->events = atomic_load_explicit(&record->events, memory_order_relaxed);
	event->data.u64 = atomic_load_explicit(&record->data, memory_order_relaxed);
	/* The record may have been written again meanwhile, perhaps for another set. */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&record->set, memory_order_relaxed) != set)
		return false;
	*epoll_fd = set - 1;
	return true;
}

bool epoll_unseen(void)
{
	return atomic_load_explicit(&unseen_mark, memory_order_relaxed);
}

bool epoll_unseen_ordered(void)
{
	return atomic_fetch_or_explicit(&unseen_mark, 0, memory_order_acq_rel);
}

void epoll_unseen_set(void)
{
	/* A read-modify-write, as in epoll_unseen_ordered(): whichever comes second sees what the first
	 * thread did before. */
	(void)atomic_exchange_explicit(&unseen_mark, 1, memory_order_acq_rel);
}

bool epoll_has(int epoll_fd, int fd)
{
	struct epoll_event nothing = {.events = 0};
	long err = kernel_call(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_ADD, fd, &nothing);

	if (err == 0)
		(void)kernel_call(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	return err == -EEXIST;
}
