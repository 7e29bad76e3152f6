/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbells that ring too often are not listened to for a while. Loop thread only.
 */
#ifndef KTSN_LOOP_THROTTLE_H
#define KTSN_LOOP_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

struct loop;
struct loop_ring;

/* Whether the loop hears the ring's doorbell. */
void doorbell_listen(const struct loop *loop, struct loop_ring *ring, bool listen);
/* A doorbell rang: if that is too often it is throttled. */
void throttle_doorbell(struct loop *loop, struct loop_ring *ring, int64_t now_tai_ns);
/* Listens to throttled doorbells again, if it is time. */
void throttle_release(struct loop *loop, int64_t now_tai_ns);
/* The clock was set back: the time that was waited for is void. */
void throttle_clock_set_back(struct loop *loop);
/* When throttle_release() is to be called next; KTSN_SHAPER_NEVER: no doorbell is throttled. */
int64_t throttle_next(const struct loop *loop);
/* A ring ends. */
void throttle_forget(struct loop *loop, struct loop_ring *ring);

#endif
