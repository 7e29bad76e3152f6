/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages and the node's clock: while the clock is lost to a network, its messages are held, refused or only
 * counted; when a clock is set, waiting messages get new times. Loop thread only.
 *
 *   HOLD      a packet whose time has come leaves the shaper and waits in a heap of its attachment until the
 *             clock is good again, or until its time has passed by more than its pod's horizon
 *   REFUSE    libktsn refuses messages (`refused` in the ring's header); a message that comes all the same is
 *             dropped, unless it was sent before the refusal
 *   CONTINUE  messages leave and are counted as clock-lost (outcome.c)
 *
 * A packet stays in the shaper until its time, so that nothing has to be taken out of the middle when a clock
 * is lost. When the clock is good again, packets return to the shaper in the order of their times, a few of
 * each pod in a round, because others have departures due. Until all have returned, a packet that comes due
 * and is later than one that waits joins the heap.
 */
#ifndef KTSN_LOOP_CLOCK_CHANGES_H
#define KTSN_LOOP_CLOCK_CHANGES_H

#include "loop_state.h"

/* Whether any packet is held or a clock is lost. Otherwise the functions below concern no message. */
static inline bool held_any(const struct loop *loop)
{
	return loop->held.concerns != 0;
}

/* Whether a packet that may leave now must be held. */
bool held_concerns(const struct packet *packet);
/* Holds a packet that was withdrawn from the shaper. */
void held_add(struct loop *loop, struct ktsn_shaper_packet *shaped);

/* Each round: returns some packets to the shaper, and drops packets that were held for too long. */
void held_continue(struct loop *loop);
/* Returns when a packet will have been held for too long; KTSN_SHAPER_NEVER: none is held. */
int64_t held_next(const struct loop *loop);
/* The horizons of pods have changed. */
void held_limits_changed(struct loop *loop);
/* Sets the state of the clock for an attachment's network. */
void held_clock_set(struct loop *loop, struct loop_attachment *attachment, enum loop_clock clock);

/* Whether a message with a transmit time is refused. */
bool held_refuses(const struct loop_ring *ring, const struct loop_destination *destination,
		  const struct ktsn_ring_taken *taken);
/* A message that is not refused was taken. */
void held_refusal_pass(struct loop_ring *ring, const struct loop_destination *destination);
/* Messages that are sent from now on may be refused. */
void held_refusal_begin(struct loop_ring *ring);
/* Tells the library which networks refuse messages. */
void held_refusal_set(struct loop_ring *ring, uint64_t refused);

/* Gives all waiting packets new times if a clock was set. */
void clocks_watch(struct loop *loop);

#endif
