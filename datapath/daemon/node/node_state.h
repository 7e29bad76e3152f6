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
	struct loop_gates *gates; /* initially all open */
};

/* The present trace (tracing.h). */
struct node_trace {
	uint32_t number;                      /* 0: no trace */
	char identity[NODE_IDENTITY_MAX + 1]; /* "": all pods */
	uint64_t flow;                        /* 0: all flows */
	uint64_t before;                      /* the loop's last record of an earlier trace */
};

/* Receive rings, including those of a previous ktsnd (receiving.h). */
struct node_receive {
	const char *folder; /* where the program's maps are pinned: node_folder, except in tests */
	char node_folder[64];
	uint64_t *left; /* cookies of rings of a previous ktsnd; NULL: none */
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
	bool rings_warned;          /* of a ring that could not be created */
	struct quota_limits limits; /* of each pod, unless its networks have other limits */
	struct network_limits *network_limits;
	uint32_t network_limits_count;
	struct node_clocks clocks;
	struct node_receive receive;
	uint32_t quota_count;       /* of pods, including removed ones whose messages still leave */
	uint32_t relay_quota_count; /* the same for pods' relays */
	struct pod *pods;
	struct event_source retired;              /* the loop has retired objects */
	struct event_source notifications;        /* the loop has flows to notify */
	struct loop_flow *notifications_deferred; /* flows to notify later (flow_notifications.h) */
	struct pod_threads *threads;
	struct doorbells *doorbells;
	uint32_t listeners_paused;
	uint32_t connections_paused;
	struct process *closing;        /* connection closed, ring not retired by the loop yet */
	struct deferred_free *deferred; /* objects that queued commands may still name */
	uint64_t limit_refusals;        /* requests of pods that exceeded their limits */
	uint64_t flow_numbers;
	struct node_trace trace;
	uint32_t trace_numbers;
	uint32_t socket_count, process_count, flow_count;
	struct library_counts library_counts_closed; /* of processes that are gone */
};

#endif
