/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives objects back to the control thread when nothing of them is in flight any more. Loop thread only.
 *
 * Each function may end the object that it is given: the caller does not use it afterwards.
 */
#ifndef KTSN_LOOP_RETIRE_H
#define KTSN_LOOP_RETIRE_H

struct loop;
struct loop_destination;
struct loop_flow;
struct loop_object;
struct loop_replication;
struct loop_ring;

void object_retire(struct loop *loop, struct loop_object *object);
void flow_retire_if_done(struct loop *loop, struct loop_flow *flow);
void destination_retire_if_done(struct loop *loop, struct loop_destination *destination);
void ring_retire_if_done(struct loop *loop, struct loop_ring *ring);
/* It was replaced, and no message's copies are being made of it. */
void replication_retire_if_done(struct loop *loop, struct loop_replication *replication);

#endif
