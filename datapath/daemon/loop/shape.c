/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message -> frames -> shaper.
 */
#include "shape.h"

#include "container_of.h"
#include "loop_state.h"
#include "outcome.h"
#include "pool.h"
#include "round.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* ---- one frame: builds the headers in front of the payload and hands the frame over ---- */

const struct ktsn_frame_tunnel *route_tunnel(const struct loop_route *route)
{
	return route->bridge_link_index ? NULL : &route->tunnel;
}

/* Moves the payload if the headers are longer or shorter than when the message was taken. */
static int payload_move(struct packet *packet, size_t to)
{
	if (to == packet->payload_at)
		return 0;
	if (to + packet->message->payload_bytes > packet->frame.capacity_bytes)
		return -EMSGSIZE;
	memmove(packet->frame.data + to, packet_payload(packet), packet->message->payload_bytes);
	packet->payload_at = (uint16_t)to;
	return 0;
}

static int packet_build(struct loop *loop, struct packet *packet, const struct loop_route *route)
{
	struct ktsn_port_frame *frame = &packet->frame;
	struct ktsn_frame_path path = route->path;
	struct ktsn_frame_tunnel tunnel = route->tunnel;
	const struct ktsn_frame_tunnel *around = route_tunnel(route) ? &tunnel : NULL;
	int headers_bytes;

	path.id = packet->message->ipv4_id;
	if (path.kind == KTSN_FRAME_ETHERNET)
		path.ethertype_be = packet->message->ethertype_be;
	tunnel.pcp = loop->shaping.classes.pcp[packet->shaper.traffic_class];
	tunnel.outer.id = loop->tunnel_ipv4_id++;
	headers_bytes = payload_move(packet, ktsn_frame_header_bytes(&path, around));
	if (headers_bytes < 0)
		return headers_bytes;
	headers_bytes = ktsn_frame_build(frame->data, frame->capacity_bytes, &path, around,
					 packet->message->payload_bytes);
	if (headers_bytes < 0)
		return headers_bytes;
	frame->bytes = (uint32_t)(headers_bytes + packet->message->payload_bytes +
				  ktsn_frame_trailer_bytes(&path, around, packet->message->payload_bytes));
	packet->shaper.wire_bytes =
		(uint32_t)ktsn_frame_wire_bytes(ktsn_frame_link_bytes(frame->bytes, around));
	packet->shaper.sdu_bytes = (uint32_t)ktsn_frame_sdu_bytes(frame->bytes, around);
	packet->egress = around ? EGRESS_UPLINK : EGRESS_BRIDGE;
	packet->encryption = (uint8_t)(around ? route->encryption : LOOP_CLEAR);
	packet->esp = around && around->esp;
	packet->association = NULL;
	/* Otherwise it would leave unsealed, with room for ESP. */
	assert(!packet->esp || packet->encryption);
	frame->link_index = route->bridge_link_index;
	frame->receiver_index = route->receiver_link_index;
	return 0;
}

static void frame_shape(struct loop *loop, struct packet *packet, const struct loop_route *route)
{
	int error;

	if (packet_build(loop, packet, route)) {
		packet_drop(loop, packet, &loop->counters.drop_invalid);
		return;
	}
	error = ktsn_shaper_enqueue_handed(loop->egress[packet->egress].shaper, quota_lane(packet),
					   &packet->shaper, packet->message->handed_tai_ns,
					   loop->round.now_tai_ns);
	if (error)
		packet_drop(loop, packet,
			    error == -EMSGSIZE ? &loop->counters.drop_max_sdu : &loop->counters.drop_txtime);
}

/* ---- messages to several receivers ----
 *
 * Each receiver gets a frame, through its own egress, at the message's time. The message keeps its slot until
 * the last copy has left, and counts once: as sent when at least one copy left, as late when one was late.
 *
 * Each round of the loop makes a few copies: there may be many, and others have departures due. A message
 * gets the packets for its copies when it begins, so either it waits as a whole or all of its copies can be
 * made. The copies go where the replication list said when the message began.
 *
 *   begun: packets promised --> pods in turn, of each pod its messages --> made, first copy last --> shaper
 *
 * The packet that was taken is the first copy and holds the message, to which all copies point. */

enum {
	/* Copies that are made in a round. */
	COPIES_AT_ONCE = 32,
};

/* Returns the route of a copy. Whether it is encrypted depends on the network's present setting. */
static struct loop_route copy_route(const struct message *message, const struct loop_replication *replication,
				    uint32_t number)
{
	const struct loop_route *current = &message->destination->route;
	const struct loop_copy *copy = &replication->copies[number];
	struct loop_route route = replication->common;

	route.encryption = current->encryption;
	route.tunnel.esp = current->tunnel.esp;
	route.tunnel.outer.destination_port_be = current->tunnel.outer.destination_port_be;

	route.bridge_link_index = route.receiver_link_index = copy->bridge_link_index;
	route.tunnel.outer.destination_ipv4_be = copy->remote_be;
	memcpy(route.tunnel.outer.destination_mac, copy->underlay_next_hop, KTSN_ETHER_ADDR_BYTES);
	return route;
}

static void copy_init(struct loop *loop, struct packet *copy, struct message *message)
{
	const struct packet *first = message_packet(message);

	copy->message = message;
	copy->late_reason = first->late_reason;
	copy->shaper.traffic_class = first->shaper.traffic_class;
	copy->shaper.deadline = first->shaper.deadline;
	copy->shaper.untimed = first->shaper.untimed;
	copy->shaper.txtime_tai_ns = first->shaper.txtime_tai_ns;
	copy->shaper.order = first->shaper.order;
	packet_begin(loop, copy);
}

static void copies_drop_count(struct loop *loop, uint32_t count)
{
	counter_add(&loop->counters.frame_pool_empty, count);
	counter_add(&loop->counters.copies_dropped, count);
}

static void copy_payload_put(struct packet *copy, const struct message *message,
			     const struct loop_route *route)
{
	size_t place = ktsn_frame_header_bytes(&route->path, route_tunnel(route));

	/* A payload that does not fit is rejected when the frame is built. */
	if (place + message->payload_bytes > copy->frame.capacity_bytes)
		return;
	copy->payload_at = (uint16_t)place;
	memcpy(packet_payload(copy), message->payload, message->payload_bytes);
}

/* Makes the next copy after the first. */
static void copy_make(struct loop *loop, struct message *message)
{
	const struct loop_route route = copy_route(message, message->replication, message->copies_unmade--);
	struct packet *copy = packet_alloc(loop);

	loop->replication.promised--;
	if (!copy) {
		quota_pending_add(loop, message->flow->ring->quota, (uint32_t)-1);
		copies_drop_count(loop, 1);
		return;
	}
	copy_init(loop, copy, message);
	copy_payload_put(copy, message, &route);
	message->copies_left++;
	frame_shape(loop, copy, &route);
}

/* Makes the first copy, last of all: when it ends, message, destination and replication list may end too. */
static void first_make(struct loop *loop, struct message *message)
{
	const struct loop_route route = copy_route(message, message->replication, 0);
	struct packet *first = message_packet(message);

	message->replication->messages--;
	replication_retire_if_done(loop, message->replication);
	frame_shape(loop, first, &route);
}

/* ---- in turns ---- */

static void replication_add(struct loop *loop, struct quota *quota, struct packet *first)
{
	first->next = NULL;
	if (quota->replication_first) {
		quota->replication_last->next = first;
	} else {
		quota->replication_first = first;
		ring_list_add(&loop->replication.quotas, &quota->replication_entry);
	}
	quota->replication_last = first;
}

static void replication_begin(struct loop *loop, struct message *message)
{
	struct loop_replication *replication = message->destination->replication;
	struct quota *quota = message->flow->ring->quota;
	uint32_t more = replication->count - 1, room;

	message->replicated = true;
	message->copies_left = 1;
	message->copies_sent = 0;
	if (!replication->count) {
		packet_drop(loop, message_packet(message), &loop->counters.drop_unresolved);
		return;
	}
	counter_add(&loop->counters.copies_pruned, replication->pruned);
	counter_add(&loop->counters.copies_left_out, replication->left_out);
	/* Each copy counts as a message for the pod's rate. */
	quota_rate_charge(&quota->messages, more, loop->round.now_tai_ns);
	/* Copies for which there can never be room are dropped. */
	room = quota_room(loop, quota);
	message->copies_unmade = more < room ? more : room;
	copies_drop_count(loop, more - message->copies_unmade);
	loop->replication.promised += message->copies_unmade;
	quota_pending_add(loop, quota, message->copies_unmade);
	message->replication = replication;
	replication->messages++;
	message->payload = packet_payload(message_packet(message));
	replication_add(loop, quota, message_packet(message));
}

/* Takes the turn of the next pod: makes one copy of its first message. */
static void turn_make(struct loop *loop)
{
	struct quota *quota = container_of(loop->replication.quotas, struct quota, replication_entry);
	struct message *message = quota->replication_first->message;

	loop->replication.quotas = quota->replication_entry.next;
	if (message->copies_unmade) {
		copy_make(loop, message);
		return;
	}
	quota->replication_first = quota->replication_first->next;
	if (!quota->replication_first)
		ring_list_remove(&loop->replication.quotas, &quota->replication_entry);
	first_make(loop, message);
}

/* Whether there is time for a turn of the next pod. */
static bool turns_may_continue(struct loop *loop, uint32_t turns)
{
	if (turns % TAKE_AT_ONCE || !turns)
		return true;
	return turns < COPIES_AT_ONCE &&
	       !round_must_end(loop,
			       container_of(loop->replication.quotas, const struct quota, replication_entry));
}

void replication_continue(struct loop *loop)
{
	for (uint32_t turns = 0; loop->replication.quotas && turns_may_continue(loop, turns); turns++)
		turn_make(loop);
	if (loop->replication.quotas)
		quota_wake_by(loop, loop->round.now_tai_ns);
}

/* Shapes a message with only one receiver, as if that were its route. */
static void single_shape(struct loop *loop, struct packet *packet, const struct loop_replication *replication)
{
	const struct loop_route route = copy_route(packet->message, replication, 0);

	frame_shape(loop, packet, &route);
}

void message_shape(struct loop *loop, struct packet *packet, const struct loop_route *route)
{
	const struct loop_replication *replication = packet->message->destination->replication;

	if (!replication)
		frame_shape(loop, packet, route);
	else if (replication->single && replication->count)
		single_shape(loop, packet, replication);
	else
		replication_begin(loop, packet->message);
}

uint32_t destination_frames(const struct loop_destination *destination)
{
	return destination->replication && destination->replication->count ? destination->replication->count
									   : 1;
}
