/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a slot names: flows and destinations, which commands still to be executed may open. Loop thread only.
 */
#ifndef KTSN_LOOP_LOOKUP_H
#define KTSN_LOOP_LOOKUP_H

struct ktsn_ring_taken;
struct loop;
struct loop_destination;
struct loop_flow;
struct loop_ring;

/* The destination that a message names, if its flow may use it and its payload is not too long; else NULL. */
struct loop_destination *destination_find(struct loop *loop, const struct loop_ring *ring,
					  const struct ktsn_ring_taken *taken);
/* The socket that a slot names, if the process has one of that number; else NULL. */
struct loop_flow *flow_find(const struct loop_ring *ring, const struct ktsn_ring_taken *taken);

#endif
