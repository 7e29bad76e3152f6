/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inbox of each descriptor. Only a process that was started with KTSN_RECEIVE=ring has any; in others
 * each of these costs one load.
 *
 * Any thread, also in signal handlers. Inboxes live in memory that is never unmapped; a use count keeps one
 * from being reused while a thread still reads from it.
 */
#ifndef KTSN_PRELOAD_INBOX_TABLE_H
#define KTSN_PRELOAD_INBOX_TABLE_H

#include "inbox.h"

enum { INBOX_DESCRIPTORS = 65536 }; /* those above are served by the kernel */

/* 0: not looked up yet. */
enum { INBOXES_UNKNOWN = 0, INBOXES_NOT_WANTED = 1, INBOXES_WANTED = 2 };
extern _Atomic int inboxes_state;
int inboxes_state_read(void);

/* Whether the process was started with receiving wanted. */
static inline bool inboxes_wanted(void)
{
	int state = atomic_load_explicit(&inboxes_state, memory_order_relaxed);

	return (state != INBOXES_UNKNOWN ? state : inboxes_state_read()) == INBOXES_WANTED;
}

/* Whether the descriptor was looked up, with either outcome. */
bool inbox_known(int fd);

/* The inbox of a descriptor, to be given back by inbox_put(). NULL when it has none; then *looked says
 * whether the descriptor is known to be the kernel's. */
struct inbox *inbox_acquire(int fd, bool *looked);
void inbox_put(struct inbox *inbox);

/* That of a descriptor, to be compared only; NULL: none. */
const struct inbox *inbox_at(int fd);

/* An inbox for the caller to fill in and enter; acquired. NULL without memory. */
struct inbox *inbox_create(void);
/* Enters it for a descriptor that has none. Whether it did. */
bool inbox_enter(struct inbox *inbox, int fd);
/* The acquired inbox of another descriptor of that socket, or NULL. */
struct inbox *inbox_find(uint64_t cookie);
/* The descriptor is the kernel's, as long as it is open. */
void inbox_refuse(int fd);
/* Takes all descriptors of the socket out: they are the kernel's, or are to be looked up anew. */
void inbox_expel(struct inbox *inbox, bool to_kernel);

/* The descriptor is closed, or another file. Returns its inbox, acquired; *last: it was the last
 * descriptor. */
struct inbox *inbox_remove(int fd, bool *last);

/* In the child, right after fork. */
void inboxes_forked(void);

#endif
