/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a loop is made with. The control thread's; the loop has a copy.
 */
#ifndef KTSN_LOOP_LOOP_CONFIG_H
#define KTSN_LOOP_LOOP_CONFIG_H

#include "port.h"
#include "shaper.h"

#include <stdbool.h>
#include <stdint.h>

struct loop_config {
	struct ktsn_port *port;        /* of the uplink, with the buffers for all frames; outlives the loop */
	struct ktsn_port *bridge_port; /* onto the bridges of this node, likewise; NULL: there is none */
	uint32_t withdrawn_max;        /* frames that the uplink's port may withdraw after it took them
					  (withdrawals.h) */
	uint32_t packets;              /* messages that may be held at once, over all rings */
	uint32_t departures;           /* that are remembered at least; 0: DEPARTURES_KEPT_DEFAULT */
	int64_t spin_ns;               /* awake this long before a departure */
	int64_t late_after_ns;         /* a departure later than this after its time is not on time */
	int64_t stale_after_ns; /* what the port does not take within this after it was first offered is
				 * dropped; so is what had no time and is older than this when its ring is
				 * taken over */
	int64_t delta_ns;       /* strategy etf: one that would be later than this is dropped */
	enum ktsn_strategy strategy;
	uint64_t link_speed_bps; /* 0: frames take no time */
	uint16_t vxlan_port;     /* of what leaves in clear although it was to be encrypted */
	int64_t guard_band_ns;   /* a frame must have left so long before its gate shuts */
	int cpu;                 /* to run on; -1: any */
	int fifo_priority;       /* SCHED_FIFO; 0: ordinary scheduling */
};

/* What the loop's thread was allowed. */
struct loop_scheduling {
	bool fifo;
	bool pinned;
};

#endif
