/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread for each pod, for the system calls by which the pod could make ktsnd wait: whatever touches a
 * descriptor that the pod handed over, or closes one that may be the last copy. Closing a socket can wait for
 * its peer, reading its name for a lock that the application holds. Then this thread waits, and with it this
 * pod's own requests; the control thread and all other pods go on.
 *
 *   control thread                     the pod's thread
 *      | -- pod_thread_do(work) ------->  work->run(work)
 *      | <- work->done(work) -----------      |
 *
 * What is done for one pod is done in the order in which it was asked for. The thread has no capabilities and
 * sees nothing of ktsnd but its works. All functions are for the control thread, run() excepted.
 *
 * What a close() waits for may be closed by a later work only: the peer of a socket, the server of a file
 * system. So a call that takes long is interrupted by a signal, again and again, and where that is of no use,
 * after the removal of the pod, another thread does the rest. See docs/decisions/0008.
 */
#ifndef KTSN_DAEMON_POD_THREAD_H
#define KTSN_DAEMON_POD_THREAD_H

#include "events.h"

#include <stdbool.h>
#include <stdint.h>

struct pod_threads;
struct pod_thread;

/* Embedded in what it is about. */
struct pod_work {
	void (*run)(struct pod_work *work);  /* in the pod's thread */
	void (*done)(struct pod_work *work); /* in the control thread, afterwards; NULL: the work is gone */
	struct pod_work *next;
};

/* Creates the shared state that all threads report to. 0 or -errno. */
int pod_threads_create(struct pod_threads **threads, struct events *events);
/* Calls done() of the works that have run. */
void pod_threads_serve(struct pod_threads *threads);
/* Interrupts works that take long. Returns ms until it is due again, -1: not. */
int pod_threads_tick(struct pod_threads *threads);
/* ktsnd ends: has them do what is left to do, as if all pods were removed. Waits, but not for long. */
void pod_threads_settle(struct pod_threads *threads);
/* When all of them were put. Waits for them to end, but not for long: one of them may be held up. */
void pod_threads_destroy(struct pod_threads *threads);

/* With one user. 0 or -errno. */
int pod_thread_start(struct pod_threads *threads, struct pod_thread **started);
void pod_thread_get(struct pod_thread *thread);
/* With its last user it does what is left to do, and ends. NULL is harmless. */
void pod_thread_put(struct pod_thread *thread);

/* The pod was removed: the thread only closes the pod's descriptors, and nothing waits for it any more. */
void pod_thread_removed(struct pod_thread *thread);

void pod_thread_do(struct pod_thread *thread, struct pod_work *work);
/* Closes it after all that was asked for before. -1 is harmless. */
void pod_thread_close(struct pod_thread *thread, int fd);
/* Queues a close() that only this thread waits for. -1 is allowed. Any thread. */
void pod_thread_close_now(int fd);
/* Around a call that may close descriptors in another way. Returns whether another thread does the rest: then
 * objects and descriptors that a later work closes are gone. Any thread. */
bool pod_thread_closes(bool closes);
/* How many works have not ended. */
uint32_t pod_thread_backlog(const struct pod_thread *thread);

#endif
