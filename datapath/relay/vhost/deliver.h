/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way back: frames that the kernel brings to the endpoint's interface are put into the guest's queues. A
 * frame with a tag goes into the queue pair of its priority if the guest uses that, any other into the first.
 *
 * The relay's thread.
 */
#ifndef KTSN_RELAY_VHOST_DELIVER_H
#define KTSN_RELAY_VHOST_DELIVER_H

#include "backend.h"
#include "counters.h"

struct rte_mempool;

struct deliver {
	struct rte_mempool *pool;
	int link_fd; /* a packet socket (deliver_prepare) */
};

/* Has a packet socket of type SOCK_RAW, bound to the interface with ETH_P_ALL, say what the kernel left to
 * the device, and not receive what is sent. 0 or -errno. */
int deliver_prepare(int link_fd);

/* The descriptor stays the caller's. */
void deliver_init(struct deliver *deliver, struct rte_mempool *pool, int link_fd);

/* A burst of what is there. Without a guest, or where it has no room, frames are dropped and counted. */
void deliver_serve(struct deliver *deliver, const struct guest *guest, struct relay_counters *counters);

#endif
