/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a packet, of its message, and of the objects that they use.
 */
#include "outcome.h"

#include "clock.h"
#include "loop_state.h"
#include "pool.h"
#include "realtime.h"
#include "round.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- notifications: the loop itself makes no system call for a pod ---- */

void notification_push(struct loop *loop, struct loop_flow *flow, uint32_t why)
{
	struct loop_flow *top;

	/* Release: the thread that sees `why` also sees the report or the free slots. */
	if (atomic_fetch_or_explicit(&flow->notify, why, memory_order_release))
		return; /* it is in the list already */
	top = atomic_load_explicit(&loop->notifications.first, memory_order_relaxed);
	do
		flow->notify_next = top;
	while (!atomic_compare_exchange_weak_explicit(&loop->notifications.first, &top, flow,
						      memory_order_release, memory_order_relaxed));
	if (!top)
		(void)eventfd_write(loop->notifications.fd, 1);
}

void space_notify(struct loop *loop, struct loop_ring *ring)
{
	if (!ktsn_ring_space_polled(&ring->consumer))
		return;
	for (uint32_t w = 0; w < LOOP_FLOWS_PER_RING / KTSN_RING_WORD_BITS; w++) {
		uint64_t bits = ktsn_ring_space_pollers(&ring->consumer, w);

		for (; bits; bits &= bits - 1) {
			struct loop_flow *flow =
				ring->flows[w * KTSN_RING_WORD_BITS + (uint32_t)__builtin_ctzll(bits)];

			if (flow)
				notification_push(loop, flow, NOTIFY_SPACE);
		}
	}
}

/* ---- objects that the loop is done with: the control thread frees them when no command can name them ----
 */

void object_retire(struct loop *loop, struct loop_object *object)
{
	struct loop_object *top = atomic_load_explicit(&loop->retired.first, memory_order_relaxed);

	do
		object->next = top;
	while (!atomic_compare_exchange_weak_explicit(&loop->retired.first, &top, object,
						      memory_order_release, memory_order_relaxed));
	/* loop_retired() reads the eventfd before it takes the list: while the list is not empty, that is
	 * still to come. */
	if (!top)
		(void)eventfd_write(loop->retired.fd, 1);
}

/* Forgets the flow, because its frames may be withdrawn after it was freed. */
static void withdrawals_forget(struct loop *loop, const struct loop_flow *flow)
{
	for (uint32_t i = 0; i < loop->withdrawals.size; i++)
		if (loop->withdrawals.frames[i].flow == flow)
			loop->withdrawals.frames[i].flow = NULL;
}

void flow_retire_if_done(struct loop *loop, struct loop_flow *flow)
{
	if (!flow->closed || flow->packets || flow->expectation.queued || flow->retired)
		return;
	flow->retired = true;
	withdrawals_forget(loop, flow);
	object_retire(loop, &flow->object);
}

void destination_retire_if_done(struct loop *loop, struct loop_destination *destination)
{
	if (!destination->closed || destination->packets || destination->retired)
		return;
	destination->retired = true;
	object_retire(loop, &destination->object);
}

void ring_retire_if_done(struct loop *loop, struct loop_ring *ring)
{
	if (!ring->closed || ring->consumer.held || ring->expectations || ring->busy || ring->retired)
		return;
	ring->retired = true;
	/* A ring that was handed back and closed before it was resumed was never counted for its pod. */
	if (ring->opened)
		quota_ring_retired(loop, ring->quota);
	object_retire(loop, &ring->object);
}

void association_retire_if_done(struct loop *loop, struct loop_association *association)
{
	if (association->replaced && !association->sealed)
		object_retire(loop, &association->object);
}

void replication_retire_if_done(struct loop *loop, struct loop_replication *copies)
{
	if (copies->replaced && !copies->messages)
		object_retire(loop, &copies->object);
}

/* ---- reports, which the application reads from its error queue ---- */

/* Returns the code of a report: missed if the time could have been met, invalid if the request could not. */
static uint8_t report_code(const struct loop *loop, const _Atomic uint64_t *reason)
{
	const struct counters *counters = &loop->counters;

	if (reason == &counters->drop_txtime || reason == &counters->drop_horizon ||
	    reason == &counters->drop_max_sdu || reason == &counters->drop_source ||
	    reason == &counters->drop_invalid)
		return SO_EE_CODE_TXTIME_INVALID_PARAM;
	return SO_EE_CODE_TXTIME_MISSED;
}

/* Returns the slot to its application with that code, after the headers if it is to have the frame. */
static bool slot_report(struct loop *loop, struct loop_flow *flow, const struct loop_route *route,
			uint32_t slot, uint32_t payload_bytes, uint8_t code, bool with_frame)
{
	struct loop_ring *ring = flow->ring;
	size_t headers_bytes = ktsn_frame_header_bytes(&route->path, NULL);
	int built = 0;

	if (flow->closed || ring->closed)
		return false;
	if (!ktsn_ring_report_room(&ring->consumer)) {
		counter_add(&loop->counters.reports_lost, 1);
		return false;
	}
	if (headers_bytes > KTSN_RING_HEADROOM_BYTES)
		return false;
	/* Build the headers where the application sees them: nothing sends them from there. */
	if (with_frame)
		built = ktsn_frame_build(ktsn_ring_taken_headers(&ring->consumer, slot, headers_bytes),
					 headers_bytes + payload_bytes, &route->path, NULL, payload_bytes);
	if (built < 0)
		return false;
	ktsn_ring_report(&ring->consumer, slot, code, (size_t)built);
	notification_push(loop, flow, NOTIFY_REPORT);
	return true;
}

bool report_make(struct loop *loop, struct loop_flow *flow, const struct loop_route *route, uint32_t slot,
		 uint32_t payload_bytes, const _Atomic uint64_t *reason)
{
	if (!flow->report ||
	    !slot_report(loop, flow, route, slot, payload_bytes, report_code(loop, reason), true))
		return false;
	counter_add(&loop->counters.reports, 1);
	return true;
}

/* ---- traces: a message that is not traced costs one look at its flow, which is in the cache ---- */

/* Returns the index of a counter: they are at the beginning of the structure, in the order of KTSN_COUNTERS.
 */
static uint8_t outcome_of(const struct loop *loop, const _Atomic uint64_t *counter)
{
	return (uint8_t)(counter - (const _Atomic uint64_t *)&loop->counters);
}

static uint32_t trace_of(const struct loop_flow *flow)
{
	return atomic_load_explicit(&flow->trace, memory_order_relaxed);
}

void trace_begin(struct message *message, const struct ktsn_ring_taken *taken)
{
	message->trace = trace_of(message->flow);
	if (!message->trace)
		return;
	message->called_tai_ns = taken->called_tai_ns;
	message->taken_tai_ns = clock_tai_ns();
}

static void trace_end(struct loop *loop, const struct message *message, const _Atomic uint64_t *counter,
		      int64_t ended_tai_ns)
{
	/* Messages of an earlier trace are not recorded any more. */
	if (!message->trace || message->trace != trace_number(&loop->trace))
		return;
	trace_add(&loop->trace, &(struct trace_record){
					.flow = message->flow->number,
					.called_tai_ns = message->called_tai_ns,
					.taken_tai_ns = message->taken_tai_ns,
					.due_tai_ns = message->requested_tai_ns,
					.ended_tai_ns = ended_tai_ns ? ended_tai_ns : clock_tai_ns(),
					.payload_bytes = message->payload_bytes,
					.traffic_class = message_packet(message)->shaper.traffic_class,
					.outcome = outcome_of(loop, counter),
				});
}

void trace_rejected(struct loop *loop, const struct loop_flow *flow, const struct ktsn_ring_taken *taken,
		    const _Atomic uint64_t *counter)
{
	struct clock_offsets offsets;
	int64_t due_tai_ns, now_tai_ns;

	if (!flow || !trace_of(flow) || trace_of(flow) != trace_number(&loop->trace))
		return;
	clock_offsets_read(&offsets);
	now_tai_ns = clock_tai_ns();
	/* A time that cannot be converted becomes 0. */
	if (__builtin_add_overflow(taken->txtime_ns, offsets.to_tai_ns[flow->clock], &due_tai_ns))
		due_tai_ns = 0;
	trace_add(&loop->trace, &(struct trace_record){
					.flow = flow->number,
					.called_tai_ns = taken->called_tai_ns,
					.taken_tai_ns = now_tai_ns,
					.due_tai_ns = due_tai_ns,
					.ended_tai_ns = now_tai_ns,
					.payload_bytes = taken->payload_bytes,
					.outcome = outcome_of(loop, counter),
				});
}

/* ---- messages: counted once for all of their copies ---- */

static struct class_counters *class_counters(struct loop *loop, const struct message *message)
{
	return &loop->counters.classes[message_packet(message)->shaper.traffic_class];
}

/* Records the departure of a message with a transmit time. */
static void departure_note(struct loop *loop, struct message *message, int64_t departed_tai_ns)
{
	departures_add(&loop->departures, message->flow->number, message->requested_tai_ns, departed_tai_ns,
		       message->overrun);
	atomic_store_explicit(&message->flow->counters.departure_error_ns,
			      departed_tai_ns - message->requested_tai_ns, memory_order_relaxed);
}

static bool message_clock_lost(const struct loop *loop, const struct message *message,
			       const _Atomic uint64_t *lateness)
{
	const struct loop_attachment *attachment = message->destination->attachment;

	return loop->held.lost && lateness != &loop->counters.untimed && attachment &&
	       attachment->clock != LOOP_CLOCK_GOOD;
}

/* Whether a message that left counts as late: neither on time nor untimed. */
static bool is_late(const struct loop *loop, const _Atomic uint64_t *lateness)
{
	return lateness != &loop->counters.on_time && lateness != &loop->counters.untimed;
}

/* Returns the slot of a message that has left to its application, with the time stamps that it asked for. */
static void message_stamp(struct loop *loop, struct message *message, int64_t departed_tai_ns)
{
	ktsn_ring_stamp(&message->flow->ring->consumer, message->slot, departed_tai_ns);
	message->reported =
		slot_report(loop, message->flow, &message->destination->route, message->slot,
			    message->payload_bytes, KTSN_REPORT_STAMPS, !(message->stamps & KTSN_STAMP_ONLY));
}

static void message_sent(struct loop *loop, struct message *message, _Atomic uint64_t *lateness,
			 int64_t departed_tai_ns)
{
	struct class_counters *class = class_counters(loop, message);
	struct flow_counters *flow = &message->flow->counters;
	bool late = is_late(loop, lateness);

	trace_end(loop, message, lateness, departed_tai_ns);
	counter_add(lateness, 1);
	counter_add(&class->late, late);
	counter_add(&flow->sent, 1);
	counter_add(&flow->late, late);
	if (lateness != &loop->counters.untimed)
		departure_note(loop, message, departed_tai_ns);
	if (message_clock_lost(loop, message, lateness))
		counter_add(&loop->counters.clock_lost, 1);
	counter_add(&loop->counters.sent, 1);
	counter_add(&loop->counters.sent_bridge,
		    !message->replicated && message_packet(message)->egress == EGRESS_BRIDGE);
	counter_add(&class->sent, 1);
	if (message->stamps)
		message_stamp(loop, message, departed_tai_ns);
}

static void message_withdrawn(struct loop *loop, const struct sent_frame *frame)
{
	const uint64_t less = (uint64_t)-1;
	struct class_counters *class = &loop->counters.classes[frame->traffic_class];

	if (frame->copy) {
		counter_add(&loop->counters.copies_sent, less);
		counter_add(&loop->counters.copies_dropped, 1);
	}
	if (!frame->lateness)
		return;
	counter_add(frame->lateness, less);
	counter_add(&loop->counters.sent, less);
	counter_add(&class->sent, less);
	counter_add(&class->dropped, 1);
	if (is_late(loop, frame->lateness))
		counter_add(&class->late, less);
	if (frame->clock_lost)
		counter_add(&loop->counters.clock_lost, less);
	if (frame->flow) {
		counter_add(&frame->flow->counters.sent, less);
		counter_add(&frame->flow->counters.dropped, 1);
		if (is_late(loop, frame->lateness))
			counter_add(&frame->flow->counters.late, less);
	}
	counter_add(&loop->counters.drop_stale, 1);
}

static void message_dropped(struct loop *loop, struct message *message, _Atomic uint64_t *reason)
{
	trace_end(loop, message, reason, 0);
	counter_add(&message->flow->counters.dropped, 1);
	counter_add(&class_counters(loop, message)->dropped, 1);
	counter_add(reason, 1);
}

static void message_report(struct loop *loop, struct message *message, const _Atomic uint64_t *reason)
{
	message->reported = report_make(loop, message->flow, &message->destination->route, message->slot,
					message->payload_bytes, reason);
}

/* Ends a message, whose copies have all ended: releases its slot and packet, and retires objects that waited
 * for it. */
static void message_finish(struct loop *loop, struct message *message)
{
	struct loop_flow *flow = message->flow;
	struct loop_ring *ring = flow->ring;

	if (!message->reported)
		ktsn_ring_release(&ring->consumer, message->slot);
	space_notify(loop, ring);
	counter_add(&class_counters(loop, message)->pending, (uint64_t)-1);
	packet_end(loop, message_packet(message));
	packet_free(loop, message_packet(message));
	flow->packets--;
	message->destination->packets--;
	loop_pending_add(loop, (uint32_t)-1);
	/* The packet is free, but still has its pointers. */
	destination_retire_if_done(loop, message->destination);
	flow_retire_if_done(loop, flow);
	ring_retire_if_done(loop, ring);
}

/* ---- copies ---- */

static void copy_sent(struct loop *loop, struct packet *copy, _Atomic uint64_t *lateness,
		      int64_t departed_tai_ns)
{
	struct message *message = copy->message;

	counter_add(&loop->counters.copies_sent, 1);
	loop->replication.sent_in_part += !message->copies_sent;
	if (!message->copies_sent || lateness != &loop->counters.on_time)
		message->outcome = lateness;
	message->copies_sent++;
	message->departed_tai_ns = departed_tai_ns;
}

static void copy_dropped(struct loop *loop, struct packet *copy, _Atomic uint64_t *reason)
{
	counter_add(&loop->counters.copies_dropped, 1);
	if (!copy->message->copies_sent)
		copy->message->outcome = reason;
}

static struct message *copy_finish(struct loop *loop, struct packet *copy)
{
	struct message *message = copy->message;

	if (copy != message_packet(message)) {
		packet_end(loop, copy);
		packet_free(loop, copy);
	}
	if (--message->copies_left)
		return NULL;
	loop->replication.sent_in_part -= message->copies_sent > 0;
	if (message->copies_sent) {
		message_sent(loop, message, message->outcome, message->departed_tai_ns);
	} else {
		message_dropped(loop, message, message->outcome);
		message_report(loop, message, message->outcome);
	}
	return message;
}

/* ---- withdrawals ---- */
int withdrawals_init(struct loop_withdrawals *withdrawals, uint32_t frames_max)
{
	withdrawals->size = frames_max;
	if (!frames_max)
		return 0;
	withdrawals->frames = realtime_alloc(frames_max * sizeof(*withdrawals->frames));
	return withdrawals->frames ? 0 : -ENOMEM;
}

void withdrawals_fini(struct loop_withdrawals *withdrawals)
{
	free(withdrawals->frames);
}

static void withdrawals_note(struct loop *loop, const struct packet *packet, _Atomic uint64_t *lateness)
{
	struct loop_withdrawals *withdrawals = &loop->withdrawals;
	const struct message *message = packet->message;
	bool only = !message->replicated || (message->copies_sent == 1 && message->copies_left == 1);

	if (!withdrawals->frames)
		return;
	withdrawals->last = withdrawals->last + 1 < withdrawals->size ? withdrawals->last + 1 : 0;
	withdrawals->count += withdrawals->count < withdrawals->size;
	withdrawals->frames[withdrawals->last] = (struct sent_frame){
		.lateness = only ? lateness : NULL,
		.flow = message->flow,
		.traffic_class = message_packet(message)->shaper.traffic_class,
		.copy = message->replicated,
		.clock_lost = message_clock_lost(loop, message, lateness),
	};
}

void withdrawals_report(struct loop *loop, uint32_t frames)
{
	/* The port took no frames for a while before this. If the loop lost its processor within a send call
	 * for as long, it notes frames after this: as many of the withdrawn ones stay counted as sent. */
	atomic_fetch_add_explicit(&loop->withdrawals.reported, frames, memory_order_release);
}

void withdrawals_count(struct loop *loop)
{
	struct loop_withdrawals *withdrawals = &loop->withdrawals;
	uint32_t frames;

	if (!atomic_load_explicit(&withdrawals->reported, memory_order_relaxed))
		return;
	frames = atomic_exchange_explicit(&withdrawals->reported, 0, memory_order_acquire);
	for (; frames && withdrawals->count; frames--) {
		message_withdrawn(loop, &withdrawals->frames[withdrawals->last]);
		withdrawals->count--;
		withdrawals->last = (withdrawals->last ? withdrawals->last : withdrawals->size) - 1;
	}
}

/* ---- packets ---- */

void packet_association_release(struct loop *loop, struct packet *packet)
{
	struct loop_association *association = packet->association;

	packet->association = NULL;
	association->sealed--;
	association_retire_if_done(loop, association);
}

static void packet_finish(struct loop *loop, struct packet *packet, bool frame_sent)
{
	struct message *message = packet->message;

	if (packet->association)
		packet_association_release(loop, packet);
	if (!frame_sent)
		ktsn_port_frame_free(loop->config.port, &packet->frame);
	quota_pending_add(loop, message->flow->ring->quota, (uint32_t)-1);
	if (message->replicated)
		message = copy_finish(loop, packet);
	if (message)
		message_finish(loop, message);
}

static void packet_drop_count(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason)
{
	if (packet->message->replicated)
		copy_dropped(loop, packet, reason);
	else
		message_dropped(loop, packet->message, reason);
}

void packet_drop(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason)
{
	packet_drop_count(loop, packet, reason);
	if (!packet->message->replicated)
		message_report(loop, packet->message, reason);
	packet_finish(loop, packet, false);
}

void packet_lost(struct loop *loop, struct packet *packet, _Atomic uint64_t *reason, bool reported)
{
	packet_drop_count(loop, packet, reason);
	if (reported && !packet->message->replicated)
		message_report(loop, packet->message, reason);
	packet_finish(loop, packet, true);
}

static _Atomic uint64_t *lateness_counter(struct loop *loop, const struct packet *packet,
					  int64_t departed_tai_ns)
{
	struct counters *counters = &loop->counters;

	if (packet->shaper.untimed)
		return &counters->untimed;
	if (departed_tai_ns - packet->message->requested_tai_ns <= loop->config.late_after_ns)
		return &counters->on_time;
	switch (packet->late_reason) {
	case LATE_TAKEN:
		return &counters->late_taken;
	case LATE_PORT:
		return &counters->late_port;
	case LATE_UNRESOLVED:
		return &counters->late_unresolved;
	case LATE_CLOCK:
		return &counters->late_clock;
	case LATE_WAKEUP:
		break;
	}
	switch (packet->shaper.waited) {
	case KTSN_WAIT_GATE:
		return &counters->late_gate;
	case KTSN_WAIT_LINK:
		return &counters->late_link;
	case KTSN_WAIT_NONE:
		break;
	}
	return &counters->late_wakeup;
}

void packet_sent(struct loop *loop, struct packet *packet, int64_t departed_tai_ns)
{
	_Atomic uint64_t *lateness = lateness_counter(loop, packet, departed_tai_ns);

	packet->message->overrun |= packet->overrun;
	if (packet->message->replicated)
		copy_sent(loop, packet, lateness, departed_tai_ns);
	else
		message_sent(loop, packet->message, lateness, departed_tai_ns);
	if (packet->egress == EGRESS_UPLINK)
		withdrawals_note(loop, packet, lateness);
	packet_finish(loop, packet, true);
}
