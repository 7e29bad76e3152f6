/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of rings, flows and destinations that the control thread closed. Loop thread only.
 */
#ifndef KTSN_LOOP_CLOSE_H
#define KTSN_LOOP_CLOSE_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_ring;

/* Closes a ring out of which everything has been taken. */
void ring_end(struct loop *loop, struct loop_ring *ring);
/* The same of a flow and a destination, by their numbers in the ring. */
void flow_end(struct loop *loop, struct loop_ring *ring, uint32_t index);
void destination_end(struct loop *loop, struct loop_ring *ring, uint32_t index);
/* They end when their last messages have been taken. */
void flow_end_later(struct loop_ring *ring, uint32_t index);
void destination_end_later(struct loop_ring *ring, uint32_t index);
bool closings_wait(const struct loop_ring *ring);
/* These have been: closes some. While others wait, the ring is polled. */
void closings_end(struct loop *loop, struct loop_ring *ring);

#endif
