/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processor time that the loop may use before the kernel stops it, and how much the loop rests for that.
 *
 * The kernel gives real-time threads a runtime in each period, and stops them for the rest of the period when
 * they have used it up: 50 ms of a second, by default. Only what the kernel charges counts: time asleep gives
 * nothing back, it is just not charged. So the account is kept by the thread's own clock. See
 * sys/realtime.h for what the kernel grants and by which accounting.
 *
 * A token bucket: it fills with time at a rate a little below the kernel's, and processor time empties it.
 *
 *   full |------ no rest ------| half |-- in gaps, ever shorter --| quarter |-- anywhere --| empty
 *
 * In no window of a period does the loop use more than rate + bucket, which is less than the runtime wherever
 * the kernel's period begins.
 *
 * Pure: no clock of its own. Loop thread.
 */
#ifndef KTSN_LOOP_BUDGET_H
#define KTSN_LOOP_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct budget {
	int64_t runtime_ns, period_ns; /* the kernel's; 0: it stops nobody */
	int64_t bucket_ns;             /* what it holds when it is full */
	int64_t left_ns;               /* what is in it; below zero: overdrawn */
	int64_t others_ns;             /* of the runtime, what others seem to use: learnt from stops */
	int64_t fill_rest;             /* of the division, for the next time */
};

/* Full. A runtime of 0, or not below the period: the kernel stops nobody. */
void budget_init(struct budget *budget, int64_t runtime_ns, int64_t period_ns);
/* So much time has passed, and so much of it was charged. */
void budget_charge(struct budget *budget, int64_t passed_ns, int64_t charged_ns);
/* The kernel stopped the loop all the same: others use the same budget, so the loop uses less for a while. */
void budget_stopped(struct budget *budget);

/* Whether the loop is to rest in a gap of that length between two events; not above 0: something is due.
 * `whole_ns` is a gap in which a rest delays nothing. */
bool budget_rest_due(const struct budget *budget, int64_t gap_ns, int64_t whole_ns);
/* Whether so little is left that the loop rests in any gap. */
bool budget_short(const struct budget *budget);
/* How long a rest is that cannot have a whole gap: not shorter than what is worth it, longer the more is
 * overdrawn. */
int64_t budget_slice(const struct budget *budget, int64_t shortest_ns);
/* How often the account must be kept, so that it is never far off. */
int64_t budget_account_every(const struct budget *budget);

#endif
