/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rings the loop polls, and when. Loop thread only.
 */
#ifndef KTSN_LOOP_WATCH_H
#define KTSN_LOOP_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_flow;
struct loop_ring;
struct quota;

/* A message of the flow was taken: when the next is expected. */
void watch_message(struct loop *loop, struct loop_flow *flow, int64_t txtime_tai_ns);
/* Puts rings from which something is expected by then among those to poll, some at a time. */
void watch_due(struct loop *loop, int64_t until_tai_ns);
/* What is expected is void, because CLOCK_TAI was set back or the strategy is another: polls the rings of all
 * flows that were expected. */
void watch_forget(struct loop *loop);
/* When that is to be called next; KTSN_SHAPER_NEVER: no message is expected. */
int64_t watch_next(const struct loop *loop, int64_t now_tai_ns);
/* The ring is to be polled in this round or the next. */
void watch_ring(struct loop *loop, struct loop_ring *ring);
/* Whose turn it is; there must be one. */
const struct quota *watch_quota(const struct loop *loop);
/* The next ring in turn, of the pod in turn, which is then the last. There must be one. */
struct loop_ring *watch_turn(struct loop *loop);
/* The ring was polled; `backlog`: not all was taken. */
void watch_polled(struct loop *loop, struct loop_ring *ring, bool backlog);
/* Whether there is a ring to poll that its quota allows to be taken from. */
bool watch_ready(const struct loop *loop, int64_t now_tai_ns);
void watch_end(struct loop *loop, struct loop_ring *ring);

#endif
