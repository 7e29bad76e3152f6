/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packet as the shaper sees it: embedded in the caller's own structure, the shaper's from enqueue to
 * dequeue, with the links of the queues in it, so that nothing here allocates and nothing can be full.
 */
#ifndef KTSN_SHAPER_PACKET_H
#define KTSN_SHAPER_PACKET_H

#include <stdbool.h>
#include <stdint.h>

/* Transmit times are from 0 to here, so that all that is computed from them fits into 64 bits. */
#define KTSN_TXTIME_MAX_NS INT64_C(9200000000000000000)

/* "Nothing will leave unless something is enqueued." */
#define KTSN_SHAPER_NEVER INT64_MAX

/* Lanes that can hold packets of a shaper at the same time: so many with transmit times, and as many without.
 */
enum { KTSN_SHAPER_LANES_MAX = 1024 };

/* What kept a packet from leaving at its transmit time. */
enum ktsn_wait {
	KTSN_WAIT_NONE,
	KTSN_WAIT_GATE, /* its gate was shut, or too little was left of the window */
	KTSN_WAIT_LINK, /* frames before it occupied the link */
};

struct ktsn_shaper_lane;

struct ktsn_shaper_packet {
	/* The caller's, before enqueue. */
	int64_t txtime_tai_ns; /* not before this; the last moment if it is a deadline */
	uint64_t order;        /* breaks ties: lower leaves first */
	uint32_t wire_bytes;   /* what it occupies of the link, see ktsn_frame_wire_bytes() */
	uint32_t sdu_bytes;    /* its MAC client data, for queue-max-sdu */
	uint8_t traffic_class; /* 0 to 7; higher is more important */
	bool deadline;         /* SOF_TXTIME_DEADLINE_MODE: only the strategy etf-deadline takes it so */
	bool untimed; /* nobody asked for its time: it is never late, and yields to what is in time */

	/* The shaper's. */
	bool patient; /* taken by a strategy that drops nothing for being late */

	/* The shaper's, for the caller to read after dequeue. */
	uint8_t waited; /* enum ktsn_wait */

	/* The queue's. */
	uint8_t left_rank, right_rank;

	/* The shaper's: when the window closes in which it leaves, less what it waits for frames of the same
	 * burst; INT64_MAX: it does not. */
	int64_t close_tai_ns;

	union {
		/* While it is in a queue. */
		struct {
			union {
				struct ktsn_shaper_packet *next;
				struct ktsn_shaper_packet *left;
			};
			union {
				struct ktsn_shaper_packet *tail; /* of the list, if it is the head */
				struct ktsn_shaper_packet *right;
			};
			struct ktsn_shaper_packet *heap; /* of its slot, if it is the head */
		};
		/* The shaper's, from dequeue until it may come back: its sender's turn that it was, and the
		 * one before. */
		struct {
			uint64_t turn; /* 0: none */
			uint64_t turn_before;
			int64_t end_before_tai_ns;
		};
		/* The shaper's, while it moves from one queue to another. */
		struct {
			struct ktsn_shaper_lane *sender;
			struct ktsn_shaper_packet *after;
		};
	};
};

/* Whether it was asked for a time that is not before `late`. */
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
