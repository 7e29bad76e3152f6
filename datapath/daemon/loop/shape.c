/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frame -> shaper: builds the headers in front of the payload and hands the frame over.
 */
#include "shape.h"

#include "finish.h"
#include "loop_state.h"
#include "quotas.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* What is around the frame: nothing on the way to a pod of this node. */
const struct ktsn_frame_tunnel *route_tunnel(const struct loop_route *route)
{
	return route->bridge_link_index ? NULL : &route->tunnel;
}

/* What is in the way of other headers than it was taken behind. */
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
	/* Or it would leave with room for ESP, and unsealed. */
	assert(!packet->esp || packet->encryption);
	frame->link_index = route->bridge_link_index;
	frame->receiver_index = route->receiver_link_index;
	return 0;
}

void frame_shape(struct loop *loop, struct packet *packet, const struct loop_route *route)
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
