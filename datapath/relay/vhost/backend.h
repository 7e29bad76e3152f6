/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The back end of vhost-user: librte_vhost speaks with the front end (the program that runs the guest) over a
 * socket, in threads of its own. Here the relay's thread learns which guest there is, and the others wait
 * until it has let go of one. There is one back end a process, and one guest at a time.
 *
 *   front end          librte_vhost's threads          relay's thread
 *   connects    ---->  device, rings, kick      ---->  event_fd; backend_take()
 *   goes        ---->  device ends, waits       ---->  event_fd; backend_take()   and goes on
 *
 * backend_begin() before any other; backend_changed() and backend_take() by the relay's thread.
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
	int vid; /* librte_vhost's number of it; -1: there is none */
	/* By which it tells that there are frames; -1: it does not use the pair. The owner closes them. */
	int kick_fd[GUEST_PAIRS_MAX];
};

/* Listens at `path`, or with `connects` looks for who listens there, now and whenever he was away. A socket
 * that a predecessor left at `path` is replaced. 0 or -errno. */
int backend_begin(const char *path, bool connects);

/* Readable when something has changed; whoever reads it takes it. */
int backend_event_fd(void);

/* Whether something has changed since the last backend_take(). Costs a load. */
bool backend_changed(void);

/* Brings `guest` to what there is. Descriptors that are not used any more are closed. From here on nothing
 * may be done with the guest that was there before, if it is another. True when it is another. */
bool backend_take(struct guest *guest);

#endif
