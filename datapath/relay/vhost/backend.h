/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back end of vhost-user: librte_vhost talks to the front end (the program that runs the guest) over a
 * socket, in its own threads. They pass the guest to the relay's thread, and wait until that has released it.
 * A process has one back end, and one guest at a time.
 *
 *   front end          librte_vhost's threads          relay's thread
 *   connects    ---->  device, rings, kick      ---->  event_fd; backend_take()
 *   disconnects ---->  device ends, waits       ---->  event_fd; backend_take()   and continues
 *
 * backend_begin() is called first; backend_changed() and backend_take() by the relay's thread.
 */
#ifndef KTSN_RELAY_VHOST_BACKEND_H
#define KTSN_RELAY_VHOST_BACKEND_H

#include <stdbool.h>

/* Pairs of queues that are served: as many as there are priorities of 802.1Q. */
enum { GUEST_PAIRS_MAX = 8 };

/* A pair has two rings: in the first the guest gets frames, in the second it sends. */
static inline int guest_ring_to(int pair)
{
	return 2 * pair;
}

static inline int guest_ring_from(int pair)
{
	return 2 * pair + 1;
}

struct guest {
	int vid; /* the number of librte_vhost; -1: there is no guest */
	/* The guest signals frames on them; -1: it does not use the pair. The owner closes them. */
	int kick_fd[GUEST_PAIRS_MAX];
};

/* backend_begin listens at `path`, or with `connects` connects to the front end that listens there, again
 * whenever it was away. A socket that a predecessor left at `path` is replaced. 0 or -errno. */
int backend_begin(const char *path, bool connects);

/* backend_event_fd returns a descriptor that is readable after a change. Reading it acknowledges the change.
 */
int backend_event_fd(void);

/* backend_changed returns whether something has changed since the last backend_take(). It costs a load. */
bool backend_changed(void);

/* backend_take updates `guest` and closes descriptors that are not used any more. Returns true when it is
 * another guest: the one before must not be used from then on. */
bool backend_take(struct guest *guest);

#endif
