/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is late does not make others late. Loop thread only.
 */
#ifndef KTSN_LOOP_YIELD_H
#define KTSN_LOOP_YIELD_H

#include <stdint.h>

struct loop;

/* How long the port took for so many frames. */
void yield_learn(struct loop *loop, int64_t took_ns, uint32_t frames);
/* Messages may have been taken since. */
void yield_begin(struct loop *loop);
/* How many frames may be sent in one go before the next comes due. If not one, waits for that: *now is the
 * time then. */
uint32_t yield_to_due(struct loop *loop, int64_t *now_tai_ns);

#endif
