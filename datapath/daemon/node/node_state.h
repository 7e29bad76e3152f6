/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the node: pods with their sockets and endpoints, remote nodes, and connected applications. It
 * belongs to the control thread; the loop thread never reads it.
 *
 *   node --+-- routing                    the uplink, remote nodes, endpoints, destinations (routing_state.h)
 *          +-- pod* --+-- endpoint*       an interface of the pod on an overlay
 *                     +-- process* -- flow* -- destination*
 *                         (a connection; a ring)  (a socket)  (an address it sends to)
 *
 * Part of node: above route, below handover and control.
 */
#ifndef KTSN_DAEMON_NODE_STATE_H
#define KTSN_DAEMON_NODE_STATE_H

#include "clock_state.h"
#include "counters.h"
#include "ring_charges.h"
#include "ring_memory.h"
#include "routing_state.h"

enum { NODE_IDENTITY_MAX = 128 };

/* Settings of the uplink's shaper, as the loop has them (shaping.h). */
struct node_shaping {
	enum ktsn_strategy strategy;
	struct loop_classes classes;
	uint64_t link_speed_bps;
	int64_t guard_band_ns;
	struct loop_gates *gates; /* node_shaping_init() makes the first: all are open */
};

/* The present trace (tracing.h). */
struct node_trace {
	uint32_t number;                      /* 0: nothing is */
	char identity[NODE_IDENTITY_MAX + 1]; /* "": of all pods */
	uint64_t flow;                        /* 0: all flows */
	uint64_t before;                      /* the loop's last record of an earlier trace */
};

/* Receive rings, including those of a previous ktsnd (receiving.h). */
struct node_receive {
	const char *folder; /* where the program's maps are pinned: `own`, but for tests */
	char own[64];
	uint64_t *left; /* cookies; NULL: none */
	size_t left_count;
	int64_t left_until_ms;
};

struct node {
	struct events *events;
	struct loop *loop;
	struct realtime_worker *realtime_worker; /* the caller's; NULL: none */
	struct routing routing;
	struct node_shaping shaping;
	struct ktsn_ring_geometry ring_geometry; /* of each process's */
	struct ring_charges ring_charges;
	bool rings_warned;          /* that one could not be made */
	struct quota_limits limits; /* of each pod, but for what its networks have of their own */
	struct network_limits *network_limits;
	uint32_t network_limits_count;
	struct node_clocks clocks;
	struct node_receive receive;
	uint32_t quota_count;       /* of pods, including removed ones whose messages still leave */
	uint32_t relay_quota_count; /* the same for pods' relays */
	struct pod *pods;
	struct event_source retired;       /* the loop gives objects back */
	struct event_source notifications; /* and wants applications to be notified */
	struct loop_flow
		*notifications_deferred; /* flows that were notified not long ago (flow_notifications.h) */
	struct pod_threads *threads;
	struct doorbells *doorbells;
	uint32_t listeners_resting;
	uint32_t connections_resting;
	struct process *closing;        /* connection closed, ring not given back by the loop yet */
	struct deferred_free *deferred; /* objects that commands under way may still name */
	uint64_t limit_refusals;        /* what a pod asked for above its limits */
	uint64_t flow_numbers;
	struct node_trace trace;
	uint32_t trace_numbers;
	uint32_t socket_count, process_count, flow_count;
	struct library_counts library_counts_closed; /* of processes that are gone */
};

#endif
