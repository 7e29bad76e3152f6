/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames that a guest sends: from its queues, by librte_vhost, which copies them out of the guest's
 * memory before anybody looks at them. And the way back into its queues (deliver.h).
 *
 * As long as frames come, the queues are polled and the guest is told not to notify. Before the relay sleeps
 * notifications are enabled, and the queues are looked at once more: a frame that came in between would else
 * wait for the next one.
 */
#ifndef KTSN_RELAY_VHOST_SOURCE_VHOST_H
#define KTSN_RELAY_VHOST_SOURCE_VHOST_H

#include "backend.h"
#include "deliver.h"
#include "frame_class.h"
#include "source.h"

#include <net/ethernet.h>

struct rte_mbuf;
struct rte_mempool;

enum { GUEST_BURST = 32 };

struct source_vhost_setup {
	enum class_by class_by;
	bool records;          /* frames may have records */
	uint8_t own[ETH_ALEN]; /* the only source address that the guest may use */
	struct rte_mempool *pool;
	int link_fd; /* deliver.h */
};

struct source_vhost {
	struct source source; /* its fd is an epoll of what may tell of frames */
	struct source_vhost_setup setup;
	struct guest guest;
	struct deliver deliver;
	int watched[GUEST_PAIRS_MAX]; /* the kick descriptors in the epoll; -1: none */
	int timer_fd;
	bool told; /* the guest notifies of frames */
	int pair;  /* that the burst is from */
	unsigned int count, next;
	struct rte_mbuf *burst[GUEST_BURST];
};

/* Once the back end has begun. 0 or -errno. */
int source_vhost_init(struct source_vhost *vhost, const struct source_vhost_setup *setup);

#endif
