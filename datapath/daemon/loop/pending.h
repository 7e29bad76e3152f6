/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that are pending until the next hop of their destination is known. Loop thread only.
 */
#ifndef KTSN_LOOP_PENDING_H
#define KTSN_LOOP_PENDING_H

struct loop;
struct loop_destination;
struct packet;

void pending_add(struct loop *loop, struct loop_destination *destination, struct packet *packet);
/* The destination is in another state: its pending messages are released for their turns, or wait again. */
void pending_update(struct loop *loop, struct loop_destination *destination);
/* Some of the released messages go on: they wait for their turn, or for room. */
void pending_release(struct loop *loop);

#endif
