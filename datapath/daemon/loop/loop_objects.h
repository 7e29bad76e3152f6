/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structures that the control thread and the loop share: rings (one per application process), flows (one per
 * socket), destinations (one per address that a socket sends to), and the loop's parameters.
 *
 * The control thread creates the objects. They belong to the loop from RING_OPEN, FLOW_OPEN and
 * DESTINATION_OPEN until the loop retires them.
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
	/* Payload of an announcement that the loop sends (send.c). */
	LOOP_ANNOUNCEMENT_BYTES = 20,
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

/* Any object that can be retired. `owner` belongs to the control thread. */
struct loop_object {
	enum loop_object_kind kind;
	struct loop_object *next;
	void *owner;
};

enum loop_destination_state {
	DESTINATION_RESOLVING, /* messages wait */
	DESTINATION_RESOLVED,
	DESTINATION_UNREACHABLE, /* the neighbour does not answer: messages are dropped */
	DESTINATION_CLOSED,      /* endpoint or peer was removed: messages are dropped */
};

/* Whether frames of a network are encrypted on their way to other nodes. */
enum loop_encryption {
	LOOP_CLEAR,
	LOOP_PREFERRED, /* to nodes with an association; to other nodes they leave in clear */
	LOOP_REQUIRED,  /* without an association they are dropped */
	LOOP_ENCRYPTIONS,
};

/* Security association for frames to one node (send.c). Belongs to the loop until it is retired. */
struct loop_association {
	struct loop_object object;
	struct loop_association *next; /* of the same bucket */
	uint32_t address_be;           /* of the node */
	uint32_t spi;
	uint8_t salt[KTSN_ESP_SALT_BYTES];
	_Atomic uint32_t sequence; /* the last number used: none is used twice. Any thread reads it */
	uint32_t departing;        /* the highest number of frames that have left or are leaving */
	uint32_t sealed;           /* sealed packets that have neither left nor been dropped */
	bool replaced;
	struct ktsn_gcm_key *key;
};

/* Where frames of a destination go. DESTINATION_UPDATE replaces it as a whole. */
struct loop_route {
	enum loop_destination_state state;
	struct ktsn_frame_path path;
	struct ktsn_frame_tunnel tunnel;
	enum loop_encryption encryption; /* of frames in the tunnel */
	uint16_t clear_port_be;          /* of frames that leave in clear although encryption is preferred */
	uint32_t bridge_link_index;      /* to a pod of this node without tunnel: this bridge, or this port of
					  * one; 0: the uplink */
	uint32_t receiver_link_index;    /* for frames onto a bridge: the port of its receiver, or the bridge
					  */
	uint32_t payload_max_bytes;
	uint32_t tagged_max_bytes; /* the same for a message of a packet socket that begins with a VLAN tag */
};

/* Where one copy of a message goes. All copies share the rest of the route. */
struct loop_copy {
	uint32_t bridge_link_index;   /* to this port; 0: to the node in remote_be */
	uint32_t remote_be;           /* destination of the tunnel */
	uint8_t underlay_next_hop[6]; /* hardware address of the node or the gateway to it */
};

/* The receivers of a message to several. Immutable; DESTINATION_UPDATE replaces it as a whole, and it is
 * retired when no message needs it any more. State and longest payload are in the destination's own route. */
struct loop_replication {
	struct loop_object object;
	uint32_t messages; /* messages whose copies are being made */
	bool replaced;
	uint32_t pruned;   /* receivers without a member of the group, which get no copy */
	uint32_t left_out; /* receivers beyond LOOP_COPIES_MAX */
	bool single;       /* there is only one receiver: its message is no copy */
	uint32_t count;
	struct loop_route common; /* what the routes have in common */
	struct loop_copy copies[];
};

/* Receiver of messages to pods of this node: a port of a bridge. Belongs to the loop from RECEIVER_OPEN until
 * it is retired. */
struct loop_receiver {
	struct loop_object object;
	struct ktsn_port_receiver *port_receiver;
};

/* Allowed source addresses of frames. Immutable; DESTINATION_ADMISSION replaces it as a whole. */
enum { LOOP_SOURCE_MACS_MAX = 8, LOOP_SOURCE_SUBNETS_MAX = 16 };

struct loop_sources {
	struct loop_object object;
	bool any_address; /* any IP address is allowed; hardware addresses only from `macs` */
	uint32_t mac_count, subnet_count;
	uint8_t macs[LOOP_SOURCE_MACS_MAX][KTSN_ETHER_ADDR_BYTES];
	struct loop_source_subnet {
		struct ktsn_address network;
		uint8_t prefix_bits; /* of 128 */
	} subnets[LOOP_SOURCE_SUBNETS_MAX];
};

/* Frames that an application with packet sockets may send through its endpoint. */
struct loop_admission {
	struct loop_sources *sources; /* NULL: it has no packet sockets */
	uint8_t priority_max;         /* for packet sockets */
	bool pcp_is_priority;         /* the tag of a tagged frame of a packet socket sets its priority */
};

/* Treatment of messages with a transmit time, by the node's clock and the requirements of their network.
 */
enum loop_clock {
	LOOP_CLOCK_GOOD,
	LOOP_CLOCK_CONTINUE, /* the clock is lost: messages leave by it all the same */
	LOOP_CLOCK_HOLD,     /* the clock is lost: messages wait */
	LOOP_CLOCK_REFUSE,   /* the clock is lost: messages are refused; earlier ones leave */
};

/* A pod on a network: the state that its destinations there share. */
struct loop_attachment {
	struct loop_object object;
	enum loop_clock clock;
	struct ktsn_shaper_packet *held;  /* messages whose time has come while the clock is lost: a heap,
					   * the earliest transmit time first (clock_changes.c) */
	struct ring_list_link held_entry; /* in the list of attachments with held messages */
	int64_t over_tai_ns;              /* before this time no message was held for too long */
	bool releasing;                   /* its messages return to the shaper: which list it is in */
};

struct packet;

struct loop_destination {
	struct loop_object object;
	struct loop_flow *flow;
	struct loop_ring *ring;
	struct loop_attachment *attachment; /* NULL: not on a network */
	struct loop_route route;
	struct loop_replication *replication; /* NULL: one receiver */
	struct loop_admission admission;
	uint8_t priority;                   /* SO_PRIORITY & 15 when the destination was created */
	uint32_t packets;                   /* messages held */
	struct ktsn_shaper_packet *pending; /* messages that wait for RESOLVED or for their turn: a heap,
					     * the earliest transmit time first */
	uint32_t pending_count;
	struct ring_list_link released_entry; /* in its quota's list of destinations whose messages need not
						 wait any more */
	bool is_released;
	struct loop_destination *closing_next; /* in the list that is closed after all messages in the ring
						* have been taken */
	uint32_t closing_index;                /* its number in the ring, while in that list */
	bool closed;
	bool retired;
};

/*
 * When the next message of a flow is expected: for a flow that sends periodically the loop polls the ring
 * just in time, without a doorbell.
 */
struct expectation {
	struct ktsn_shaper_packet entry;   /* in the loop's queue of expectations while `queued` */
	struct ktsn_shaper_packet of_ring; /* the same time in its ring's heap */
	int64_t expected_tai_ns;           /* if it is later than the entry, the entry is queued again */
	int64_t last_tai_ns;               /* transmit time of the last message; 0: none yet */
	bool queued;
};

/* The same values as on the application socket. */
enum { NOTIFY_REPORT = 1, NOTIFY_SPACE = 2 };

struct loop_flow {
	struct loop_object object;
	struct loop_ring *ring;
	uint64_t number;     /* unique in this ktsnd, for the departures */
	uint64_t burst;      /* the last burst with a message of it: a burst has at most one */
	uint32_t burst_slot; /* slot of that message; all of its copies may be in the burst */
	enum ktsn_clock clock;
	bool deadline;           /* SOF_TXTIME_DEADLINE_MODE */
	bool report;             /* SOF_TXTIME_REPORT_ERRORS */
	bool frames;             /* packet socket: messages have their own EtherType and priority */
	_Atomic uint32_t notify; /* NOTIFY_...: why its application must be woken; 0: not in the list */
	struct loop_flow *notify_next;
	uint16_t ipv4_id; /* of the next message that may be fragmented; starts at random, as in the kernel
			   */
	uint32_t packets; /* messages held */
	struct loop_flow *closing_next; /* as in struct loop_destination */
	uint32_t closing_index;
	bool closed;
	bool retired;
	_Atomic uint32_t trace; /* number of the trace that records its messages; 0: none. Written by the
				   control thread */
	struct flow_counters counters; /* next to members that a departure touches anyway */
	struct expectation expectation;
};

/* The gates of the uplink, from one COMMAND_GATES until the next. Both threads read them. */
struct loop_gates {
	struct loop_object object;
	struct ktsn_gates gates;
};

enum { LOOP_PRIORITIES = 16 };

/* The class of a message and the priority code point of its frames. */
struct loop_classes {
	uint8_t of_priority[LOOP_PRIORITIES]; /* traffic-class-map, by SO_PRIORITY & 15 */
	uint8_t pcp[KTSN_CLASSES];            /* priority-code-points */
};

struct loop_ring {
	struct loop_object object;
	struct ktsn_ring_consumer consumer;
	struct quota *quota; /* of the pod that the process belongs to */
	/* Its messages have no transmit time: they leave as soon as possible. */
	bool untimed;
	struct ring_list_link untimed_entry; /* in the list of open untimed rings */
	int64_t recovered_tai_ns;            /* when it was taken over; old messages in it are stale */
	int doorbell_set_fd;                 /* epoll set of its doorbell (doorbells.h); -1: not known yet */
	bool opened;                         /* by RING_OPEN; no message is taken before that */
	/* Messages that were sent before a network of its pod refused messages, or before the ring was
	 * opened: up to this sequence number, and at most so many, because the application writes the
	 * numbers. */
	uint64_t sent_before;
	uint32_t sent_before_most;
	uint32_t uncertain; /* slots that were departing when another ktsnd ended; counted by RING_OPEN */
	struct loop_destination *closing_destinations;
	struct loop_flow *closing_flows;
	bool closing; /* no new messages come; closed after all messages in it have been taken */
	bool closed;
	bool retired;
	uint32_t busy;                        /* messages are being taken: must not be retired now */
	bool backlog;                         /* messages were left in it */
	bool watched;                         /* in the list of rings to poll */
	struct ring_list_link watch;          /* in its quota's list of rings to poll */
	struct ring_list_link throttle_entry; /* in the list of throttled rings */
	bool throttled;                       /* its doorbell rang too often and is disarmed */
	uint32_t expectations; /* queued expectations of its flows: the ring must not be freed */
	struct ktsn_shaper_packet *expected; /* a heap of those, by `of_ring` */
	int64_t threshold_tai_ns; /* the doorbell is for messages due before this; KTSN_SHAPER_NEVER: for all
				   */
	_Atomic uint32_t announced; /* destinations that queued commands will open; both threads write it */
	struct loop_flow *flows[LOOP_FLOWS_PER_RING];
	struct loop_destination *destinations[LOOP_DESTINATIONS_PER_RING];
};

/* Parameters of a loop, which keeps a copy. */
struct loop_config {
	struct ktsn_port *port;        /* the uplink, with the buffers for all frames; outlives the loop */
	struct ktsn_port *bridge_port; /* the bridges of this node; outlives the loop; NULL: none */
	uint32_t withdrawn_max;        /* frames that the uplink's port can withdraw after it took them
					  (outcome.h) */
	uint32_t packets;              /* messages that can be pending at once, over all rings */
	uint32_t departures;           /* departures that are kept at least; 0: DEPARTURES_KEPT_DEFAULT */
	int64_t spin_ns;               /* awake this long before a departure */
	int64_t late_after_ns;         /* a departure that is later than this is late */
	int64_t stale_after_ns; /* a frame that the port does not take within this time is dropped; so is an
				 * untimed message that is older than this when its ring is taken over */
	int64_t delta_ns;       /* strategy etf: a message that would be later than this is dropped */
	enum ktsn_strategy strategy;
	uint64_t link_speed_bps; /* 0: frames take no time on the link */
	int64_t guard_band_ns;   /* a frame must have left this long before its gate closes */
	int cpu;                 /* to run on; -1: any */
	int fifo_priority;       /* SCHED_FIFO; 0: ordinary scheduling */
};

/* Scheduling that the kernel allowed for the loop's thread. */
struct loop_scheduling {
	bool fifo;
	bool pinned;
};

/* How the loop uses its real-time budget. A copy. */
struct loop_budget_use {
	int64_t runtime_ns, period_ns; /* as they were set */
	int64_t used_ns;               /* in the last whole period */
	int64_t most_used_ns;          /* in any period since these were set */
	uint64_t rests, rests_forced;  /* between events; where no gap was long enough */
	uint64_t stops, stopped_ns;    /* times that the kernel took the processor for 10 ms or longer, and
					* their sum */
	uint64_t host_pauses;          /* times that the machine stood still for 10 ms or longer */
};

#endif
