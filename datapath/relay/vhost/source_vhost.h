/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the frames of a guest from its queues, with librte_vhost, which copies them out of the guest's memory
 * before they are parsed. deliver.h is the other direction.
 *
 * As long as frames arrive, the queues are polled with notifications disabled. Before the relay sleeps,
 * notifications are enabled and the queues polled again: a frame that arrived in between would wait for the
 * next one.
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
	bool records;              /* frames may have records */
	uint8_t address[ETH_ALEN]; /* the only source address that the guest may use */
	struct rte_mempool *pool;
	int link_fd; /* deliver.h */
};

struct source_vhost {
	struct source source; /* its fd is an epoll set: kick descriptors, the back end, the timer */
	struct source_vhost_setup setup;
	struct guest guest;
	struct deliver deliver;
	int watched[GUEST_PAIRS_MAX]; /* the kick descriptors in the epoll; -1: none */
	int timer_fd;
	bool notified; /* notifications of frames are enabled */
	int pair;      /* that the burst is from */
	unsigned int count, next;
	struct rte_mbuf *burst[GUEST_BURST];
};

/* source_vhost_init is called after backend_begin(). 0 or -errno. */
int source_vhost_init(struct source_vhost *vhost, const struct source_vhost_setup *setup);

#endif
