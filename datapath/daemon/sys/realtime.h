/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real-time settings of threads and memory. If the machine refuses one, ktsnd logs a warning that says what
 * to do, and continues. Main thread, at start.
 */
#ifndef KTSN_SYS_REALTIME_H
#define KTSN_SYS_REALTIME_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Binds the thread to a CPU; -1: any. 0, or -errno after a warning. */
int realtime_pin(pthread_t thread, int cpu);

/* Returns the only CPU that this process may run on, for example in a cpuset; -1: there are several. */
int realtime_only_cpu(void);

/* Excludes a CPU from those of the calling thread, if it may run on others: next to a busy thread of
 * SCHED_FIFO it would wait until the kernel moves it. -1 is harmless. */
void realtime_stay_off(int cpu);

/* Sets SCHED_FIFO with that priority. 0, or -errno after a warning; -EINVAL without one for priority 0, which
 * means ordinary scheduling. */
int realtime_fifo(pthread_t thread, int priority);

/*
 * Allocates zeroed memory for the loop thread, to be released by free(). NULL when out of memory. The memory
 * is touched here, so that no page fault occurs between two departures, and is in huge pages if the kernel
 * allows: with many packets, TLB misses of small pages are a good part of a packet's cost.
 */
void *realtime_alloc(size_t bytes);

/* Locks pages that have been touched in memory, with a warning when not allowed, and keeps khugepaged away
 * from them: huge pages that are there stay, and there will be no others. */
void realtime_lock_memory(void);

/* ---- the budget ---- */

/*
 * The processor time that the kernel allows a real-time thread before it stops the thread.
 *
 * Three mechanisms do that, by the kernel's version and build (kernel/sched/rt.c, kernel/sched/deadline.c,
 * Documentation/scheduler/sched-rt-group.rst, Documentation/scheduler/sched-deadline.rst):
 *
 *   run queue   Before 6.12. The run queue of a processor sums up the time of its real-time threads, and all
 * of them stop at sched_rt_runtime_us. Each sched_rt_period_us a timer subtracts one runtime. The timer's
 * phase is unknown, so at most one runtime may be used in any period. cgroup      With CONFIG_RT_GROUP_SCHED,
 * of any version. The same for each group on each processor, and what a thread uses adds up in its group and
 * in all above. The root has the sysctl's values. cgroup v2 has no files for it: all real-time threads are
 * the root's. fair server Since 6.12. When ordinary threads of a processor have had less than the server's
 * runtime of a period (50 ms of a second), they run before real-time threads until they have had it. Time in
 * which the processor idles, or they run anyway, counts for them. An isolated processor has none but those
 * that are bound to it, such as the kernel's own: they run for microseconds.
 *
 * The first two stop the thread even while no other thread is runnable, also on an isolated processor; -1 in
 * sched_rt_runtime_us disables both, for all groups. The loop uses less than the tightest limit, spread
 * evenly, which satisfies all of them. If there is no limit but all threads of the process have one
 * processor, the loop leaves the others as much as the kernel would by default.
 *
 * Pure except for the files that it reads. Any thread.
 */

struct realtime_budget {
	uint32_t runtime_us, period_us; /* 0: no limit */
	bool one_processor;             /* the kernel sets no limit, but the other threads would starve */
	char source[512];               /* setting or file of the limit, or its reason */
};

/* Reads the budget of this process on a processor; -1: any. `root` is a prefix of all paths for tests,
 * otherwise ""; `release` is the kernel's; `ordinary_too`: an ordinary thread of this process always runs
 * there. */
void realtime_budget_read(struct realtime_budget *budget, const char *root, const char *release, int cpu,
			  bool ordinary_too);

#endif
