/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of networks to which the node's clock is lost: what a network asks for then is done here. Loop
 * thread only.
 *
 *   HOLD      a packet whose time has come leaves the shaper, and waits in a heap of its attachment until the
 *             clock is good again, or its time is past by more than its pod's horizon
 *   REFUSE    libktsn refuses messages (`refused` of the ring's header); one that comes all the same is
 *             dropped, unless it was sent before
 *   CONTINUE  they are counted (message.c)
 *
 * A packet stays in the shaper until its time comes, so that nothing has to be taken out of the middle when a
 * clock is lost. When the clock is good again packets go back into the shaper in the order of their times, a
 * few of each pod in a round, because others have departures due. Until all are back a packet that comes due
 * and is later than one that waits takes its place among those.
 */
#ifndef KTSN_LOOP_HELD_H
#define KTSN_LOOP_HELD_H

#include "held_packets.h"

/* A round: some of those that need not wait any more go back into the shaper, and those that have waited for
 * too long are dropped. */
void held_continue(struct loop *loop);
/* When a packet will have waited for too long; KTSN_SHAPER_NEVER: none waits. */
int64_t held_next(const struct loop *loop);
/* Horizons have. */
void held_limits_changed(struct loop *loop);

/* Of an attachment's network, from now on. */
void held_clock_set(struct loop *loop, struct loop_attachment *attachment, enum loop_clock clock);

/* Whether a message with a time is refused; and one that is not has been taken. */
bool held_refuses(const struct loop_ring *ring, const struct loop_destination *destination,
		  const struct ktsn_ring_taken *taken);
void held_refusal_pass(struct loop_ring *ring, const struct loop_destination *destination);
/* What is sent from now on may be refused; and libraries are told by which networks. */
void held_refusal_begin(struct loop_ring *ring);
void held_refusal_set(struct loop_ring *ring, uint64_t refused);

#endif
