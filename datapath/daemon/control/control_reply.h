/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies of the control socket (docs/control-protocol.md): from structures to JSON text. Pure. Every
 * result is the caller's to free(); NULL when there is no memory.
 */
#ifndef KTSN_DAEMON_CONTROL_REPLY_H
#define KTSN_DAEMON_CONTROL_REPLY_H

#include "clock.h"
#include "control_request.h"
#include "counters.h"
#include "journal.h"
#include "keep_awake.h"
#include "loop.h"
#include "realtime.h"

/* No reply is longer: clients have room for that. */
enum { CONTROL_REPLY_BYTES_MAX = 1 << 20 };

/* What became of the messages of one traffic class. */
struct control_class {
	uint64_t pending, sent, late, dropped;
	uint64_t transmission_overrun; /* times that a frame was still on its way when the gate closed */
};

struct control_status {
	const struct instance *instance;
	int pid;
	const char *uplink;
	const char *interface;
	uint32_t local_address_be;
	const char *strategy;
	int64_t link_speed_bps;
	int64_t guard_band_ns;
	uint16_t vlan_id;                              /* 0: frames carry no tag */
	uint8_t traffic_class_map[CONTROL_PRIORITIES]; /* class of each SO_PRIORITY & 15 */
	uint8_t priority_code_points[KTSN_CLASSES];    /* PCP of each class */
	const char *scheduler;
	int scheduler_priority;
	int cpu;
	int64_t spin_ns;
	int64_t processor_time_ns; /* of all threads so far */
	const struct keep_awake *awake;
	const struct realtime_budget *budget;
	struct loop_budget_use budget_use;
	uint32_t sockets, endpoints, peers, processes, flows, pending;
	struct control_class classes[KTSN_CLASSES];
	const struct counters *counters;
	struct library_counts library_counts;
	uint64_t limit_refusals;
	struct ktsn_port_delivery_counts delivery;
	uint64_t ring_memory_bytes, ring_memory_removed_bytes, ring_memory_max_bytes;
	struct clock_state clock;
	const struct node_clocks *clocks;
	int64_t clock_bound_ns; /* by what was said, now; -1: not known */
};

char *control_reply_ok(void);
char *control_reply_error(const struct refusal *refusal);
/* `standing_by` are the names of those that stand by, in no order. */
char *control_reply_instance(const struct instance *instance, const char *const *standing_by, size_t count);
char *control_reply_status(const struct control_status *status);
/* The list from `offset` on, at most `limit` entries, and fewer where these would be too long. */
char *control_reply_endpoints(const struct node *node, uint32_t offset, uint32_t limit);
char *control_reply_pods(const struct node *node, uint32_t offset, uint32_t limit);
char *control_reply_network_limits(const struct node *node, uint32_t offset, uint32_t limit);
char *control_reply_network_clocks(const struct node *node, uint32_t offset, uint32_t limit);
/* Of connected processes; what those that ended have under way shows at their pod. */
char *control_reply_flows(const struct node *node, uint32_t offset, uint32_t limit);
char *control_reply_peers(const struct node *node, uint32_t offset, uint32_t limit);
/* Of which groups the pods of this node, and of each peer, are known to be members. */
char *control_reply_groups(const struct node *node, uint32_t offset, uint32_t limit);
char *control_reply_network_encryptions(const struct node *node, uint32_t offset, uint32_t limit);
/* Without keys. */
char *control_reply_security_associations(const struct node *node, uint32_t offset, uint32_t limit);
char *control_reply_departures(const struct departure *records, uint32_t count, uint64_t overwritten);
/* Records are numbered from 1 again: `before` is the number of the last before the trace. */
char *control_reply_trace(const struct trace_record *records, uint32_t count, uint64_t before,
			  uint64_t overwritten);

#endif
