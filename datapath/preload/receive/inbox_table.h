/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of inboxes by descriptor. Only a process with KTSN_RECEIVE=ring has any; in others each function
 * costs one load.
 *
 * Callable from any thread, also in signal handlers. Inboxes are in memory that is never unmapped; a use
 * count keeps an inbox from being reused while a thread still reads from it.
 */
#ifndef KTSN_PRELOAD_INBOX_TABLE_H
#define KTSN_PRELOAD_INBOX_TABLE_H

#include "inbox.h"

enum { INBOX_DESCRIPTORS = 65536 }; /* the kernel serves those above */

/* 0: not read yet. */
enum { INBOXES_UNKNOWN = 0, INBOXES_NOT_WANTED = 1, INBOXES_WANTED = 2 };
extern _Atomic int inboxes_state;
int inboxes_state_read(void);

/* inboxes_wanted returns whether the process was started with KTSN_RECEIVE=ring. */
static inline bool inboxes_wanted(void)
{
	int state = atomic_load_explicit(&inboxes_state, memory_order_relaxed);

	return (state != INBOXES_UNKNOWN ? state : inboxes_state_read()) == INBOXES_WANTED;
}

/* inbox_known returns whether the descriptor was looked up, with either result. */
bool inbox_known(int fd);

/* inbox_acquire returns the inbox of a descriptor, which the caller releases with inbox_put(). NULL when it
 * has none; *looked is then whether the kernel is known to serve the descriptor. */
struct inbox *inbox_acquire(int fd, bool *looked);
void inbox_put(struct inbox *inbox);

/* inbox_at returns the inbox of a descriptor for comparisons only; NULL: none. */
const struct inbox *inbox_at(int fd);

/* inbox_create returns an acquired inbox, which the caller fills in and enters. NULL without memory. */
struct inbox *inbox_create(void);
/* inbox_enter enters the inbox for a descriptor without one. Returns whether it did. */
bool inbox_enter(struct inbox *inbox, int fd);
/* inbox_find returns the acquired inbox of another descriptor of the socket, or NULL. */
struct inbox *inbox_find(uint64_t cookie);
/* inbox_refuse makes the kernel serve the descriptor as long as it is open. */
void inbox_refuse(int fd);
/* inbox_expel removes all descriptors of the socket: the kernel serves them, or they are looked up again. */
void inbox_expel(struct inbox *inbox, bool to_kernel);

/* inbox_remove removes a descriptor that is closed, or another file now. Returns its inbox, acquired; *last
 * is whether it was the last descriptor. */
struct inbox *inbox_remove(int fd, bool *last);

/* inboxes_forked is called in the child, right after fork. */
void inboxes_forked(void);

#endif
