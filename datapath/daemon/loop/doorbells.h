/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbells: the eventfds by which applications wake the loop.
 *
 * An application has the same eventfd, and can put any number of watchers into its wait queue. The kernel
 * walks them with the queue's lock held, interrupts off, at each write, read and close, and whoever joins or
 * leaves the queue waits for that. So the loop has nothing to do with the eventfd. It is in an epoll set of
 * its own, edge-triggered and never read, and the loop's set has that one:
 *
 *   application's eventfd ──► set (ktsnd's alone) ──► the loop's set
 *        joined and left by the pod's thread       armed and disarmed by the loop
 *
 * A set is in the loop's for good, disarmed while it is not in use: the kernel takes a lock of all the
 * machine to put one set into another. See docs/decisions/0014.
 */
#ifndef KTSN_LOOP_DOORBELLS_H
#define KTSN_LOOP_DOORBELLS_H

struct doorbells;

/* The sets that the loop's own, `loop_epoll_fd`, has; `count` of them are made at once. 0 or -errno. */
int doorbells_create(struct doorbells **doorbells, int loop_epoll_fd, unsigned int count);
/* Those that are still in use keep their descriptors until ktsnd ends. NULL is harmless. */
void doorbells_destroy(struct doorbells *doorbells);

/* The rest: any thread that may wait for a pod. */

/* A new eventfd that no application has yet. */
int doorbell_make(void);
/* Puts an eventfd into a set. The set, or -errno. */
int doorbell_join(struct doorbells *doorbells, int event_fd);
/* The loop has let go of the set; -1: none. Closes the eventfd. */
void doorbell_leave(struct doorbells *doorbells, int set_fd, int event_fd);

#endif
