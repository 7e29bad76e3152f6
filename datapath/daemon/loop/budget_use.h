/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the loop made of its real-time budget, for those who ask. A copy.
 */
#ifndef KTSN_LOOP_BUDGET_USE_H
#define KTSN_LOOP_BUDGET_USE_H

#include <stdint.h>

struct loop_budget_use {
	int64_t runtime_ns, period_ns; /* as they were set */
	int64_t used_ns;               /* in the last whole period */
	int64_t most_used_ns;          /* in any period since these were set */
	uint64_t rests, rests_forced;  /* between events; where nothing was long enough */
	uint64_t stops, stopped_ns; /* times that the kernel took the processor for 10 ms or longer, and for
				     * how long all of them */
	uint64_t host_pauses;       /* times that the machine stood still for so long */
};

#endif
