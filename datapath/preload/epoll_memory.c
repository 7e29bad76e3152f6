/* SPDX-License-Identifier: Apache-2.0 */
#include "epoll_memory.h"

#include "kernel.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

/* Two levels, as flow_table.c. */
enum { PAGE_ENTRIES = 1024, PAGES = 1024 };

enum { WRITING = -1, NONE = 0 };

struct note {
	_Atomic int32_t set; /* the set's descriptor + 1, NONE, or WRITING while somebody changes the rest */
	_Atomic uint32_t events;
	_Atomic uint64_t data;
};

static _Atomic(struct note *) pages[PAGES];

static struct note *page_make(int page)
{
	const size_t bytes = PAGE_ENTRIES * sizeof(struct note);
	struct note *there = NULL, *fresh;
	long address = kernel_call(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				   -1, 0L);

	if (address < 0 && address > -4096)
		return NULL;
	fresh = (struct note *)address;
	/* Release pairs with the acquire in note_of(): the page is all zero before it is seen. */
	if (atomic_compare_exchange_strong_explicit(&pages[page], &there, fresh, memory_order_acq_rel,
						    memory_order_acquire))
		return fresh;
	(void)kernel_call(SYS_munmap, fresh, bytes);
	return there;
}

static struct note *note_of(int fd, bool make)
{
	struct note *page;

	if (fd < 0 || fd >= PAGES * PAGE_ENTRIES)
		return NULL;
	page = atomic_load_explicit(&pages[fd / PAGE_ENTRIES], memory_order_acquire);
	if (!page && make)
		page = page_make(fd / PAGE_ENTRIES);
	return page ? &page[fd % PAGE_ENTRIES] : NULL;
}

/* The usual case of a change: who waits once arms it again and again. */
static bool noted_already(const struct note *note, int epoll_fd, const struct epoll_event *event)
{
	return atomic_load_explicit(&note->set, memory_order_acquire) == epoll_fd + 1 &&
	       atomic_load_explicit(&note->events, memory_order_relaxed) == event->events &&
	       atomic_load_explicit(&note->data, memory_order_relaxed) == event->data.u64;
}

void epoll_note(int epoll_fd, int fd, const struct epoll_event *event)
{
	struct note *note = note_of(fd, true);

	if (!note || noted_already(note, epoll_fd, event))
		return;
	/* Who comes while another writes has lost: the two put it into sets at the same time. */
	if (atomic_exchange_explicit(&note->set, WRITING, memory_order_acquire) == WRITING)
		return;
	atomic_store_explicit(&note->events, event->events, memory_order_relaxed);
	atomic_store_explicit(&note->data, event->data.u64, memory_order_relaxed);
	atomic_store_explicit(&note->set, epoll_fd + 1, memory_order_release);
}

bool epoll_noted(int fd, int *epoll_fd, struct epoll_event *event)
{
	struct note *note = note_of(fd, false);
	int32_t set = note ? atomic_load_explicit(&note->set, memory_order_acquire) : NONE;

	if (set == NONE || set == WRITING)
		return false;
	event->events = atomic_load_explicit(&note->events, memory_order_relaxed);
	event->data.u64 = atomic_load_explicit(&note->data, memory_order_relaxed);
	/* Written anew meanwhile, perhaps for another set. */
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&note->set, memory_order_relaxed) != set)
		return false;
	*epoll_fd = set - 1;
	return true;
}
