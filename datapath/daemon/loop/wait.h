/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The third stage of the loop: sleep or spin until something may be due. Loop thread only.
 */
#ifndef KTSN_LOOP_WAIT_H
#define KTSN_LOOP_WAIT_H

struct loop;

void loop_wait(struct loop *loop);

#endif
