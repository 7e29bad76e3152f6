/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop's own state: messages and packets, and a structure for each stage. The comment of a structure
 * names the file that changes it; other files are named at the members. Everything belongs to the loop
 * thread, except for the last part of struct loop, which the control thread uses too.
 */
#ifndef KTSN_LOOP_LOOP_STATE_H
#define KTSN_LOOP_LOOP_STATE_H

#include "budget.h"
#include "command_queue.h"
#include "container_of.h"
#include "counters.h"
#include "journal.h"
#include "layout.h"
#include "loop_objects.h"
#include "port.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- messages and packets ---- */

/* Why a packet leaves late, if it does. */
enum late_reason { LATE_WAKEUP, LATE_TAKEN, LATE_PORT, LATE_UNRESOLVED, LATE_CLOCK };

/* Where frames leave the loop. Each egress has its own order of departures. */
enum egress_id {
	EGRESS_UPLINK, /* to other nodes, through the gates */
	EGRESS_BRIDGE, /* to pods of this node: no gates, and frames take no time on the link */
	EGRESSES,
};
static_assert(EGRESSES == (int)QUOTA_LANES, "a pod has a lane at each egress");

/* A message of an application, until all of its frames have left or were dropped. */
struct message {
	struct loop_flow *flow;
	struct loop_destination *destination;
	int64_t requested_tai_ns;
	int64_t handed_tai_ns; /* when the application sent it (accept.c) */
	uint32_t slot;
	uint32_t payload_bytes;
	uint16_t ipv4_id; /* of a message that may be fragmented, and of all its copies */
	bool reported;    /* its slot is the application's, as a report */
	bool overrun;     /* a frame of it that left was on the link when its gate shut */
	bool replicated;  /* to several receivers; the members after trace are set */
	uint8_t priority : 4;
	uint8_t stamps : 4;    /* KTSN_STAMP_... */
	uint16_t ethertype_be; /* of a packet socket */
	uint32_t trace; /* trace number of its flow when it was taken; the next two are set only if it is not
			   0 */
	int64_t called_tai_ns;
	int64_t taken_tai_ns;

	struct loop_replication *replication; /* where the copies go */
	const uint8_t *payload;               /* in the first packet's frame until the copies are made */
	uint32_t copies_unmade;               /* copies after the first; packets are reserved for them */
	uint32_t copies_left;                 /* copies that have neither left nor been dropped */
	uint32_t copies_sent;
	_Atomic uint64_t *outcome; /* counter that the message will be counted in */
	int64_t departed_tai_ns;   /* of the last copy */
};

/* A frame of a message: its only one, or a copy. */
struct packet {
	/* First: the shaper gives back a pointer to it. On a line of its own: when many are pending, the
	 * lines that must be fetched are what the shaper costs. */
	alignas(KTSN_CACHE_LINE_BYTES) struct ktsn_shaper_packet shaper;
	struct ktsn_port_frame frame;
	struct message *message;              /* whose frame it is */
	uint8_t egress;                       /* enum egress_id */
	uint8_t late_reason;                  /* enum late_reason */
	bool held;                            /* it has a message and is not in the pool */
	bool overrun;                         /* it was on the link when its gate shut */
	uint8_t encryption;                   /* enum loop_encryption, of a frame for the uplink */
	bool esp;                             /* the frame has room for ESP */
	uint16_t payload_at;                  /* where the payload is in the frame */
	struct loop_association *association; /* the frame is sealed by it; NULL: not sealed */
	int64_t refused_tai_ns;               /* when the port first had no room for it; 0: not yet */
	struct packet *next; /* in the pool, or in the list of messages whose copies are being made */
	struct message own; /* set in the packet that was taken for the message: its only one or first copy */
	/* An odd number of lines, or the first lines of all packets share a part of the sets of a cache. */
	alignas(KTSN_CACHE_LINE_BYTES) uint8_t apart[KTSN_CACHE_LINE_BYTES];
};
static_assert(sizeof(struct packet) / KTSN_CACHE_LINE_BYTES % 2 == 1, "packets share sets of a cache");

/* docs/internals/packet.md counts the lines that a message touches: of its packet three, unless it is
 * traced or goes to several. */
static_assert(offsetof(struct packet, frame) == 1 * KTSN_CACHE_LINE_BYTES, "the shaper's line");
static_assert(offsetof(struct packet, own.flow) >= 2 * KTSN_CACHE_LINE_BYTES, "the port's line");
static_assert(offsetof(struct packet, own.called_tai_ns) == 3 * KTSN_CACHE_LINE_BYTES, "the message's line");

/* Returns the packet that was taken for the message, and stays with it until its end. */
static inline struct packet *message_packet(const struct message *message)
{
	return container_of(message, struct packet, own);
}

static inline uint8_t *packet_payload(const struct packet *packet)
{
	return packet->frame.data + packet->payload_at;
}

/* ---- the state of each stage ---- */

/* A shaper and its port. send.c */
struct egress {
	struct ktsn_port *port;
	struct ktsn_shaper *shaper;
	int64_t retry_tai_ns; /* nothing is sent before this: the port had no room */
};

/* Settings of all egresses. commands.c */
struct loop_shaping {
	enum ktsn_strategy strategy;
	struct loop_gates *gates; /* NULL: none were configured, all are open */
	struct loop_classes classes;
};

/* pool.c */
struct loop_pool {
	struct packet *packets;
	struct packet *free;
	uint32_t free_count;
	bool is_short; /* a message waits in a ring for a packet or a frame (take.c) */
};

/* A round of taking. take.c; round.c reads the clock */
struct loop_round {
	uint64_t messages; /* of all rounds; orders those of equal time */
	int64_t began_tai_ns;
	int64_t last_began_tai_ns; /* the one before: the clock is set back when the next is earlier */
	int64_t now_tai_ns;        /* about now, while taking */
	uint32_t taken;            /* messages taken in it, and rings polled */
};

/* Offsets from the applications' clocks to CLOCK_TAI: clock_tai_ns = clock_ns + to_tai_ns[clock]. round.c */
struct clock_offsets {
	int64_t to_tai_ns[KTSN_CLOCKS];
};

/* clock_changes.c */
struct loop_clocks {
	struct clock_offsets offsets;
	int64_t read_tai_ns;
	struct clock_offsets held_offsets; /* by which the packets below have their times */
	uint32_t foreign_packets;          /* held for flows whose clock is not TAI */
};

/* Rings to poll, and when a message of one is expected. watch.c */
struct loop_watch {
	struct ring_list_link *quotas; /* with rings to poll, whose turn it is next; NULL: none */
	uint32_t quota_count;
	struct ktsn_txtime_queue expectations;
	uint64_t expectations_queued;   /* ever */
	_Atomic uint64_t polls;         /* of rings (take.c); any thread reads it */
	_Atomic uint64_t doorbells_set; /* thresholds written; any thread reads it */
};

/* Heartbeat of untimed rings. watch.c */
struct loop_alive {
	struct ring_list_link *rings; /* open untimed rings, the next to be written first; NULL: none */
	uint32_t count;
	uint32_t left;  /* rings that are still to be written this time */
	uint32_t gated; /* as in struct ktsn_ring_header */
	bool gates_known;
	int64_t updated_tai_ns;
};

/* Shares of pods in the pool. pool.c */
struct loop_quotas {
	struct quota *open; /* quotas with rings */
	uint32_t open_count;
	uint32_t reserve;       /* of each pod */
	uint32_t reserved_free; /* unused part of all reserves, future pods included */
	int64_t next_tai_ns; /* when a pod's rate allows more again; KTSN_SHAPER_NEVER: no pod is at its rate
			      */
};

/* Rings whose doorbells rang too often. watch.c */
struct loop_throttle {
	struct ring_list_link *rings; /* NULL: none */
	uint32_t count;
	uint32_t release_left; /* number of the first rings that are being armed again */
	int64_t until_tai_ns;  /* when rings are armed again; KTSN_SHAPER_NEVER: there is none */
};

/* Pending messages whose next hop is known now. accept.c */
struct loop_released {
	struct ring_list_link *quotas; /* with such messages, whose turn it is next; NULL: none */
	uint32_t count;                /* those messages; they wait for room or their turn */
};

/* Messages whose time has come while their network has lost the clock. clock_changes.c */
struct loop_held {
	uint32_t lost;                  /* attachments whose network has lost the clock */
	uint32_t count;                 /* packets */
	uint32_t concerns;              /* sum of both: one comparison shows that there is nothing to do */
	struct ring_list_link *holding; /* attachments with held packets whose clock is lost */
	struct ring_list_link
		*releasing;     /* attachments whose packets return to the shaper, the next turn first */
	int64_t over_tai_ns;    /* before this time no packet was held for too long */
	uint32_t holding_count; /* attachments in `holding` */
	uint32_t checks_left;   /* attachments that the current check has not reached yet */
	int64_t checked_tai_ns; /* result of the current check for over_tai_ns */
};

/* Messages whose copies are being made. shape.c */
struct loop_replications {
	struct ring_list_link *quotas; /* with such messages, whose turn it is next; NULL: none */
	uint32_t promised;             /* packets that are reserved for those copies */
	uint32_t sent_in_part; /* messages of which some copies have left and others have not (outcome.c) */
};

/* send.c */
struct loop_sending {
	uint64_t bursts;    /* bursts given to a port since the start */
	bool clock_doubted; /* this round sent nothing in order to read the clocks first */
};

/* How a frame that the uplink took was counted. outcome.c */
struct sent_frame {
	/* Counter of the message's lateness. NULL: other copies have left or may leave, and the message stays
	 * counted as sent. */
	_Atomic uint64_t *lateness;
	struct loop_flow *flow; /* NULL: the flow has ended */
	uint8_t traffic_class;
	bool copy;
	bool clock_lost;
};

struct loop_withdrawals {
	struct sent_frame *frames; /* a ring; NULL: the port never withdraws frames */
	uint32_t size, last, count;
	_Atomic uint32_t reported; /* frames that were withdrawn, and not counted yet */
};

/* Security associations by node address. send.c */
enum { SEAL_BUCKETS = 1024 };
struct loop_seal {
	struct loop_association *buckets[SEAL_BUCKETS];
};

/* An announcement of ktsnd to another node, which waits for a gap between departures. send.c */
struct loop_announcing {
	struct loop_route route;
	uint8_t payload[LOOP_ANNOUNCEMENT_BYTES];
	int64_t next_tai_ns;  /* when to look for a gap; KTSN_SHAPER_NEVER: none waits */
	int64_t until_tai_ns; /* then it leaves without one */
};

/* Late frames that yield. send.c */
struct loop_yield {
	int64_t frame_ns;           /* how long the port takes for a frame; learnt */
	int64_t due_tai_ns;         /* when the next frame of traffic_class or a higher one is due */
	unsigned int traffic_class; /* KTSN_CLASSES: not known */
	bool yielded;               /* a late frame has waited, and no late frame was sent since */
};

/* wait.c */
struct loop_waiting {
	int epoll_fd;
	int kick_fd; /* eventfd: the control thread has a command */
	int64_t doorbells_polled_tai_ns;
	int64_t poll_ns;       /* how long polling the doorbells takes; learnt */
	int64_t warmed_tai_ns; /* the departure that the port was warmed up for last */
	int64_t warm_up_ns;    /* how long warming up takes; learnt */
	int64_t lead_ns;       /* awake this long before an event; learnt */
	bool was_late;         /* a wake-up has been too late at least once */
	int64_t asleep_tai_ns; /* when the rings were polled last; a message with a later time found ktsnd
				* asleep. INT64_MAX: the application woke it. Also take.c */
};

/* Rests for the real-time budget. wait.c */
struct loop_rest {
	struct budget budget;
	uint64_t followed_us; /* value of granted_us from which the budget was made */
	/* The account: its time, the processor time charged until then, and the sleep that the loop has asked
	 * for since then. */
	int64_t read_ns, charged_ns, asked_ns;
	int64_t waited_ns,
		waited_read_ns; /* how long the thread has waited for a processor, and when that was read */
	int64_t slice_ns;       /* the shortest rest that is worth it; learnt */
	int64_t lead_ns;        /* a rest ends this long before the end of a gap; learnt */
	int schedstat_fd;       /* -1: the kernel has none */
	/* Any thread. */
	_Atomic uint64_t granted_us; /* runtime << 32 | period; 0: the kernel stops nobody */
	_Atomic int64_t window;      /* number of the period (of CLOCK_MONOTONIC) that the account is in */
	_Atomic int64_t used_ns, used_before_ns; /* in `window`, and in the period before it */
	_Atomic int64_t most_used_ns;            /* in any period */
	_Atomic uint64_t rests, rests_forced;    /* rests in gaps; rests where no gap was long enough */
	_Atomic uint64_t stops, stopped_ns;      /* times that the kernel stopped the thread */
	_Atomic uint64_t host_pauses;            /* times that the machine stood still */
};

/* Objects for the control thread, the newest first, and an eventfd that is readable when there are any.
 * outcome.c */
struct loop_retired {
	_Atomic(struct loop_object *) first;
	int fd;
};
struct loop_notifications {
	_Atomic(struct loop_flow *) first;
	int fd;
};

/* Requests of the control thread to the thread. loop.c */
struct loop_control {
	pthread_t thread;
	bool running; /* the control thread's own */
	_Atomic bool link_down;
	_Atomic bool stop;
	_Atomic bool pause;
	_Atomic bool standing; /* the thread stands still because of `pause` */
	int64_t pause_seen_ns; /* since when `pause` is set and the loop continues for copies; 0: no pause.
				  The loop's own */
};

struct loop {
	struct loop_config config;
	struct egress egress[EGRESSES];
	struct loop_shaping shaping;
	struct loop_pool pool;
	struct loop_round round;
	struct loop_clocks clocks;
	struct loop_watch watch;
	struct loop_alive alive;
	struct loop_quotas quotas;
	struct loop_throttle throttle;
	struct loop_released released;
	struct loop_held held;
	struct loop_replications replication;
	struct loop_sending send;
	struct loop_withdrawals withdrawals;
	struct loop_seal seal;
	struct loop_announcing announcing;
	struct loop_yield yield;
	struct loop_waiting wait;
	struct loop_rest rest;
	uint16_t tunnel_ipv4_id; /* of the next tunnel packet */

	/* Shared with the control thread. */
	struct commands commands;
	struct loop_retired retired;
	struct loop_notifications notifications;
	struct loop_control control;
	_Atomic uint32_t pending; /* messages that were taken and neither sent nor dropped */
	struct counters counters;
	struct departures departures;
	struct trace trace;
};

/* Whether the loop must end or has ended. Any thread. */
static inline bool loop_stopped(const struct loop *loop)
{
	return atomic_load_explicit(&loop->control.stop, memory_order_acquire);
}

/* Any thread. */
static inline uint32_t loop_pending_messages(const struct loop *loop)
{
	return atomic_load_explicit(&loop->pending, memory_order_relaxed);
}

/* Wakes the loop. Any thread. */
static inline void loop_kick(const struct loop *loop)
{
	/* Fails only when the counter is full, and then the loop is being woken anyway. */
	(void)eventfd_write(loop->wait.kick_fd, 1);
}

#endif
