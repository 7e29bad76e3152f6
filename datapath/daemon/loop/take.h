/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first stage of the loop: rings -> frames -> shaper; and the end of rings, flows and destinations that
 * the control thread closed. Loop thread only.
 */
#ifndef KTSN_LOOP_TAKE_H
#define KTSN_LOOP_TAKE_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_ring;

/* Takes messages from the rings that rang or are expected to have one; pods take turns. */
void loop_take(struct loop *loop);
/* Takes all messages of one ring at once. */
void loop_take_ring(struct loop *loop, struct loop_ring *ring);
/* Takes at most as many as a pod's turn. */
void loop_take_turn(struct loop *loop, struct loop_ring *ring);

/* Closes a ring from which everything has been taken. */
void ring_end(struct loop *loop, struct loop_ring *ring);
/* Close a flow or a destination, by its number in the ring: at once, */
void flow_end(struct loop *loop, struct loop_ring *ring, uint32_t index);
void destination_end(struct loop *loop, struct loop_ring *ring, uint32_t index);
/* or after all messages in the ring have been taken. */
void flow_end_later(struct loop_ring *ring, uint32_t index);
void destination_end_later(struct loop_ring *ring, uint32_t index);
/* Whether any of those still wait. */
bool closings_wait(const struct loop_ring *ring);
/* Everything was taken: closes some of those that wait. The ring is polled until none is left. */
void closings_end(struct loop *loop, struct loop_ring *ring);

#endif
