/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one pod may have of ktsnd, so that it can hurt only itself: how many messages it may have pending, how
 * often it may send and ring, how far ahead its messages may be. What exceeds a limit stays in the pod's own
 * rings. These fill up, and the pod's senders wait or get EAGAIN as with a full socket buffer.
 *
 * The limits may change at any time (node/pod_limits.c). A pod keeps what it has above new limits until it
 * gives it back. A quota ends with its last user: the pod, or a process that ended and whose messages still
 * leave. Made by the control thread; each part says whose it is.
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
	/* Of pods; and as many for what has no time. */
	QUOTAS_MAX = KTSN_SHAPER_LANES_MAX,
	QUOTA_LANES = 2, /* one for each egress of the loop */
};

struct quota_limits {
	uint32_t processes;
	uint32_t sockets;
	uint64_t memory_bytes;  /* of all rings */
	uint32_t pending;       /* messages taken and neither sent nor dropped */
	uint32_t message_rate;  /* a second; 0: any */
	uint32_t doorbell_rate; /* a second; 0: any */
	int64_t horizon_ns;     /* transmit times further ahead are refused */
};

/*
 * The generic cell rate algorithm: an event is allowed when it is not earlier than `due`, less what may come
 * at once; each moves `due` on by one interval.
 */
struct quota_rate {
	_Atomic int64_t interval_ns; /* 0: no limit. The control thread's to change */
	int64_t burst_ns;
	int64_t due_tai_ns;
};

struct quota {
	struct quota_limits limits; /* the control thread's; the loop thread has those in its own: */
	_Atomic uint32_t pending_max;
	_Atomic int64_t horizon_ns;
	struct ktsn_shaper_lane *lanes[QUOTA_LANES]; /* the loop thread's; NULL: of the shaper's own */
	/* The control thread's. */
	uint32_t users;
	uint32_t *live;     /* where all quotas that there are are counted */
	uint32_t processes; /* also those that ended and still have messages under way */
	uint32_t sockets;
	uint64_t ring_bytes; /* of rings that its processes have, or kept (ring_charges.h) */
	bool pod_gone;
	struct quota_rate ring_works;    /* rings that are made or handed back, and so closed again */
	struct quota_rate receive_works; /* receive rings that are made */
	struct quota_rate notifications; /* of its sockets, that there is space or a report */
	/* The loop thread's, and read by the other. */
	_Atomic uint32_t pending;
	/* The loop thread's. */
	uint32_t rings_open;          /* not retired yet */
	uint32_t wanted;              /* packets that a message of it waits for: one that goes to several */
	struct quota *open_next;      /* among those with rings */
	struct ring_list_link watch;  /* among the quotas with rings to poll */
	struct ring_list_link *rings; /* those rings, the next first; NULL: none */
	struct ring_list_link released_entry; /* among the quotas with destinations whose messages waited, */
	struct ring_list_link *released_destinations; /* and those, */
	uint32_t released_count;                      /* and how many such messages there are */
	struct ring_list_link
		replication_entry; /* among the quotas with messages whose copies are being made, */
	struct packet *replication_first, *replication_last; /* and those */
	uint64_t burst;                                      /* the last in which it had messages, */
	uint32_t burst_count;                                /* and how many */
	struct quota_rate messages;
	struct quota_rate doorbells;
};

/* With one user; NULL when out of memory, or when *live, which counts them, says that there are QUOTAS_MAX.
 * Control thread. */
struct quota *quota_create(const struct quota_limits *limits, uint32_t *live);
/* Other limits, from now on. Control thread. */
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

/* Whether another event is allowed at `now`; then it has happened. Loop thread. */
static inline bool quota_rate_take(struct quota_rate *rate, int64_t now_tai_ns)
{
	int64_t interval_ns = atomic_load_explicit(&rate->interval_ns, memory_order_relaxed);

	/* More than could ever be due: the clock was set back, or the limit was lower. */
	if (rate->due_tai_ns - now_tai_ns > rate->burst_ns + interval_ns)
		rate->due_tai_ns = now_tai_ns;
	if (rate->due_tai_ns - now_tai_ns > rate->burst_ns)
		return false;
	if (rate->due_tai_ns < now_tai_ns)
		rate->due_tai_ns = now_tai_ns;
	rate->due_tai_ns += interval_ns;
	return true;
}

/* So many have happened beside the one that was allowed. */
static inline void quota_rate_charge(struct quota_rate *rate, uint32_t count, int64_t now_tai_ns)
{
	int64_t interval_ns = atomic_load_explicit(&rate->interval_ns, memory_order_relaxed);
	int64_t latest_tai_ns = now_tai_ns + rate->burst_ns + interval_ns;

	rate->due_tai_ns += count * interval_ns;
	if (rate->due_tai_ns > latest_tai_ns)
		rate->due_tai_ns = latest_tai_ns;
}

/* When the next one is allowed. */
static inline int64_t quota_rate_next(const struct quota_rate *rate)
{
	return rate->due_tai_ns - rate->burst_ns;
}

#endif
