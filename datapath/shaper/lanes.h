/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packets of all senders in one class, and the lane whose packet is next. Private to this folder.
 *
 * Each sender has a queue of its own, its lane, in the order of transmit times. Lanes are ordered by the
 * transmit times of their first packets, but a packet whose sender was served at or after that time counts as
 * due only then:
 *
 *   rank of a lane = the later of its first packet's transmit time and the end of its sender's last service
 *
 * So packets of senders without overdue packets leave in the order of transmit times. Senders with overdue
 * packets take turns: a packet waits for one frame of each of them, not for all their frames. The order of a
 * single sender is that of its transmit times.
 *
 * Lanes of untimed packets are separate: packets that are in time go before all of them (shaper.c).
 *
 * A binary heap of the lanes that are not empty. One thread at a time. Nothing allocates; each operation is
 * O(log n) of the number of such lanes.
 */
#ifndef KTSN_SHAPER_LANES_H
#define KTSN_SHAPER_LANES_H

#include "packet.h"
#include "schedule.h"
#include "txtime_queue.h"

/* The packets of one sender in one class. All zero: empty. */
struct lane {
	struct ktsn_shaper_lane *sender;
	const struct service *service;    /* last service of the sender in this class */
	struct ktsn_shaper_packet *first; /* NULL: empty, and in no heap */
	int64_t rank_tai_ns;
	uint64_t rank_turn; /* breaks ties; 0: the rank is the packet's transmit time */
	uint32_t place;     /* in the heap */
	struct ktsn_txtime_queue queue;
};

/* The last turn of a sender in a class. */
struct service {
	int64_t end_tai_ns; /* when its frame has left the link */
	uint64_t turn;      /* number of the service, among those of all senders; 0: none yet */
};

/* A sender. All zero: it has never sent a packet. */
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
	struct lane *heap[KTSN_SHAPER_LANES_MAX + 1]; /* includes the shaper's default lane */
};

/* The most lanes with overdue packets that a search visits. */
enum { KTSN_LANES_OVERDUE_MAX = 8 };

/* Whether a's first packet leaves before b's; both have one. */
bool ktsn_lane_before(const struct lane *a, const struct lane *b);

/* Adds a packet to the lane of its sender. `class` is the class of `lanes`: that of the packets, or 0 under a
 * classless strategy. */
void ktsn_lanes_push(struct lanes *lanes, struct ktsn_shaper_lane *sender, unsigned int class,
		     struct ktsn_shaper_packet *packet, int64_t now_tai_ns);

/* Removes the first packet; there must be one. The caller updates the sender's service afterwards. */
struct ktsn_shaper_packet *ktsn_lanes_pop(struct lanes *lanes);

/* Update the place of a lane that is not empty, after its sender was served, or after a service was revoked.
 */
void ktsn_lanes_served(struct lanes *lanes, struct lane *lane);
void ktsn_lanes_unserved(struct lanes *lanes, struct lane *lane);

/* Returns when the first packet of any other sender is due; KTSN_SHAPER_NEVER when there is none. */
int64_t ktsn_lanes_due_excluding(const struct lanes *lanes, const struct ktsn_shaper_lane *sender);

/* Returns when the first packet becomes due of the senders without a due packet at `now`; KTSN_SHAPER_NEVER
 * when there is none, or more than KTSN_LANES_OVERDUE_MAX senders have overdue packets. */
int64_t ktsn_lanes_due_after(const struct lanes *lanes, int64_t now_tai_ns);

/* Forgets services up to that turn: after the clock was set back they are in the future, and another strategy
 * must not use them. */
void ktsn_lanes_forget(struct lanes *lanes, uint64_t turn);

#endif
