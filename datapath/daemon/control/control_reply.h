/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies of the control socket (docs/internals/control-protocol.md): from structures to JSON text. Pure. The
 * caller frees the text; it is NULL when there is no memory.
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

/* The longest reply; clients have room for it. */
enum { CONTROL_REPLY_BYTES_MAX = 1 << 20 };

/* The messages of one traffic class, by their outcome. */
struct control_class {
	uint64_t pending, sent, late, dropped;
	uint64_t transmission_overrun; /* frames that were still on the link when the gate closed */
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
	int64_t processor_time_ns; /* of all threads since the start */
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
	int64_t clock_bound_ns; /* the present error bound of the clock; -1: unknown */
};

/* The last schedule that was requested, and the one in force. They may be the same. */
struct control_schedule {
	const struct ktsn_schedule *admin;
	const struct ktsn_schedule *oper; /* its list is omitted without gate_enabled: it is not executed */
	uint8_t oper_gate_states;         /* at current_time_tai_ns */
	bool config_pending;              /* `admin` comes into force at config_change_time_tai_ns */
	int64_t config_change_time_tai_ns;
	uint64_t config_change_error;
	int64_t current_time_tai_ns;
	uint64_t transmission_overrun[KTSN_CLASSES];
	int64_t link_speed_bps;
	int64_t guard_band_ns;
};

char *control_reply_ok(void);
char *control_reply_error(const struct refusal *refusal);
/* `standing_by` are the names of the instances that stand by, in no order. */
char *control_reply_instance(const struct instance *instance, const char *const *standing_by, size_t count);
char *control_reply_status(const struct control_status *status);
char *control_reply_schedule(const struct control_schedule *schedule);
/*
 * Returns a list from `offset` on, with at most `limit` entries, or fewer when the reply would be too long;
 * NULL also when `type` is no list. Flows are those of connected processes, groups the known memberships of
 * the pods of this node and of each peer; security associations come without keys.
 */
char *control_reply_list(const struct node *node, enum control_request_type type, uint32_t offset,
			 uint32_t limit);
char *control_reply_departures(const struct departure *records, uint32_t count, uint64_t overwritten);
/* The numbers of the records begin at 1: `before` is the number of the last record before the trace. */
char *control_reply_trace(const struct trace_record *records, uint32_t count, uint64_t before,
			  uint64_t overwritten);

#endif
