/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of a pod, so that it can harm only itself: how many messages it may have pending, how often it may
 * send and ring, how far ahead its transmit times may be. Messages beyond a limit stay in the pod's own
 * rings, which fill up: the pod's senders wait or get EAGAIN, as with a full socket buffer.
 *
 * The limits may change at any time (node/pod_limits.c). A pod keeps what it has above new limits until it
 * releases it. A quota ends with its last user: the pod, or an ended process whose messages still leave. The
 * control thread creates it; the comments name the thread that owns each part.
 */
#ifndef KTSN_LOOP_QUOTA_H
#define KTSN_LOOP_QUOTA_H

#include "ring_list.h"
#include "shaper.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct packet;

enum {
	/* Quotas of pods, and as many again for untimed rings. */
	QUOTAS_MAX = KTSN_SHAPER_LANES_MAX,
	QUOTA_LANES = 2, /* one for each egress of the loop */
};

struct quota_limits {
	uint32_t processes;
	uint32_t sockets;
	uint64_t memory_bytes;  /* of all rings together */
	uint32_t pending;       /* messages that were taken and neither sent nor dropped */
	uint32_t message_rate;  /* per second; 0: no limit */
	uint32_t doorbell_rate; /* per second; 0: no limit */
	int64_t horizon_ns;     /* transmit times further ahead are refused */
};

/*
 * The generic cell rate algorithm: an event is allowed when it is not earlier than `due` minus the burst;
 * each event moves `due` on by one interval.
 */
struct quota_rate {
	_Atomic int64_t interval_ns; /* 0: no limit. Written by the control thread */
	int64_t burst_ns;
	int64_t due_tai_ns;
};

struct quota {
	struct quota_limits limits; /* the control thread's; the loop thread reads the next two instead */
	_Atomic uint32_t pending_max;
	_Atomic int64_t horizon_ns;
	struct ktsn_shaper_lane *lanes[QUOTA_LANES]; /* the loop thread's; NULL: the shaper's own lane */
	/* The control thread's. */
	uint32_t users;
	uint32_t *live;     /* counts all existing quotas */
	uint32_t processes; /* including ended ones with pending messages */
	uint32_t sockets;
	uint64_t ring_bytes; /* of rings that its processes have or kept (ring_charges.h) */
	bool pod_gone;
	struct quota_rate ring_works;    /* creating, taking back and closing rings */
	struct quota_rate receive_works; /* creating receive rings */
	struct quota_rate notifications; /* notifying sockets of space or a report */
	/* The loop thread's; the control thread reads it. */
	_Atomic uint32_t pending;
	/* The loop thread's. */
	uint32_t rings_open;                  /* not retired yet */
	uint32_t wanted;                      /* packets that a message to several receivers waits for */
	struct quota *open_next;              /* in the list of quotas with rings */
	struct ring_list_link watch;          /* in the list of quotas with rings to poll */
	struct ring_list_link *rings;         /* rings to poll, the next first; NULL: none */
	struct ring_list_link released_entry; /* in the list of quotas with released destinations */
	struct ring_list_link *released_destinations; /* destinations whose messages need not wait any more */
	uint32_t released_count;                      /* messages of those */
	struct ring_list_link
		replication_entry; /* in the list of quotas with messages whose copies are being made */
	struct packet *replication_first, *replication_last; /* messages whose copies are being made */
	uint64_t burst;                                      /* the last burst with messages of the pod */
	uint32_t burst_count;                                /* number of those messages */
	struct quota_rate messages;
	struct quota_rate doorbells;
};

/* Creates a quota with one user and counts it in *live. NULL when there is no memory or *live is QUOTAS_MAX.
 * Control thread. */
struct quota *quota_create(const struct quota_limits *limits, uint32_t *live);
/* Changes the limits. Control thread. */
void quota_limits_set(struct quota *quota, const struct quota_limits *limits);
void quota_get(struct quota *quota);
/* NULL is harmless. */
void quota_put(struct quota *quota);

static inline uint32_t quota_pending_max(const struct quota *quota)
{
	return atomic_load_explicit(&quota->pending_max, memory_order_relaxed);
}

/* Any thread. */
static inline uint32_t quota_pending(const struct quota *quota)
{
	return atomic_load_explicit(&quota->pending, memory_order_relaxed);
}

/* Whether another event is allowed at `now`; if so it is counted. Loop thread. */
static inline bool quota_rate_take(struct quota_rate *rate, int64_t now_tai_ns)
{
	int64_t interval_ns = atomic_load_explicit(&rate->interval_ns, memory_order_relaxed);

	/* Larger than possible: the clock was set back, or the limit was lower. */
	if (rate->due_tai_ns - now_tai_ns > rate->burst_ns + interval_ns)
		rate->due_tai_ns = now_tai_ns;
	if (rate->due_tai_ns - now_tai_ns > rate->burst_ns)
		return false;
	if (rate->due_tai_ns < now_tai_ns)
		rate->due_tai_ns = now_tai_ns;
	rate->due_tai_ns += interval_ns;
	return true;
}

/* Counts `count` more events in addition to the one that was allowed. */
static inline void quota_rate_charge(struct quota_rate *rate, uint32_t count, int64_t now_tai_ns)
{
	int64_t interval_ns = atomic_load_explicit(&rate->interval_ns, memory_order_relaxed);
	int64_t latest_tai_ns = now_tai_ns + rate->burst_ns + interval_ns;

	rate->due_tai_ns += count * interval_ns;
	if (rate->due_tai_ns > latest_tai_ns)
		rate->due_tai_ns = latest_tai_ns;
}

/* Returns when the next event is allowed. */
static inline int64_t quota_rate_next(const struct quota_rate *rate)
{
	return rate->due_tai_ns - rate->burst_ns;
}

#endif
