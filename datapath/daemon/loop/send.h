/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The second stage of the loop: shaper -> port. Loop thread only.
 */
#ifndef KTSN_LOOP_SEND_H
#define KTSN_LOOP_SEND_H

struct loop;

/* Sends what may leave now, for a short time. */
void loop_send(struct loop *loop);

#endif
