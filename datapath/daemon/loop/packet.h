/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message of an application between ring and port, and the packets that carry its frames. Loop thread only.
 */
#ifndef KTSN_LOOP_PACKET_H
#define KTSN_LOOP_PACKET_H

#include "loop_objects.h"
#include "port.h"

/* Why a packet leaves late, if it does. */
enum late_reason { LATE_WAKEUP, LATE_TAKEN, LATE_PORT, LATE_UNRESOLVED };

/* Where frames leave the loop, each with its own order of departures. */
enum egress_id {
	EGRESS_UPLINK, /* to other nodes, through the gates */
	EGRESS_BRIDGE, /* to pods of this node: the gates are not theirs, and the link takes no time */
	EGRESSES,
};
static_assert(EGRESSES == (int)QUOTA_LANES, "a pod has a lane at each egress");

/* A message between ring and port. */
struct packet {
	/* First: the shaper gives back a pointer to it. On a line of its own: when many are pending, the lines that
	 * must be fetched are what the shaper costs. */
	alignas(KTSN_CACHE_LINE_BYTES) struct ktsn_shaper_packet shaper;
	struct ktsn_port_frame frame;
	enum egress_id egress;
	struct loop_flow *flow;
	struct loop_destination *destination;
	int64_t requested_tai_ns;
	int64_t handed_tai_ns;  /* when it was handed over (loop/accept.c) */
	int64_t refused_tai_ns; /* first by the port; 0: not yet */
	uint16_t ipv4_id;       /* of a message that may be fragmented, and of all its copies */
	uint32_t trace; /* of its flow, when it was taken; the next two are set only if there is one */
	int64_t called_tai_ns;
	int64_t taken_tai_ns;
	uint32_t slot;
	uint32_t payload_bytes;
	enum late_reason late_reason;
	bool held;           /* of a message, and not in the pool */
	bool overrun;        /* it, or a copy of it, was on the link when its gate shut */
	bool reported;       /* its slot is the application's, as a report */
	struct packet *next; /* in the pool, or pending at a destination */

	struct packet
		*message; /* whose copy it is, itself if it is the first; NULL: the message goes to one */
	/* Of the first copy: */
	struct loop_replication *copies; /* where they go */
	const uint8_t *payload;          /* in its frame, until the copies are made */
	uint32_t copies_unmade;          /* beside the first; packets are promised for them */
	uint32_t copies_left;            /* that have neither left nor been dropped */
	uint32_t copies_sent;
	_Atomic uint64_t *outcome; /* what the message will count as */
	int64_t departed_tai_ns;   /* of the last copy */
};

#endif
