/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool of packets. Loop thread only.
 */
#ifndef KTSN_LOOP_POOL_H
#define KTSN_LOOP_POOL_H

struct loop;
struct packet;

/* With a frame; NULL when there is none left. */
struct packet *packet_alloc(struct loop *loop);
/* The frame is the port's, or was freed before. */
void packet_free(struct loop *loop, struct packet *packet);

#endif
