/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbells: the eventfds by which applications wake the loop.
 *
 * An application has the same eventfd and can add any number of watchers to its wait queue. The kernel walks
 * the queue at each write, read and close, with the queue's lock held and interrupts off, and every thread
 * that joins or leaves the queue waits for that. So the loop never touches the eventfd: it is in an epoll set
 * of its own, edge-triggered and never read, and that set is in the loop's set:
 *
 *   application's eventfd ──► set (ktsnd's alone) ──► the loop's set
 *        joined and left by the pod's thread       armed and disarmed by the loop
 *
 * A set stays in the loop's set for good, disarmed while it is not in use: adding one set to another takes a
 * lock of the whole machine. See docs/internals/decisions/0014.
 */
#ifndef KTSN_LOOP_DOORBELLS_H
#define KTSN_LOOP_DOORBELLS_H

struct doorbells;

/* Creates the sets in the loop's set `loop_epoll_fd`, `count` of them at once. 0 or -errno. */
int doorbells_create(struct doorbells **doorbells, int loop_epoll_fd, unsigned int count);
/* Sets that are still in use keep their descriptors until ktsnd ends. NULL is allowed. */
void doorbells_destroy(struct doorbells *doorbells);

/* The following functions: any thread that may wait for a pod. */

/* Returns a new eventfd, or -errno. */
int doorbell_make(void);
/* Adds an eventfd to a free set. Returns the set, or -errno. */
int doorbell_join(struct doorbells *doorbells, int event_fd);
/* Frees the set, which the loop does not use any more (-1: none), and closes the eventfd. */
void doorbell_leave(struct doorbells *doorbells, int set_fd, int event_fd);

#endif
