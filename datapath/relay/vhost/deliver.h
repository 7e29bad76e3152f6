/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivers frames that the kernel sends to the endpoint's interface to the guest's queues. A frame with a tag
 * goes to the queue pair of its priority if the guest uses that, other frames to the first one.
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

/* deliver_prepare sets options of a packet socket of type SOCK_RAW, bound to the interface with ETH_P_ALL: it
 * reports offloads that the kernel left to the device, and does not receive sent frames. 0 or -errno. */
int deliver_prepare(int link_fd);

/* deliver_init prepares *deliver. The caller owns the descriptor. */
void deliver_init(struct deliver *deliver, struct rte_mempool *pool, int link_fd);

/* deliver_serve delivers a burst of frames. Without a guest, or without room in its queue, they are dropped
 * and counted. */
void deliver_serve(struct deliver *deliver, const struct guest *guest, struct relay_counters *counters);

#endif
