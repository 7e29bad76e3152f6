/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop's own state, shared by the files that make up the loop and by nothing else:
 * loop.c (the loop itself, its thread), loop_take.c, loop_accept.c, loop_pending_messages.c, loop_packet.c, loop_send.c, loop_wait.c, loop_watch.c,
 * loop_commands.c, loop_trace.c, loop_report.c, loop_copies.c, loop_clock.c. Loop thread only, but for what says
 * otherwise.
 */
#ifndef KTSN_DAEMON_LOOP_STATE_H
#define KTSN_DAEMON_LOOP_STATE_H

#include "clock.h"
#include "loop.h"

#include <pthread.h>

/* Why a packet leaves late, if it does. */
enum late_reason { LATE_WAKEUP, LATE_TAKEN, LATE_PORT, LATE_UNRESOLVED };

/* Where frames leave the loop, each with its own order of departures. */
enum outlet_id {
	OUTLET_UPLINK, /* to other nodes, through the gates */
	OUTLET_BRIDGE, /* to pods of this node: the gates are not theirs, and the link takes no time */
	OUTLETS,
};
static_assert(OUTLETS == (int)QUOTA_LANES, "a pod has a lane at each outlet");

/* A message between ring and port. */
struct packet {
	/* First: the shaper gives back a pointer to it. On a line of its own: when many are pending, the lines that
	 * must be fetched are what the shaper costs. */
	alignas(KTSN_CACHE_LINE_BYTES) struct ktsn_shaper_packet shaper;
	struct ktsn_port_frame frame;
	enum outlet_id outlet;
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

struct outlet {
	struct ktsn_port *port;
	struct ktsn_shaper *shaper;
	int64_t retry_tai_ns; /* nothing is sent before this: the port had no room */
};

struct loop {
	struct loop_config config;
	struct outlet outlets[OUTLETS];
	enum ktsn_strategy strategy; /* of both outlets */
	struct ktsn_txtime_queue expectations;
	uint64_t expectations_queued; /* ever */
	struct loop_gates *gates;     /* NULL: none were configured, all are open */
	struct loop_classes classes;
	struct packet *packets;
	struct packet *packets_free;
	uint64_t bursts;          /* given to a port, ever */
	int64_t frame_ns;         /* how long the port has been taking for each frame (loop/yield.c) */
	int64_t yield_due_tai_ns; /* when the next of that class or a higher one comes due */
	unsigned int yield_class; /* KTSN_CLASSES: not known */
	bool yielded;             /* something late has waited, and nothing late has been sent since */
	bool memory_short;        /* a message waits in a ring for a packet or a frame */
	uint32_t packets_free_count;
	struct quota *quotas_open; /* those with rings */
	uint32_t quotas_open_count;
	uint32_t reserve;       /* of each pod */
	uint32_t reserved_free; /* what is left of all reserves, also of pods to come */
	struct ring_list_link
		*releasing; /* quotas with messages that waited for an address (loop/pending.c); NULL: none */
	uint32_t released;  /* of those messages: they wait for room, or their turn */
	struct ring_list_link
		*spreading; /* quotas with messages whose copies are being made (loop/copies.c); NULL: none */
	uint32_t promised;  /* packets, for those copies */
	uint32_t parted;    /* messages of which some copies have left and others have not */
	int64_t take_began_tai_ns; /* of this round of taking */
	uint32_t take_count;       /* messages taken in it, and rings looked into */
	int64_t round_tai_ns;      /* about now, while taking */
	uint64_t rounds;           /* of the loop; orders messages of equal time */
	struct clock_offsets offsets;
	int64_t offsets_read_tai_ns;
	bool clock_doubted;                /* this round sent nothing, to look at the clocks first */
	uint32_t foreign_packets;          /* held for flows whose clock is not TAI */
	struct clock_offsets held_offsets; /* by which these have their times */

	struct ring_list_link
		*watched; /* quotas with rings to look into, whose turn it is next; NULL: none */
	uint32_t watched_quotas;
	_Atomic uint64_t looks;         /* into rings */
	_Atomic uint64_t doorbells_set; /* thresholds written */

	int epoll_fd;
	int kick_fd; /* eventfd: the control thread has a command */
	int64_t doorbells_polled_tai_ns;
	int64_t warmed_tai_ns;     /* the departure that the port was warmed up for last */
	int64_t warm_up_ns;        /* how long that takes */
	int64_t slept_tai_ns;      /* when the loop slept last */
	int64_t lead_ns;           /* awake this long before an event; learnt (loop/wait.c) */
	int64_t quota_next_tai_ns; /* when a pod's rate allows for more again; KTSN_SHAPER_NEVER: none is at it */
	struct ring_list_link *muted; /* rings whose doorbells came too often, */
	uint32_t muted_count;         /* and how many; */
	uint32_t unmute_left;         /* so many of the first are being listened to again */
	int64_t unmute_tai_ns;        /* when they are */
	int64_t last_tai_ns;   /* when the last round began: the clock is set back when the next is earlier */
	int64_t asleep_tai_ns; /* since when the rings have not been looked at; a message whose time was later
				* than this found ktsnd asleep. INT64_MAX: the application woke it */

	/* Shared with the control thread. */
	struct commands commands;
	_Atomic(struct loop_object *) retired;
	int retired_fd;
	_Atomic(struct loop_flow *) notifications; /* whose applications are to be woken */
	int notifications_fd;
	_Atomic bool link_down;
	_Atomic bool stop;
	_Atomic bool pause;
	_Atomic bool standing; /* because of `pause` */
	int64_t pause_seen_ns; /* since when it has not stood still all the same; 0: it need not. Its own */
	_Atomic uint32_t pending;
	struct counters counters;
	struct departures departures;
	struct trace trace;

	pthread_t thread;
	bool running;
	struct loop_scheduling scheduling;
};

/* loop_take.c: whose messages are taken, and how many */
void loop_take(struct loop *loop);
/* All that is ready in it, at once. */
void loop_take_ring(struct loop *loop, struct loop_ring *ring);

/* So many messages are taken, or rings looked into, before the clock is looked at: */
enum { TAKE_AT_ONCE = 8 };
/* Whether so little is left until a departure that taking more of a pod would delay it, or commands have waited for long.
 * One of the same pod that is late already waits a little more: an earlier message may still be in a ring. */
bool departure_calls(struct loop *loop, const struct quota *quota);

/* loop_accept.c: ring -> frame -> shaper */
/* Makes a packet of a message, on its way to the shaper, or rejects it. 0; -EAGAIN: its pod has as much as it may; -ENOBUFS:
 * there is no packet: then the message stays the caller's. */
int message_accept(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken);
/* Ends one that never was a packet. `destination` is NULL where it names none that it may use. */
void message_reject(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken,
		    const struct loop_destination *destination, _Atomic uint64_t *reason);
/* Builds the frame of a resolved destination's message and hands it to the shaper, at round_tai_ns. */
void packet_shape(struct loop *loop, struct packet *packet, const struct loop_route *route);
/* One frame: its headers, then into the shaper. */
void frame_shape(struct loop *loop, struct packet *packet, const struct loop_route *route);
/* How many packets it takes to send a message there. */
uint32_t destination_frames(const struct loop_destination *destination);

/* loop_pending_messages.c: messages that wait for an address */
void pending_add(struct loop *loop, struct loop_destination *destination, struct packet *packet);
/* It is in another state: what waited there has its turns, or waits again. */
void pending_follow(struct loop *loop, struct loop_destination *destination);
/* Some of what waited, for an address or then for room, goes on. */
void pending_release(struct loop *loop);

/* loop_packet.c: a packet from the pool until it is back there */
/* With a frame; NULL when there is none left. */
struct packet *packet_alloc(struct loop *loop);
void packet_free(struct loop *loop, struct packet *packet);
/* Ends a packet whose message left or was dropped: frees its frame's memory unless the port has it, gives
 * its slot back, and retires what waited for it. */
void packet_finish(struct loop *loop, struct packet *packet, bool frame_sent);
void packet_drop(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason);
/* Its first half, for a packet whose frame the port has. */
void packet_drop_count(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason);
/* Slots are the application's again: has those woken that wait for one (loop/report.c). A pod can have thousands of threads
 * asleep, so nothing that they sleep on is touched here. */
void space_tell(struct loop *loop, struct loop_ring *ring);
/* Counts a message that was dropped. */
void message_dropped(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason);
/* Tells its application, if it wants to know. Once a message: the slot is the application's then. */
void message_report(struct loop *loop, struct packet *message, const _Atomic uint64_t *reason);

/* loop_copies.c: messages that go to several */
/* A message has its packets for all copies, or for as many as there can be; drops it if it goes to nobody. */
void copies_begin(struct loop *loop, struct packet *message);
/* Makes some of the copies, and shapes them. */
void copies_go_on(struct loop *loop);
void copy_sent(struct loop *loop, struct packet *copy, _Atomic uint64_t *lateness, int64_t departed_tai_ns);
void copy_dropped(struct loop *loop, struct packet *copy, _Atomic uint64_t *reason);
/* Ends a copy. The message if it was the last, which is counted then and ends as well; else NULL. */
struct packet *copy_finish(struct loop *loop, struct packet *copy);

/* loop_clock.c: clocks that are set */
/* So long the distances between clocks are believed: to read them takes as long as to take a message. */
enum { OFFSETS_FRESH_NS = 10000 };
/* The distances between clocks, read at round_tai_ns unless they are fresh. */
const struct clock_offsets *loop_offsets(struct loop *loop);
/* Gives all packets their new times if a clock was set. */
void clocks_watch(struct loop *loop);
/* A packet has its time by the offsets; its message has left or was dropped. */
void clocks_packet_held(struct loop *loop, struct packet *packet);
void clocks_packet_done(struct loop *loop, struct packet *packet);

/* loop_trace.c: what became of single messages, if somebody traces */
/* A message was taken. */
void trace_begin(struct packet *packet, const struct ktsn_ring_taken *taken);
/* It left or was dropped at that time, and `counter` counts it. */
void trace_end(struct loop *loop, const struct packet *packet, const _Atomic uint64_t *counter,
	       int64_t ended_tai_ns);
/* It ended when it was taken. `flow` is the one it names, NULL: none. */
void trace_rejected(struct loop *loop, const struct loop_flow *flow, const struct ktsn_ring_taken *taken,
		    const _Atomic uint64_t *counter);

/* loop_report.c: telling applications */
/* Hands the slot of a dropped message back as a report, if the socket wants it and there is room; else the slot stays
 * the caller's. */
bool report_make(struct loop *loop, struct loop_flow *flow, const struct loop_route *route, uint32_t slot,
		 uint32_t payload_bytes, const _Atomic uint64_t *reason);
/* Slots were given back to a ring: its sockets that wait for that in poll or epoll. */
void space_announce(struct loop *loop, struct loop_ring *ring);
void notification_push(struct loop *loop, struct loop_flow *flow, uint32_t why);

/* loop_quotas.c: what a pod may have of the loop */
/* How many packets more a pod may have; whether those are too few for what it waits for. When there is none left at
 * all, that is a shortage of memory. */
uint32_t quota_room(const struct loop *loop, const struct quota *quota);
bool quota_full(const struct loop *loop, const struct quota *quota);
/* What is left of its reserve. */
static inline uint32_t quota_reserve_free(const struct loop *loop, const struct quota *quota)
{
	uint32_t pending = quota_pending(quota);

	return pending < loop->reserve ? loop->reserve - pending : 0;
}
/* It has so many packets more; negative numbers wrap. One writer: no read-modify-write needed. */
static inline void quota_pending_add(struct loop *loop, struct quota *quota, uint32_t count)
{
	loop->reserved_free -= quota_reserve_free(loop, quota);
	atomic_store_explicit(&quota->pending, quota_pending(quota) + count, memory_order_relaxed);
	loop->reserved_free += quota_reserve_free(loop, quota);
}
/* The same of all messages. */
static inline void loop_pending_add(struct loop *loop, uint32_t count)
{
	atomic_store_explicit(&loop->pending,
			      atomic_load_explicit(&loop->pending, memory_order_relaxed) + count,
			      memory_order_relaxed);
}
/* It has a ring more, or less: with the first and the last, reserves change. */
void quota_ring_opened(struct loop *loop, struct quota *quota);
void quota_ring_retired(struct loop *loop, struct quota *quota);
/* The loop does not sleep beyond that. */
void quota_wake_by(struct loop *loop, int64_t tai_ns);
/* Whether nothing more may be taken of a pod now; remembers when it may again. */
bool quota_holds(struct loop *loop, struct quota *quota, int64_t now_tai_ns);
/* Whether that is so, without asking for anything. */
bool quota_shut(const struct loop *loop, const struct quota *quota, int64_t now_tai_ns);
/* Where its packets wait. */
struct ktsn_shaper_lane *quota_lane(const struct packet *packet);
/* Whether the loop hears the ring's doorbell. */
void doorbell_listen(const struct loop *loop, struct loop_ring *ring, bool listen);
/* A doorbell rang. One that rings too often is not listened to for a while. */
void quota_doorbell(struct loop *loop, struct loop_ring *ring, int64_t now_tai_ns);
/* Listens again, if it is time. */
void quotas_unmute(struct loop *loop, int64_t now_tai_ns);
/* A ring ends. */
void quota_forget(struct loop *loop, struct loop_ring *ring);
/* The clock was set back: times that were waited for are void. */
void quotas_clock_set_back(struct loop *loop);
/* When any of that changes by itself. */
int64_t quotas_next(const struct loop *loop);

/* loop_send.c: shaper -> port */
void loop_send(struct loop *loop);
/* Counts a message that left. */
void message_sent(struct loop *loop, struct packet *packet, _Atomic uint64_t *lateness,
		  int64_t departed_tai_ns);
/* When the next frame may be given to the port; KTSN_SHAPER_NEVER when there is none. */
int64_t loop_departure_next(const struct loop *loop, int64_t now_tai_ns);

/* loop_yield.c: what is late does not make others late */
/* How long the port took for so many frames. */
void yield_learn(struct loop *loop, int64_t took_ns, uint32_t frames);
/* Messages may have been taken since. */
void yield_begin(struct loop *loop);
/* How many frames may be sent in one go before the next comes due. If not one, waits for that: *now is the time then. */
uint32_t yield_to_due(struct loop *loop, int64_t *now_tai_ns);

/* loop_wait.c: sleep or spin until something may be due */
void loop_wait(struct loop *loop);

/* loop_watch.c: which rings to look into, and when */
/* A message of the flow was taken: when the next is expected. */
void watch_message(struct loop *loop, struct loop_flow *flow, int64_t txtime_tai_ns);
/* Puts rings from which something is expected by then among those to look into, some at a time. */
void watch_due(struct loop *loop, int64_t until_tai_ns);
/* What is expected is void, because CLOCK_TAI was set back or the strategy is another: looks into the rings of all flows that
 * were expected. */
void watch_forget(struct loop *loop);
/* When that is to be called next; KTSN_SHAPER_NEVER: no message is expected. */
int64_t watch_next(const struct loop *loop, int64_t now_tai_ns);
/* The ring is to be looked into in this round or the next. */
void watch_ring(struct loop *loop, struct loop_ring *ring);
/* Whose turn it is; there must be one. */
const struct quota *watch_quota(const struct loop *loop);
/* The next in turn of those to look into, of the quota in turn, which is then the last. There must be one. */
struct loop_ring *watch_turn(struct loop *loop);
/* It was looked into; `backlog`: not all was taken. */
void watch_looked(struct loop *loop, struct loop_ring *ring, bool backlog);
/* Whether there is a ring to look into that its quota allows to be taken from. */
bool watch_ready(const struct loop *loop, int64_t now_tai_ns);
void watch_end(struct loop *loop, struct loop_ring *ring);

/* loop_commands.c: what the control thread wants, and giving back what it owns */
/* Some in each round. */
void loop_commands(struct loop *loop);
bool loop_commands_left(const struct loop *loop);
/* The flow's destination that a command still to be executed will open, or NULL. */
struct loop_destination *destination_announced(struct loop *loop, const struct loop_ring *ring,
					       uint32_t flow_index, uint32_t index);
void destination_retire_if_done(struct loop *loop, struct loop_destination *destination);
void flow_retire_if_done(struct loop *loop, struct loop_flow *flow);
/* Nothing needs them any more: they were replaced, and no message's copies are being made of them. */
void replication_retire_if_done(struct loop *loop, struct loop_replication *copies);
/* Closes a ring out of which everything has been taken. */
void ring_end(struct loop *loop, struct loop_ring *ring);
void ring_retire_if_done(struct loop *loop, struct loop_ring *ring);
/* Closes the sockets and addresses whose last messages have been taken now. */
void closings_end(struct loop *loop, struct loop_ring *ring);

#endif
