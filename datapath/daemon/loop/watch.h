/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rings: which the loop polls and when, whose doorbell it listens to, and which relays it tells that it
 * is alive. Loop thread only.
 */
#ifndef KTSN_LOOP_WATCH_H
#define KTSN_LOOP_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_flow;
struct loop_ring;
struct quota;

/* ---- rings to poll ---- */

/* Polls the ring in this round or the next. */
void watch_ring(struct loop *loop, struct loop_ring *ring);
/* The ring was polled; `backlog`: messages were left in it. */
void watch_polled(struct loop *loop, struct loop_ring *ring, bool backlog);
void watch_end(struct loop *loop, struct loop_ring *ring);
/* Returns the pod whose turn it is. There must be a ring to poll. */
const struct quota *watch_quota(const struct loop *loop);
/* Returns the next ring of the pod whose turn it is, and moves the pod to the end of the list. There must be
 * a ring to poll. */
struct loop_ring *watch_turn(struct loop *loop);
/* Whether there is a ring to poll whose pod may send more. */
bool watch_ready(const struct loop *loop, int64_t now_tai_ns);

/* ---- expected messages ---- */

/* A message of the flow was taken: computes when the next is expected. */
void watch_message(struct loop *loop, struct loop_flow *flow, int64_t txtime_tai_ns);
/* Polls rings that expect a message by this time, a few in each round. */
void watch_due(struct loop *loop, int64_t until_tai_ns);
/* Returns when watch_due() must be called next; KTSN_SHAPER_NEVER: no message is expected. */
int64_t watch_next(const struct loop *loop, int64_t now_tai_ns);
/* CLOCK_TAI was set back or the strategy has changed: polls the rings of all expected flows. */
void watch_reset(struct loop *loop);

/* ---- doorbells ---- */

/* Arms or disarms the doorbell of a ring. */
void doorbell_listen(const struct loop *loop, struct loop_ring *ring, bool listen);
/* A doorbell rang; it is throttled if it rings too often. */
void throttle_doorbell(struct loop *loop, struct loop_ring *ring, int64_t now_tai_ns);
/* Arms throttled doorbells again when it is time. */
void throttle_release(struct loop *loop, int64_t now_tai_ns);
/* Returns when throttle_release() must be called next; KTSN_SHAPER_NEVER: no doorbell is throttled. */
int64_t throttle_next(const struct loop *loop);
void throttle_clock_set_back(struct loop *loop);
/* A ring ends. */
void throttle_forget(struct loop *loop, struct loop_ring *ring);

/* ---- heartbeat of untimed rings ----
 *
 * The loop writes the time and the gated priorities into untimed rings. A relay learns from them that frames
 * would wait in vain, and, when ktsnd is away, which priorities it must not send to the kernel's bridge. */

void alive_begin(struct loop *loop, struct loop_ring *ring);
void alive_end(struct loop *loop, struct loop_ring *ring);
/* Writes the heartbeat of some rings, in each round. */
void alive_update(struct loop *loop);
/* Returns the shorter of `longest_ns` and the time that the heartbeat lets the loop sleep. */
int64_t alive_sleep_max(const struct loop *loop, int64_t longest_ns);

#endif
