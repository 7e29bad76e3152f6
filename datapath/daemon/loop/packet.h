/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A message of an application between ring and port, and the packets that carry its frames. Loop thread only.
 */
#ifndef KTSN_LOOP_PACKET_H
#define KTSN_LOOP_PACKET_H

#include "container_of.h"
#include "loop_objects.h"
#include "port.h"

/* Why a packet leaves late, if it does. */
enum late_reason { LATE_WAKEUP, LATE_TAKEN, LATE_PORT, LATE_UNRESOLVED, LATE_CLOCK };

/* Where frames leave the loop, each with its own order of departures. */
enum egress_id {
	EGRESS_UPLINK, /* to other nodes, through the gates */
	EGRESS_BRIDGE, /* to pods of this node: the gates are not theirs, and the link takes no time */
	EGRESSES,
};
static_assert(EGRESSES == (int)QUOTA_LANES, "a pod has a lane at each egress");

/* What an application handed over, until all of its frames have left or were dropped. */
struct message {
	struct loop_flow *flow;
	struct loop_destination *destination;
	int64_t requested_tai_ns;
	int64_t handed_tai_ns; /* when it was handed over (loop/accept.c) */
	uint32_t slot;
	uint32_t payload_bytes;
	uint16_t ipv4_id; /* of a message that may be fragmented, and of all its copies */
	bool reported;    /* its slot is the application's, as a report */
	bool overrun;     /* a frame of it that left was on the link when its gate shut */
	bool replicated;  /* it goes to several, and the rest below is set */
	uint8_t priority;
	uint16_t ethertype_be; /* of a packet socket */
	uint32_t trace;        /* of its flow, when it was taken; the next two are set only if there is one */
	int64_t called_tai_ns;
	int64_t taken_tai_ns;

	struct loop_replication *replication; /* where the copies go */
	const uint8_t *payload;               /* in the first packet's frame, until the copies are made */
	uint32_t copies_unmade;               /* after the first; packets are promised for them */
	uint32_t copies_left;                 /* that have neither left nor been dropped */
	uint32_t copies_sent;
	_Atomic uint64_t *outcome; /* what the message will count as */
	int64_t departed_tai_ns;   /* of the last copy */
};

/* One frame of a message: the only one, or a copy. */
struct packet {
	/* First: the shaper gives back a pointer to it. On a line of its own: when many are pending, the
	 * lines that must be fetched are what the shaper costs. */
	alignas(KTSN_CACHE_LINE_BYTES) struct ktsn_shaper_packet shaper;
	struct ktsn_port_frame frame;
	struct message *message;              /* whose frame it is */
	uint8_t egress;                       /* enum egress_id */
	uint8_t late_reason;                  /* enum late_reason */
	bool held;                            /* of a message, and not in the pool */
	bool overrun;                         /* it was on the link when its gate shut */
	uint8_t encryption;                   /* enum loop_encryption, of a frame for the uplink */
	bool esp;                             /* the frame has room for ESP */
	uint16_t payload_at;                  /* where the payload is in the frame */
	struct loop_association *association; /* by which the frame is sealed; NULL: it is not */
	int64_t refused_tai_ns;               /* first by the port; 0: not yet */
	struct packet *next;                  /* in the pool, or among those whose copies are being made */
	struct message own; /* of the packet that was taken for it: of the first copy, if there are several */
	/* An odd number of lines, or the first lines of all packets share a part of the sets of a cache. */
	alignas(KTSN_CACHE_LINE_BYTES) uint8_t apart[KTSN_CACHE_LINE_BYTES];
};
static_assert(sizeof(struct packet) / KTSN_CACHE_LINE_BYTES % 2 == 1, "packets share sets of a cache");

/* docs/architecture.md counts the lines that a message touches: of its packet three, unless it is traced or
 * goes to several. */
static_assert(offsetof(struct packet, frame) == 1 * KTSN_CACHE_LINE_BYTES, "the shaper's line");
static_assert(offsetof(struct packet, own.flow) >= 2 * KTSN_CACHE_LINE_BYTES, "the port's line");
static_assert(offsetof(struct packet, own.called_tai_ns) == 3 * KTSN_CACHE_LINE_BYTES, "the message's line");

/* The packet that was taken for the message, and stays with it until it ends. */
static inline struct packet *message_packet(const struct message *message)
{
	return container_of(message, struct packet, own);
}

static inline uint8_t *packet_payload(const struct packet *packet)
{
	return packet->frame.data + packet->payload_at;
}

#endif
