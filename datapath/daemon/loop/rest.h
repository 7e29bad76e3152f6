/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rests, so that the kernel never has to stop the loop (budget.h), and what became of that. Loop thread, but
 * for the last two functions.
 */
#ifndef KTSN_LOOP_REST_H
#define KTSN_LOOP_REST_H

#include "budget_use.h"

#include <stdbool.h>
#include <stdint.h>

struct loop;

/* The thread begins. */
void rest_begin(struct loop *loop);
/* Whether the loop is to rest in a gap of that length before the next event. Keeps the account. */
bool rest_wanted(struct loop *loop, int64_t gap_ns);
/* Whether nothing may end the rest: with doorbells that ring without end the loop would never rest. */
bool rest_must_be_deaf(const struct loop *loop);
/* Sleeps: until shortly before the end of the gap, or, when the gap is too short, as long as is worth it.
 * Returns by how much it was longer. */
int64_t rest(struct loop *loop, int64_t gap_ns);
/* A sleep of the loop is over that was to take so long, and took so long. */
void rest_slept(struct loop *loop, int64_t asked_ns, int64_t took_ns);

/* As loop_budget_set() and loop_budget_use(). Any thread. */
void rest_budget_set(struct loop *loop, uint32_t runtime_us, uint32_t period_us);
struct loop_budget_use rest_budget_use(const struct loop *loop);

#endif
