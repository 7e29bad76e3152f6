/* SPDX-License-Identifier: Apache-2.0 */
#include "inbox_table.h"

#include "inbox_members.h"
#include "internal_fds.h"
#include "memory.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 * 1024 };

_Atomic int inboxes_state;

static _Atomic(struct inbox *) inboxes[INBOX_DESCRIPTORS];
static struct inbox refused; /* in the place of an inbox: the kernel serves the descriptor */
static struct lock pool_lock;
static struct inbox *free_inboxes;

int inboxes_state_read(void)
{
	const char *wanted = getenv("KTSN_RECEIVE");
	int state = wanted && strcmp(wanted, "ring") == 0 ? INBOXES_WANTED : INBOXES_NOT_WANTED;

	atomic_store_explicit(&inboxes_state, state, memory_order_relaxed);
	return state;
}

static _Atomic(struct inbox *) *entry_of(int fd)
{
	return fd < 0 || fd >= INBOX_DESCRIPTORS ? NULL : &inboxes[fd];
}

bool inbox_known(int fd)
{
	_Atomic(struct inbox *) *entry = entry_of(fd);

	return entry && atomic_load_explicit(entry, memory_order_relaxed);
}

const struct inbox *inbox_at(int fd)
{
	_Atomic(struct inbox *) *entry = entry_of(fd);

	return entry ? atomic_load_explicit(entry, memory_order_relaxed) : NULL;
}

static bool users_raise(struct inbox *inbox)
{
	uint32_t users = atomic_load_explicit(&inbox->users, memory_order_relaxed);

	while (users)
		if (atomic_compare_exchange_weak_explicit(&inbox->users, &users, users + 1,
							  memory_order_seq_cst, memory_order_relaxed))
			return true;
	return false;
}

struct inbox *inbox_acquire(int fd, bool *looked)
{
	_Atomic(struct inbox *) *entry = entry_of(fd);
	struct inbox *inbox;

	*looked = true;
	if (!entry)
		return NULL;
	while ((inbox = atomic_load_explicit(entry, memory_order_acquire)) && inbox != &refused) {
		if (!users_raise(inbox))
			continue;
		/* It may have been freed and taken for another socket in between; the table knows. */
		if (atomic_load_explicit(entry, memory_order_seq_cst) == inbox)
			return inbox;
		inbox_put(inbox);
	}
	*looked = inbox != NULL;
	return NULL;
}

static void page_unmap(void *page, size_t bytes)
{
	if (page)
		memory_unmap(page, bytes);
}

static void inbox_dispose(struct inbox *inbox)
{
	const size_t page = (size_t)inbox->reader.bytes ? inbox->producer_bytes - 2 * inbox->reader.bytes : 0;

	inbox_members_close(inbox);
	inbox_stop(inbox);
	page_unmap(inbox->consumer_page, page);
	page_unmap(inbox->producer_pages, inbox->producer_bytes);
	page_unmap(inbox->control_page, page);
	internal_fd_close(inbox->ring_fd);
	lock_take(&pool_lock);
	inbox->next_free = free_inboxes;
	free_inboxes = inbox;
	lock_give(&pool_lock);
}

void inbox_put(struct inbox *inbox)
{
	if (atomic_fetch_sub_explicit(&inbox->users, 1, memory_order_acq_rel) == 1)
		inbox_dispose(inbox);
}

static void pool_fill(void)
{
	struct inbox *chunk;
	void *memory;

	if (memory_map(CHUNK_BYTES, &memory))
		return;
	chunk = memory;
	for (size_t i = 0; i < CHUNK_BYTES / sizeof(*chunk); i++) {
		chunk[i].next_free = free_inboxes;
		free_inboxes = &chunk[i];
	}
}

struct inbox *inbox_create(void)
{
	struct inbox *inbox;

	lock_take(&pool_lock);
	if (!free_inboxes)
		pool_fill();
	inbox = free_inboxes;
	if (inbox)
		free_inboxes = inbox->next_free;
	lock_give(&pool_lock);
	if (!inbox)
		return NULL;
	/* A thread that arrives in the middle finds the count zero until everything is in its place. */
	memset((char *)inbox + sizeof(inbox->users), 0, sizeof(*inbox) - sizeof(inbox->users));
	inbox->ring_fd = -1;
	for (int i = 0; i < INBOX_MEMBERS_MAX; i++)
		inbox->members[i].copy_fd = -1;
	atomic_store_explicit(&inbox->users, 1, memory_order_release);
	return inbox;
}

/* Returns whether it was the last. */
static bool entry_end(struct inbox *inbox)
{
	return atomic_fetch_sub_explicit(&inbox->entries, 1, memory_order_acq_rel) == 1;
}

bool inbox_enter(struct inbox *inbox, int fd)
{
	_Atomic(struct inbox *) *entry = entry_of(fd);
	struct inbox *none = NULL;

	if (!entry)
		return false;
	atomic_fetch_add_explicit(&inbox->users, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&inbox->entries, 1, memory_order_relaxed);
	if (atomic_compare_exchange_strong_explicit(entry, &none, inbox, memory_order_acq_rel,
						    memory_order_relaxed))
		return true;
	(void)entry_end(inbox);
	inbox_put(inbox);
	return false;
}

void inbox_refuse(int fd)
{
	_Atomic(struct inbox *) *entry = entry_of(fd);
	struct inbox *none = NULL;

	if (entry)
		(void)atomic_compare_exchange_strong_explicit(entry, &none, &refused, memory_order_acq_rel,
							      memory_order_relaxed);
}

struct inbox *inbox_find(uint64_t cookie)
{
	for (int fd = 0; fd < INBOX_DESCRIPTORS; fd++) {
		struct inbox *inbox = atomic_load_explicit(&inboxes[fd], memory_order_relaxed);
		bool looked;

		if (!inbox || inbox == &refused)
			continue;
		inbox = inbox_acquire(fd, &looked);
		if (inbox && inbox->cookie == cookie &&
		    !atomic_load_explicit(&inbox->leaving, memory_order_relaxed))
			return inbox;
		if (inbox)
			inbox_put(inbox);
	}
	return NULL;
}

void inbox_expel(struct inbox *inbox, bool to_kernel)
{
	for (int fd = 0; fd < INBOX_DESCRIPTORS; fd++) {
		struct inbox *there = inbox;

		if (atomic_compare_exchange_strong_explicit(&inboxes[fd], &there, to_kernel ? &refused : NULL,
							    memory_order_acq_rel, memory_order_relaxed)) {
			(void)entry_end(inbox);
			inbox_put(inbox);
		}
	}
}

struct inbox *inbox_remove(int fd, bool *last)
{
	_Atomic(struct inbox *) *entry = entry_of(fd);
	struct inbox *inbox = !entry ? NULL : atomic_exchange_explicit(entry, NULL, memory_order_acq_rel);

	if (!inbox || inbox == &refused)
		return NULL;
	*last = entry_end(inbox);
	return inbox;
}

void inboxes_forked(void)
{
	if (!inboxes_wanted())
		return;
	lock_reset(&pool_lock);
	for (int fd = 0; fd < INBOX_DESCRIPTORS; fd++) {
		struct inbox *inbox = atomic_load_explicit(&inboxes[fd], memory_order_relaxed);

		if (!inbox || inbox == &refused)
			continue;
		lock_reset(&inbox->lock);
		/* The parent continues to use the copies in the epoll sets. */
		inbox_members_forked(inbox);
		/* The counted reader is the parent. */
		atomic_store_explicit(&inbox->reading, false, memory_order_relaxed);
	}
}
