/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first stage of the loop: rings -> frames -> shaper. Loop thread only.
 */
#ifndef KTSN_LOOP_TAKE_H
#define KTSN_LOOP_TAKE_H

struct loop;
struct loop_ring;

/* A round of taking: from rings that rang or of which a message is expected, pods in turn. */
void loop_take(struct loop *loop);
/* Takes all that is ready in one ring, at once. */
void loop_take_ring(struct loop *loop, struct loop_ring *ring);
/* The same, but not more than a pod's turn. */
void loop_take_turn(struct loop *loop, struct loop_ring *ring);

#endif
