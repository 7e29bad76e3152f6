/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread for each pod, for system calls that the pod could block: all calls on a descriptor from the pod,
 * and closing a descriptor that may be the last copy. Closing a socket can wait for its peer, reading its
 * name for a lock that the application holds. Then only this thread and the pod's own requests wait.
 *
 *   control thread                     the pod's thread
 *      | -- pod_thread_do(work) ------->  work->run(work)
 *      | <- work->done(work) -----------      |
 *
 * The works of a pod run in the order of the calls. The thread has no capabilities and uses nothing of ktsnd
 * except its works. All functions are for the control thread unless stated otherwise; run() is not.
 *
 * A close() may wait for a descriptor that a later work closes: the peer of a socket, the server of a file
 * system. So a long call is interrupted by a signal, repeatedly. If that does not help after the removal of
 * the pod, another thread does the remaining works. See docs/internals/decisions/0008.
 */
#ifndef KTSN_DAEMON_POD_THREAD_H
#define KTSN_DAEMON_POD_THREAD_H

#include "events.h"

#include <stdbool.h>
#include <stdint.h>

struct pod_threads;
struct pod_thread;

/* Embedded in the object of the work. */
struct pod_work {
	void (*run)(struct pod_work *work); /* in the pod's thread */
	void (*done)(
		struct pod_work *work); /* in the control thread after run(); NULL: run() frees the work */
	struct pod_work *next;
};

/* Creates the shared state that all threads report to. 0 or -errno. */
int pod_threads_create(struct pod_threads **threads, struct events *events);
/* Calls done() of the works that have run. */
void pod_threads_serve(struct pod_threads *threads);
/* Interrupts works that take long. Returns ms until it is due again, or -1. */
int pod_threads_tick(struct pod_threads *threads);
/* Waits for all works when ktsnd ends, as if all pods were removed, for 3 s at most. */
void pod_threads_settle(struct pod_threads *threads);
/* Waits for all threads to end, for 3 s at most, because one may be blocked. All must have been put. */
void pod_threads_destroy(struct pod_threads *threads);

/* Starts a thread with one user. 0 or -errno. */
int pod_thread_start(struct pod_threads *threads, struct pod_thread **started);
void pod_thread_get(struct pod_thread *thread);
/* Drops a user. After the last one the thread does its remaining works and ends. NULL is harmless. */
void pod_thread_put(struct pod_thread *thread);

/* The pod was removed: the thread only closes the pod's descriptors, and nothing waits for it any more. */
void pod_thread_removed(struct pod_thread *thread);

void pod_thread_do(struct pod_thread *thread, struct pod_work *work);
/* Queues a close(). Without memory the descriptor leaks. -1 is harmless. */
void pod_thread_close(struct pod_thread *thread, int fd);
/* Closes a descriptor in the calling thread. -1 is harmless. Any thread. */
void pod_thread_close_now(int fd);
/* Marks the begin and the end of a call that may close descriptors. Returns whether another thread does the
 * remaining works: then later works may have closed objects and descriptors. Any thread. */
bool pod_thread_closes(bool closes);
/* Returns the number of unfinished works. */
uint32_t pod_thread_backlog(const struct pod_thread *thread);

#endif
