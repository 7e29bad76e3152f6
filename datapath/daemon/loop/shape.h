/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Message -> frames -> shaper: builds the headers and hands each frame to the shaper of its egress. Loop
 * thread only.
 */
#ifndef KTSN_LOOP_SHAPE_H
#define KTSN_LOOP_SHAPE_H

#include <stdint.h>

struct ktsn_frame_tunnel;
struct loop;
struct loop_destination;
struct loop_route;
struct packet;

/* Shapes the message of a resolved destination at round.now_tai_ns, or drops it. A message to several
 * receivers gets packets for its copies now, as many as there is room for; the copies are made by
 * replication_continue(). */
void message_shape(struct loop *loop, struct packet *packet, const struct loop_route *route);
/* Makes and shapes some of the copies. */
void replication_continue(struct loop *loop);

/* Returns the tunnel around the frame, or NULL on the way to a pod of this node. */
const struct ktsn_frame_tunnel *route_tunnel(const struct loop_route *route);
/* Returns how many packets a message to the destination takes. */
uint32_t destination_frames(const struct loop_destination *destination);

#endif
