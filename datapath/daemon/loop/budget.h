/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processor time that the loop may use before the kernel stops it, and how long the loop rests to avoid
 * that.
 *
 * The kernel gives real-time threads a runtime in each period, and stops them for the rest of the period when
 * they have used it up: 50 ms of a second, by default. Only charged time counts: sleeping returns nothing, it
 * is just not charged. So the account uses the thread's own clock. See sys/realtime.h for what the kernel
 * grants and by which accounting.
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
	int64_t runtime_ns, period_ns; /* the kernel's; 0: it never stops the thread */
	int64_t bucket_ns;             /* capacity */
	int64_t left_ns;               /* contents; below zero: overdrawn */
	int64_t others_ns; /* part of the runtime that other threads seem to use; learnt from stops */
	int64_t fill_rest; /* remainder of the last division */
};

/* Starts with a full bucket. With a runtime of 0, or not below the period, the kernel never stops the thread.
 */
void budget_init(struct budget *budget, int64_t runtime_ns, int64_t period_ns);
/* Accounts for time that has passed and the part of it that was charged. */
void budget_charge(struct budget *budget, int64_t passed_ns, int64_t charged_ns);
/* The kernel has stopped the loop: other threads use the same budget, so the loop uses less for a while. */
void budget_stopped(struct budget *budget);

/* Whether the loop must rest in a gap of this length between two events; 0 or less: an event is due.
 * `whole_ns` is the length of a gap in which a rest delays nothing. */
bool budget_rest_due(const struct budget *budget, int64_t gap_ns, int64_t whole_ns);
/* Whether so little is left that the loop must rest in any gap. */
bool budget_short(const struct budget *budget);
/* Returns the length of a rest that has no whole gap: at least `shortest_ns`, and longer the more is
 * overdrawn. */
int64_t budget_slice(const struct budget *budget, int64_t shortest_ns);
/* Returns the longest time between two charges that keeps the account accurate. */
int64_t budget_account_every(const struct budget *budget);

#endif
