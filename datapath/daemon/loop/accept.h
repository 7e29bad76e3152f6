/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring -> frame -> shaper, for one message, and the messages that wait for the next hop of their destination.
 * Loop thread only.
 */
#ifndef KTSN_LOOP_ACCEPT_H
#define KTSN_LOOP_ACCEPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ktsn_ring_taken;
struct loop;
struct loop_destination;
struct loop_ring;

/* Makes a packet of the message, or rejects it. 0; -EAGAIN: its pod has used up its quota; -ENOBUFS: there is
 * no packet. After an error the message stays the caller's. */
int message_accept(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken);
/* Ends a message that has no packet. `destination` is NULL if the message names none that it may use. */
void message_reject(struct loop *loop, struct loop_ring *ring, const struct ktsn_ring_taken *taken,
		    const struct loop_destination *destination, _Atomic uint64_t *reason);

/* The destination's route has changed: its pending messages are released in turns, or wait again. */
void pending_update(struct loop *loop, struct loop_destination *destination);
/* Handles some of the released messages. */
void pending_release(struct loop *loop);

/* Returns the priority of a message of a packet socket: `priority`, or the one in its VLAN tag if the
 * admission says so. */
uint8_t admission_priority(const struct loop_destination *destination, uint16_t ethertype_be,
			   uint8_t priority, const uint8_t *payload, size_t bytes);
/* Whether a message of a packet socket may leave, by its source addresses and priority. The application must
 * not be able to write the payload any more. */
bool admission_allows(const struct loop_destination *destination, uint16_t ethertype_be, uint8_t priority,
		      const uint8_t *payload, size_t bytes);

#endif
