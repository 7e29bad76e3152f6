/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that the uplink's port took and withdrew later (port/vhost_stall.c): they had been counted as sent,
 * and are counted as drop-stale instead. The port reports a number only: the last frames that it took. So the
 * loop remembers how it counted as many frames as the port can withdraw.
 *
 * The applications are not told: their slots are free since the port took the frames. Departures and traces
 * keep the time at which it did.
 *
 * Thread: the loop's, but for withdrawals_report().
 */
#ifndef KTSN_LOOP_WITHDRAWALS_H
#define KTSN_LOOP_WITHDRAWALS_H

#include <stdatomic.h>
#include <stdint.h>

struct loop;
struct loop_withdrawals;
struct packet;

/* For a port that withdraws at most so many frames at a time; 0: none. 0 or -ENOMEM. */
int withdrawals_init(struct loop_withdrawals *withdrawals, uint32_t frames_max);
void withdrawals_fini(struct loop_withdrawals *withdrawals);

/* A frame that the uplink took has been counted, and its message has not ended yet. */
void withdrawals_note(struct loop *loop, const struct packet *packet, _Atomic uint64_t *lateness);
/* Any thread: the port withdrew the last `frames` that it took. */
void withdrawals_report(struct loop *loop, uint32_t frames);
/* Counts what was reported. Before anything is sent: the last frames are those that were withdrawn. */
void withdrawals_count(struct loop *loop);

#endif
