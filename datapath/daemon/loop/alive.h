/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports in untimed rings that the loop goes round, so that their relays know when frames would wait in
 * vain, and which priorities have a gate that is closed at times, so that a relay whose ktsnd is away sends
 * no frames of these to the kernel's bridge. Loop thread only.
 */
#ifndef KTSN_LOOP_ALIVE_H
#define KTSN_LOOP_ALIVE_H

#include <stdint.h>

struct loop;
struct loop_ring;

/* An untimed ring was opened; or ends, if it was. */
void alive_begin(struct loop *loop, struct loop_ring *ring);
void alive_end(struct loop *loop, struct loop_ring *ring);
/* In each round. */
void alive_tell(struct loop *loop);
/* So long the loop may sleep at most, if it would sleep so long. */
int64_t alive_sleep_max(const struct loop *loop, int64_t longest_ns);

#endif
