/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a measuring process asks of the kernel for itself: a core, a priority, resident memory, exact
 * timers, and a quiet end on SIGINT or SIGTERM. One thread, before the run.
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
	int64_t cpu;           /* -1: wherever the scheduler likes */
	int64_t fifo_priority; /* of SCHED_FIFO, 1 to 99; 0: stays with the ordinary scheduler */
};

/*
 * Call it when everything is allocated: it locks what is there. 0 or -errno, with a sentence on stderr;
 * locking memory is only tried.
 */
int process_prepare(const struct process_options *options);

/* True once SIGINT or SIGTERM came. Valid after process_prepare(). */
bool process_stop_requested(void);

#endif
