/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel settings of a measuring process: a core, a priority, resident memory, exact timers, and a clean end
 * on SIGINT or SIGTERM. One thread, before the run.
 */
#ifndef KTSN_PERF_PROCESS_H
#define KTSN_PERF_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Exit statuses of tsnperf. */
enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
};

struct process_options {
	int64_t cpu;           /* -1: any core */
	int64_t fifo_priority; /* of SCHED_FIFO, 1 to 99; 0: ordinary scheduling */
};

/*
 * Call it after all allocations: it locks existing memory. 0, or -errno after a message on stderr; a failure
 * to lock memory is ignored.
 */
int process_prepare(const struct process_options *options);

/* Returns true after SIGINT or SIGTERM. Valid after process_prepare(). */
bool process_stop_requested(void);

#endif
