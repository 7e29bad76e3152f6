/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that Open vSwitch does not fetch: it was stopped, or got no processor. While it fetches nothing the
 * port takes no more. Frames that are in the queue by then are overwritten before they are stale, because
 * nobody can take them back while Open vSwitch is connected: it gets frames that no bridge forwards.
 *
 * Thread: DPDK's interrupt thread, but for _begin, _end and vhost_stalled.
 */
#ifndef KTSN_PORT_VHOST_STALL_H
#define KTSN_PORT_VHOST_STALL_H

#include "vhost_left.h"

#include <stdbool.h>
#include <stdint.h>

struct vhost_stall {
	/* The transmit queue, NULL: nobody is connected. */
	struct vhost_descriptor *(*ring)(void *context);
	void (*withdrawn)(uint32_t frames,
			  void *context); /* counted as sent, and overwritten; NULL: nobody is told */
	void *context;
	uint32_t ring_count;
	int64_t stale_after_ns;

	uint32_t oldest;  /* place of the frame that was next at the last look */
	int64_t since_ns; /* CLOCK_MONOTONIC, when it was first seen there */
	bool overwritten; /* all that is there */
	_Atomic bool stalled;
};

/* Looks at the queue from now on, five times within stale_after_ns. 0 or -errno. */
int vhost_stall_begin(struct vhost_stall *stall);
void vhost_stall_end(struct vhost_stall *stall);

/* Any thread. */
static inline bool vhost_stalled(const struct vhost_stall *stall)
{
	return stall->stalled;
}

#endif
