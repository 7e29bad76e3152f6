/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the loop knows of the world: rings (one per application process), flows (one per socket), destinations
 * (one per address that a socket sends to).
 *
 * The control thread makes them. They are the loop's from RING_OPEN, FLOW_OPEN and DESTINATION_OPEN until the
 * loop retires them.
 */
#ifndef KTSN_LOOP_LOOP_OBJECTS_H
#define KTSN_LOOP_LOOP_OBJECTS_H

#include "address.h"
#include "counters.h"
#include "esp.h"
#include "frame.h"
#include "gcm.h"
#include "port.h"
#include "quota.h"
#include "ring_consumer.h"
#include "shaper.h"
#include "txtime_queue.h"

#include <stdbool.h>

enum {
	LOOP_FLOWS_PER_RING = 256,
	LOOP_DESTINATIONS_PER_RING = 4096,
	LOOP_RINGS_MAX = 4096,
	LOOP_COPIES_MAX = 1024, /* of one message */
};

enum loop_object_kind {
	LOOP_RING,
	LOOP_FLOW,
	LOOP_DESTINATION,
	LOOP_GATES,
	LOOP_REPLICATION,
	LOOP_SOURCES,
	LOOP_ATTACHMENT,
	LOOP_ASSOCIATION,
	LOOP_RECEIVER,
};

struct ktsn_port_receiver;

/* What can be retired. `owner` is the control thread's own. */
struct loop_object {
	enum loop_object_kind kind;
	struct loop_object *next;
	void *owner;
};

enum loop_destination_state {
	DESTINATION_RESOLVING, /* messages wait */
	DESTINATION_RESOLVED,
	DESTINATION_UNREACHABLE, /* nobody answers: messages are dropped */
	DESTINATION_CLOSED,      /* endpoint or peer is gone: messages are dropped */
};

/* Whether frames of a network are encrypted on their way to other nodes. */
enum loop_encryption {
	LOOP_CLEAR,
	LOOP_PREFERRED, /* to nodes for which there is an association; to others they go in clear */
	LOOP_REQUIRED,  /* or are dropped */
	LOOP_ENCRYPTIONS,
};

/* By which frames to one node are sealed (send.h). The loop's until it is retired. */
struct loop_association {
	struct loop_object object;
	struct loop_association *next; /* of the same bucket */
	uint32_t address_be;           /* of the node */
	uint32_t spi;
	uint8_t salt[KTSN_ESP_SALT_BYTES];
	_Atomic uint32_t sequence; /* the last number given: no other is given twice. Any thread reads it */
	uint32_t departing;        /* the highest number of those that have left, or are leaving */
	uint32_t sealed;           /* packets that have neither left nor been dropped */
	bool replaced;
	struct ktsn_gcm_key *key;
};

/* Where frames of a destination go; replaced as a whole by DESTINATION_UPDATE. */
struct loop_route {
	enum loop_destination_state state;
	struct ktsn_frame_path path;
	struct ktsn_frame_tunnel tunnel;
	enum loop_encryption encryption; /* of what goes through the tunnel */
	uint32_t bridge_link_index;   /* to a pod of this node: onto this bridge, or out of this port of one,
				       * without tunnel; 0: the uplink */
	uint32_t receiver_link_index; /* of what goes onto a bridge: the port that is its receiver's, or the
				       * bridge */
	uint32_t payload_max_bytes;
	uint32_t tagged_max_bytes; /* the same of a message of a flow of frames that begins with a VLAN tag */
};

/* Where one copy of a message goes; the rest of its route it has in common with the others. */
struct loop_copy {
	uint32_t bridge_link_index;   /* out of this port; 0: to the node: */
	uint32_t remote_be;           /* destination of the tunnel */
	uint8_t underlay_next_hop[6]; /* hardware address of the node, or of the gateway to it */
};

/* Where the copies of a message go that goes to several. Immutable; replaced as a whole by
 * DESTINATION_UPDATE, and retired when no message needs it any more. The destination's own route says state
 * and longest payload. */
struct loop_replication {
	struct loop_object object;
	uint32_t messages; /* whose copies are being made */
	bool replaced;
	uint32_t pruned;   /* receivers that have no member of the group, and get no copy */
	uint32_t left_out; /* receivers beyond LOOP_COPIES_MAX */
	bool single;       /* there is but one receiver, and it is known: its message is no copy */
	uint32_t count;
	struct loop_route common; /* what their routes have in common */
	struct loop_copy copies[];
};

/* Of messages to pods of this node: a port of a bridge. The loop's from RECEIVER_OPEN until it is retired. */
struct loop_receiver {
	struct loop_object object;
	struct ktsn_port_receiver *port_receiver;
};

/* Whose addresses frames may have. Immutable; replaced as a whole by DESTINATION_ADMISSION. */
enum { LOOP_SOURCE_MACS_MAX = 8, LOOP_SOURCE_SUBNETS_MAX = 16 };

struct loop_sources {
	struct loop_object object;
	bool any_address; /* IP addresses of anybody; hardware addresses only these: */
	uint32_t mac_count, subnet_count;
	uint8_t macs[LOOP_SOURCE_MACS_MAX][KTSN_ETHER_ADDR_BYTES];
	struct loop_source_subnet {
		struct ktsn_address network;
		uint8_t prefix_bits; /* of all 128 */
	} subnets[LOOP_SOURCE_SUBNETS_MAX];
};

/* What an application that writes frames itself may send through its endpoint. */
struct loop_admission {
	struct loop_sources *sources; /* NULL: it writes none */
	uint8_t priority_max;         /* of a flow of frames */
	bool pcp_is_priority;         /* likewise, of a message that begins with a VLAN tag */
};

/* What becomes of messages with a transmit time, by the node's clock and what their network asks of it. */
enum loop_clock {
	LOOP_CLOCK_GOOD,
	LOOP_CLOCK_CONTINUE, /* it is lost from here on: they leave by it all the same, */
	LOOP_CLOCK_HOLD,     /* wait, */
	LOOP_CLOCK_REFUSE,   /* or are not taken; those that were sent before leave */
};

/* A pod on a network: what its destinations there have in common. */
struct loop_attachment {
	struct loop_object object;
	enum loop_clock clock;
	struct ktsn_shaper_packet *held;  /* messages whose time has come while the clock was lost: a heap of
					   * them, the earliest transmit time first (clock_changes.c) */
	struct ring_list_link held_entry; /* among those that have such messages */
	int64_t over_tai_ns;              /* before this none of them has waited for too long */
	bool releasing;                   /* they go on: in which of the lists it is */
};

struct packet;

struct loop_destination {
	struct loop_object object;
	struct loop_flow *flow;
	struct loop_ring *ring;
	struct loop_attachment *attachment; /* NULL: it is on no network */
	struct loop_route route;
	struct loop_replication *replication; /* NULL: it goes to one */
	struct loop_admission admission;
	uint8_t priority; /* SO_PRIORITY & 15; as the source address, what it was when this was made */
	uint32_t packets; /* messages held */
	struct ktsn_shaper_packet *pending; /* messages that wait for RESOLVED, or for their turn: a heap of
					     * them, the earliest transmit time first */
	uint32_t pending_count;
	struct ring_list_link
		released_entry; /* among those of its quota whose messages need not wait any more */
	bool is_released;
	struct loop_destination *closing_next; /* of those that are closed once what is in the ring has been
						* taken */
	uint32_t closing_index;                /* its number in the ring, then */
	bool closed;
	bool retired;
};

/*
 * When the next message of a flow is expected: a flow that sends every T has the loop poll its ring
 * just in time without a doorbell.
 */
struct expectation {
	struct ktsn_shaper_packet entry;   /* in the loop's queue of expectations while `queued` */
	struct ktsn_shaper_packet of_ring; /* the same in its ring's heap */
	int64_t expected_tai_ns;           /* may be later than the entry: then it is queued again */
	int64_t last_tai_ns;               /* transmit time of the last message; 0: none yet */
	bool queued;
};

/* As on the application socket. */
enum { NOTIFY_REPORT = 1, NOTIFY_SPACE = 2 };

struct loop_flow {
	struct loop_object object;
	struct loop_ring *ring;
	uint64_t number;     /* in the whole of ktsnd, for the departures */
	uint64_t burst;      /* the last in which one of its messages was: there is one in each */
	uint32_t burst_slot; /* of that message, all of whose copies may be in it */
	enum ktsn_clock clock;
	bool deadline; /* SOF_TXTIME_DEADLINE_MODE */
	bool report;   /* SOF_TXTIME_REPORT_ERRORS */
	bool frames;   /* its messages say EtherType and priority themselves */
	_Atomic uint32_t
		notify; /* NOTIFY_...: why its application is to be woken; 0: it is not in the list */
	struct loop_flow *notify_next;
	uint16_t ipv4_id; /* of the next message that may be fragmented; begins at random, as a socket's of
			     the kernel */
	uint32_t packets; /* messages held */
	struct loop_flow *closing_next; /* as of a destination */
	uint32_t closing_index;
	bool closed;
	bool retired;
	_Atomic uint32_t
		trace; /* number of the trace that records its messages, 0: none; the control thread's */
	struct flow_counters counters; /* beside what a departure touches anyway */
	struct expectation expectation;
};

/* The gates of the uplink, from COMMAND_GATES until the next. Read by both threads. */
struct loop_gates {
	struct loop_object object;
	struct ktsn_gates gates;
};

enum { LOOP_PRIORITIES = 16 };

/* Which class a message belongs to, and what its frames say of it. */
struct loop_classes {
	uint8_t of_priority[LOOP_PRIORITIES]; /* traffic-class-map, by SO_PRIORITY & 15 */
	uint8_t pcp[KTSN_CLASSES];            /* priority-code-points */
};

struct loop_ring {
	struct loop_object object;
	struct ktsn_ring_consumer consumer;
	struct quota *quota; /* of the pod whose process has it */
	/* Its messages have no transmit time: they leave when they can. */
	bool untimed;
	struct ring_list_link untimed_entry; /* among those that are open, if it is one */
	int64_t recovered_tai_ns; /* when it was taken over; what is in it then, and was old, is stale */
	int doorbell_set_fd;      /* what its doorbell is in (doorbells.h); -1: not known yet */
	bool opened;              /* by RING_OPEN; nothing is taken before */
	/* What was sent before a network of its pod refused messages, or before it was opened: up to this
	 * number, and so many at most, for the numbers are the application's word. */
	uint64_t sent_before;
	uint32_t sent_before_most;
	uint32_t uncertain; /* slots that were departing when another ktsnd ended; counted by RING_OPEN */
	struct loop_destination *closing_destinations;
	struct loop_flow *closing_flows;
	bool closing; /* nothing new comes; closed once what is in it has been taken */
	bool closed;
	bool retired;
	uint32_t busy;               /* being taken from: must not be retired under the taker's feet */
	bool backlog;                /* messages were left in it */
	bool watched;                /* to be polled */
	struct ring_list_link watch; /* among those of its quota */
	struct ring_list_link throttle_entry; /* among those whose doorbell is not listened to */
	bool throttled;                       /* its doorbell came too often */
	uint32_t expectations;                /* queued ones of its flows, so the ring must not be freed */
	struct ktsn_shaper_packet *expected;  /* a heap of them, by their `of_ring` */
	int64_t threshold_tai_ns; /* the doorbell is for messages due before this; KTSN_SHAPER_NEVER: for all
				   */
	_Atomic uint32_t announced; /* its destinations that commands under way will open; both threads' */
	struct loop_flow *flows[LOOP_FLOWS_PER_RING];
	struct loop_destination *destinations[LOOP_DESTINATIONS_PER_RING];
};

/* Parameters of a loop, which keeps a copy. */
struct loop_config {
	struct ktsn_port *port;        /* of the uplink, with the buffers for all frames; outlives the loop */
	struct ktsn_port *bridge_port; /* onto the bridges of this node, likewise; NULL: there is none */
	uint32_t withdrawn_max;        /* frames that the uplink's port may withdraw after it took them
					  (outcome.h) */
	uint32_t packets;              /* messages that may be held at once, over all rings */
	uint32_t departures;           /* that are remembered at least; 0: DEPARTURES_KEPT_DEFAULT */
	int64_t spin_ns;               /* awake this long before a departure */
	int64_t late_after_ns;         /* a departure later than this after its time is not on time */
	int64_t stale_after_ns; /* what the port does not take within this after it was first offered is
				 * dropped; so is what had no time and is older than this when its ring is
				 * taken over */
	int64_t delta_ns;       /* strategy etf: one that would be later than this is dropped */
	enum ktsn_strategy strategy;
	uint64_t link_speed_bps; /* 0: frames take no time */
	uint16_t vxlan_port;     /* of what leaves in clear although it was to be encrypted */
	int64_t guard_band_ns;   /* a frame must have left so long before its gate shuts */
	int cpu;                 /* to run on; -1: any */
	int fifo_priority;       /* SCHED_FIFO; 0: ordinary scheduling */
};

/* What the loop's thread was allowed. */
struct loop_scheduling {
	bool fifo;
	bool pinned;
};

/* How the loop uses its real-time budget. A copy. */
struct loop_budget_use {
	int64_t runtime_ns, period_ns; /* as they were set */
	int64_t used_ns;               /* in the last whole period */
	int64_t most_used_ns;          /* in any period since these were set */
	uint64_t rests, rests_forced;  /* between events; where nothing was long enough */
	uint64_t stops, stopped_ns; /* times that the kernel took the processor for 10 ms or longer, and for
				     * how long all of them */
	uint64_t host_pauses;       /* times that the machine stood still for so long */
};

#endif
