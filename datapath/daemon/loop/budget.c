/* SPDX-License-Identifier: Apache-2.0 */
#include "budget.h"

enum {
	/* The loop leaves these parts of the runtime, and of the rest of the period. */
	SPARE_OF_RUNTIME = 8,
	SPARE_OF_REST = 4,
	/* A stop means that others use this part of the runtime; more stops at most half of it. */
	OTHERS_STEP = 16,
	/* Periods without a stop after which that is forgotten. */
	OTHERS_PERIODS = 60,
	ACCOUNT_MOST_NS = 1000000,
	ACCOUNT_LEAST_NS = 20000,
};

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Returns the part of the runtime that the loop leaves. */
static int64_t spare(const struct budget *budget)
{
	return least((budget->period_ns - budget->runtime_ns) / SPARE_OF_REST,
		     budget->runtime_ns / SPARE_OF_RUNTIME);
}

void budget_init(struct budget *budget, int64_t runtime_ns, int64_t period_ns)
{
	*budget = (struct budget){0};
	if (runtime_ns <= 0 || runtime_ns >= period_ns)
		return;
	budget->runtime_ns = runtime_ns;
	budget->period_ns = period_ns;
	/* Rate and bucket leave a quarter of the spare time in each period. */
	budget->left_ns = budget->bucket_ns = spare(budget) * 3 / 4;
}

void budget_charge(struct budget *budget, int64_t passed_ns, int64_t charged_ns)
{
	int64_t rate_ns = budget->runtime_ns - spare(budget) - budget->others_ns, filled;

	if (!budget->period_ns)
		return;
	/* A longer time fills the bucket anyway, and must not overflow. */
	passed_ns = passed_ns < 0 ? 0 : least(passed_ns, budget->period_ns);
	filled = passed_ns * rate_ns + budget->fill_rest;
	budget->fill_rest = filled % budget->period_ns;
	budget->left_ns = least(budget->bucket_ns, budget->left_ns + filled / budget->period_ns - charged_ns);
	budget->others_ns -= least(budget->others_ns, passed_ns / OTHERS_PERIODS * budget->runtime_ns /
							      OTHERS_STEP / budget->period_ns);
}

void budget_stopped(struct budget *budget)
{
	budget->others_ns =
		least(budget->others_ns + budget->runtime_ns / OTHERS_STEP, budget->runtime_ns / 2);
}

bool budget_short(const struct budget *budget)
{
	return budget->period_ns && budget->left_ns <= budget->bucket_ns / 4;
}

bool budget_rest_due(const struct budget *budget, int64_t gap_ns, int64_t whole_ns)
{
	int64_t quarter_ns = budget->bucket_ns / 4;

	if (!budget->period_ns || budget->left_ns >= 2 * quarter_ns)
		return false;
	/* The less is left, the shorter a gap is enough. */
	if (budget->left_ns > quarter_ns)
		return gap_ns > whole_ns * (budget->left_ns - quarter_ns) / quarter_ns;
	/* If possible not while an event is due. */
	return gap_ns > 0 || budget->left_ns <= budget->bucket_ns / 8;
}

int64_t budget_slice(const struct budget *budget, int64_t shortest_ns)
{
	/* Below this the loop rests in any case: many short rests delay others less than a long one. */
	int64_t low_ns = budget->bucket_ns / 8;

	return budget->left_ns < low_ns ? shortest_ns + (low_ns - budget->left_ns) : shortest_ns;
}

int64_t budget_account_every(const struct budget *budget)
{
	int64_t every_ns = least(budget->bucket_ns / 16, ACCOUNT_MOST_NS);

	return every_ns < ACCOUNT_LEAST_NS ? ACCOUNT_LEAST_NS : every_ns;
}
