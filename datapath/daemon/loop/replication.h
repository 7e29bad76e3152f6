/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the copies of messages that go to several. Loop thread only.
 */
#ifndef KTSN_LOOP_REPLICATION_H
#define KTSN_LOOP_REPLICATION_H

#include <stdint.h>

struct loop;
struct loop_destination;
struct loop_route;
struct packet;

/* Shapes the message of a resolved destination, or all copies of it, at round.now_tai_ns. Copies get their
 * packets now, as many as there can be, and are made in turns. */
void message_shape(struct loop *loop, struct packet *packet, const struct loop_route *route);
/* Makes some of the copies, and shapes them. */
void replication_continue(struct loop *loop);
/* How many packets it takes to send a message there. */
uint32_t destination_frames(const struct loop_destination *destination);

#endif
