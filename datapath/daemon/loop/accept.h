/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring -> frame -> shaper, of one message. Loop thread only.
 */
#ifndef KTSN_LOOP_ACCEPT_H
#define KTSN_LOOP_ACCEPT_H

#include <stdatomic.h>
#include <stdint.h>

struct ktsn_ring_taken;
struct loop;
struct loop_destination;
struct loop_ring;

/* Makes a packet of a message, on its way to the shaper, or rejects it. 0; -EAGAIN: its pod has as much as it
 * may; -ENOBUFS: there is no packet: then the message stays the caller's. */
int message_accept(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken);
/* Ends one that never was a packet. `destination` is NULL where it names none that it may use. */
void message_reject(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken,
		    const struct loop_destination *destination, _Atomic uint64_t *reason);

#endif
