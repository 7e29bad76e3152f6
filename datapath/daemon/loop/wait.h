/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The third stage of the loop: sleep or spin until something may be due, and rest so that the kernel never
 * has to stop the thread (budget.h).
 */
#ifndef KTSN_LOOP_WAIT_H
#define KTSN_LOOP_WAIT_H

#include "loop_objects.h"

struct loop;

/* Prepares the account. Called by the loop thread when it starts. */
void rest_begin(struct loop *loop);
void loop_wait(struct loop *loop);

/* loop_budget_set() and loop_budget_use() of loop.h. Any thread. */
void rest_budget_set(struct loop *loop, uint32_t runtime_us, uint32_t period_us);
struct loop_budget_use rest_budget_use(const struct loop *loop);

#endif
