/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shaper's part of a packet, embedded in the caller's structure. It belongs to the shaper from enqueue to
 * dequeue and contains the links of the queues, so that the shaper allocates nothing and is never full.
 */
#ifndef KTSN_SHAPER_PACKET_H
#define KTSN_SHAPER_PACKET_H

#include <stdbool.h>
#include <stdint.h>

/* The largest transmit time: all values computed from it fit into 64 bits. */
#define KTSN_TXTIME_MAX_NS INT64_C(9200000000000000000)

/* A time that never comes: no packet leaves unless one is enqueued. */
#define KTSN_SHAPER_NEVER INT64_MAX

/* The most lanes that can hold packets at the same time, of those with transmit times and of those without.
 */
enum { KTSN_SHAPER_LANES_MAX = 1024 };

/* Why a packet could not leave at its transmit time. */
enum ktsn_wait {
	KTSN_WAIT_NONE,
	KTSN_WAIT_GATE, /* its gate was shut, or too little was left of the window */
	KTSN_WAIT_LINK, /* frames before it occupied the link */
};

struct ktsn_shaper_lane;

struct ktsn_shaper_packet {
	/* Set by the caller before enqueue. */
	int64_t txtime_tai_ns; /* earliest time of departure; the latest if it is a deadline */
	uint64_t order;        /* breaks ties: lower leaves first */
	uint32_t wire_bytes;   /* on the link, see ktsn_frame_wire_bytes() */
	uint32_t sdu_bytes;    /* MAC client data, for queue-max-sdu */
	uint8_t traffic_class; /* 0 to 7; higher is more important */
	bool deadline; /* SOF_TXTIME_DEADLINE_MODE: has an effect only under the strategy etf-deadline */
	bool untimed;  /* no transmit time was requested: it is never late, and yields to packets in time */

	/* Set by the shaper. */
	bool patient; /* never dropped for being late: the strategy at enqueue does not do so */

	/* Set by the shaper, for the caller to read after dequeue. */
	uint8_t waited; /* enum ktsn_wait */

	/* Set by the queue. */
	uint8_t left_rank, right_rank;

	/* Set by the shaper: when the packet's window closes, minus its waiting time for frames of the same
	 * burst; INT64_MAX: never. */
	int64_t close_tai_ns;

	union {
		/* While it is in a queue. */
		struct {
			union {
				struct ktsn_shaper_packet *next;
				struct ktsn_shaper_packet *left;
			};
			union {
				struct ktsn_shaper_packet *tail; /* of the list, in its head */
				struct ktsn_shaper_packet *right;
			};
			struct ktsn_shaper_packet *heap; /* of the slot, in its head */
		};
		/* From dequeue until it may be requeued: its turn of the sender, and the previous one. */
		struct {
			uint64_t turn; /* 0: none */
			uint64_t turn_before;
			int64_t end_before_tai_ns;
		};
		/* While the shaper moves it from one queue to another. */
		struct {
			struct ktsn_shaper_lane *sender;
			struct ktsn_shaper_packet *after;
		};
	};
};

/* Whether the packet has a transmit time that is not before `late`. */
static inline bool ktsn_packet_in_time(const struct ktsn_shaper_packet *packet, int64_t late_tai_ns)
{
	return !packet->untimed && packet->txtime_tai_ns >= late_tai_ns;
}

/* Whether a leaves before b, everything else being equal. */
static inline bool ktsn_packet_before(const struct ktsn_shaper_packet *a, const struct ktsn_shaper_packet *b)
{
	if (a->txtime_tai_ns != b->txtime_tai_ns)
		return a->txtime_tai_ns < b->txtime_tai_ns;
	return a->order < b->order;
}

#endif
