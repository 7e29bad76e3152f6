/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frame -> shaper: the headers of one frame, then its place in the shaper. Loop thread only.
 */
#ifndef KTSN_LOOP_SHAPE_H
#define KTSN_LOOP_SHAPE_H

struct ktsn_frame_tunnel;
struct loop;
struct loop_route;
struct packet;

/* What is around the frame; NULL: nothing, on the way to a pod of this node. */
const struct ktsn_frame_tunnel *route_tunnel(const struct loop_route *route);
/* Builds the frame and hands it to the shaper, at round.now_tai_ns, or drops it. */
void frame_shape(struct loop *loop, struct packet *packet, const struct loop_route *route);

#endif
