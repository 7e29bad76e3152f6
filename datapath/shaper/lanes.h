/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packets of one class, of all senders: whose first packet is next. Private to this folder.
 *
 * Each sender has a queue of its own, its lane, in the order of transmit times. Among lanes the earlier first
 * packet is before the later, but one whose sender was served at or after its transmit time counts as if it
 * had become due only then:
 *
 *   rank of a lane = the later of its first packet's transmit time and the end of its sender's last service
 *
 * So senders that have nothing overdue leave in the order of transmit times, all of them together, and of
 * several that have, each is served once before one is served again: however much a sender has overdue, the
 * packets of another wait for one of its frames, not for all. A single sender's order is that of its transmit
 * times.
 *
 * Lanes without times are apart: however many have something to send, what comes due in time goes before them
 * (shaper.c).
 *
 * A binary heap of lanes that are not empty. One thread at a time, nothing allocates; every step is O(log n)
 * of the number of such lanes.
 */
#ifndef KTSN_SHAPER_LANES_H
#define KTSN_SHAPER_LANES_H

#include "packet.h"
#include "schedule.h"
#include "txtime_queue.h"

/* The packets of one sender in one class. All zero: empty. */
struct lane {
	struct ktsn_shaper_lane *sender;
	const struct service *service;    /* the sender's last, in this class */
	struct ktsn_shaper_packet *first; /* NULL: empty, and in no heap */
	int64_t rank_tai_ns;
	uint64_t rank_turn; /* breaks ties: 0 is a sender that waits for no service */
	uint32_t place;     /* in the heap */
	struct ktsn_txtime_queue queue;
};

/* When a sender had its last turn in a class. */
struct service {
	int64_t end_tai_ns; /* its frame had left */
	uint64_t turn;      /* numbers services, of all senders; 0: none yet */
};

/* A sender. All zero: it has never sent anything. */
struct ktsn_shaper_lane {
	struct service services[KTSN_CLASSES];
	struct lane classes[KTSN_CLASSES];
};

/* Whether the packets of a lane have times. */
enum lane_kind { LANE_TIMED, LANE_UNTIMED, LANE_KINDS };

/* The lanes of one class and kind that are not empty, the next first. */
struct lanes {
	uint32_t count;
	uint64_t turns_void;                          /* services up to this one are forgotten */
	struct lane *heap[KTSN_SHAPER_LANES_MAX + 1]; /* and the shaper's own */
};

/* More senders that have something overdue are not looked at one by one. */
enum { KTSN_LANES_OVERDUE_MOST = 8 };

/* Whether a's first packet leaves before b's; both have one. */
bool ktsn_lane_before(const struct lane *a, const struct lane *b);

/* `class` is the number of the class that `lanes` is for: that of its packets, or 0 where classes do not
 * count. */
void ktsn_lanes_push(struct lanes *lanes, struct ktsn_shaper_lane *sender, unsigned int class,
		     struct ktsn_shaper_packet *packet, int64_t now_tai_ns);

/* Takes the first packet out; there must be one. The caller says then when its sender has been served. */
struct ktsn_shaper_packet *ktsn_lanes_pop(struct lanes *lanes);

/* Put a lane that is not empty where it belongs: after its sender was served, or after that was taken back.
 */
void ktsn_lanes_served(struct lanes *lanes, struct lane *lane);
void ktsn_lanes_unserved(struct lanes *lanes, struct lane *lane);

/* When the first packet of any sender but that one is due; KTSN_SHAPER_NEVER when there is none. */
int64_t ktsn_lanes_due_excluding(const struct lanes *lanes, const struct ktsn_shaper_lane *sender);

/* When the first packet of a sender becomes due that has none at `now`; KTSN_SHAPER_NEVER when there is none,
 * or so many have something overdue that it is not looked for. */
int64_t ktsn_lanes_due_after(const struct lanes *lanes, int64_t now_tai_ns);

/* Services up to that turn are forgotten: the clock was set back, and they are in the future now, or another
 * strategy begins. */
void ktsn_lanes_forget(struct lanes *lanes, uint64_t turn);

#endif
