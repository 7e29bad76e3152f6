/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second stage of the loop: shaper -> port. Loop thread only.
 */
#ifndef KTSN_LOOP_SEND_H
#define KTSN_LOOP_SEND_H

#include "loop_objects.h"

struct loop;

/* Sends the frames that may leave now, for a short time. */
void loop_send(struct loop *loop);

/* Replaces the association of its node. */
void seal_association_set(struct loop *loop, struct loop_association *association);
/* Removes the association of a node, if there is one. */
void seal_association_remove(struct loop *loop, uint32_t node_be);
/* Raises the encryption of frames that wait for a network: those without room for ESP may not leave after
 * that. A lower encryption leaves them as they are. */
void seal_network_set(struct loop *loop, uint32_t vni, enum loop_encryption encryption);

/* Takes an announcement to another node, which leaves sealed, past the shaper. If the previous one still
 * waits it is sent first. Without an association it is dropped. */
void announcement_take(struct loop *loop, const struct loop_route *route,
		       const uint8_t payload[LOOP_ANNOUNCEMENT_BYTES]);

#endif
