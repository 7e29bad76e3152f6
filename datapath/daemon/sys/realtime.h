/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes a thread punctual. The machine may refuse each: a refusal is a warning that says what to do, and
 * ktsnd continues. Main thread, at start.
 */
#ifndef KTSN_SYS_REALTIME_H
#define KTSN_SYS_REALTIME_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Binds the thread to a CPU; -1 is "any" and succeeds. 0 or -errno, warned about. */
int realtime_pin(pthread_t thread, int cpu);

/* The CPU that is the only one this process may run on, as by a cpuset; -1: there are several. */
int realtime_only_cpu(void);

/* Has the calling thread run on any CPU but this one, if it may run on others: beside a thread of SCHED_FIFO
 * that is busy it would wait until the kernel moves it. -1 is harmless. */
void realtime_stay_off(int cpu);

/* SCHED_FIFO with that priority; 0 is "ordinary scheduling". 0 when the thread has it, else -errno,
 * warned about (-EINVAL, silently, for priority 0). */
int realtime_fifo(pthread_t thread, int priority);

/*
 * Zeroed memory for what the loop thread works with; free() it. NULL when there is none. It is touched here,
 * so that no page is first looked for between two departures, and lies in huge pages where the kernel gives
 * them for the asking: with many packets the look-ups of small ones are a good part of a packet's cost.
 */
void *realtime_alloc(size_t bytes);

/* Keeps pages that have been touched in memory. Warned about when not allowed. */
void realtime_lock_memory(void);

/* ---- the budget ---- */

/*
 * The processor time that the kernel lets a real-time thread have before it stops the thread.
 *
 * Three mechanisms do that, by the kernel's version and build (kernel/sched/rt.c, kernel/sched/deadline.c,
 * Documentation/scheduler/sched-rt-group.rst, Documentation/scheduler/sched-deadline.rst):
 *
 *   run queue   Before 6.12. What real-time threads use of a processor adds up in its run queue, and all of
 *               them stop at sched_rt_runtime_us. Each sched_rt_period_us a timer takes off one runtime. The
 *               timer's phase is nobody's choice, so at most one runtime may be used in any period.
 *   cgroup      With CONFIG_RT_GROUP_SCHED, of any version. The same for each group on each processor, and
 *               what a thread uses adds up in its group and in all above. The root has the sysctl's values.
 *               cgroup v2 has no files for it: all real-time threads are the root's.
 *   fair server Since 6.12. When ordinary threads of a processor have had less than the server's runtime of
 *               a period (50 ms of a second), they run before real-time threads until they have had it. Time
 *               in which the processor idles, or they run anyway, counts for them.
 *               An isolated processor has none but those that are bound to it, such as the kernel's own: they
 *               run for microseconds.
 *
 * The first two stop the thread also while nothing else wants to run, on an isolated processor as well; -1 in
 * sched_rt_runtime_us ends both, for all groups. Less than the tightest of all is used, spread evenly: that
 * satisfies each. Where nothing stops the thread but all threads of the process have one processor, it leaves
 * the others what the kernel would by default.
 *
 * Pure but for the files it reads. Any thread.
 */

struct realtime_budget {
	uint32_t runtime_us, period_us; /* 0: the kernel stops nobody */
	bool one_processor;             /* nobody stops it, but the other threads would starve */
	char source[512];               /* what says so: a setting, a file, or why it is so */
};

/* Of this process, on that processor; -1: any. `root` stands before all paths, "" but in tests; `release` is
 * the kernel's; `ordinary_too`: this process has an ordinary thread there that always runs. */
void realtime_budget_read(struct realtime_budget *budget, const char *root, const char *release, int cpu,
			  bool ordinary_too);

#endif
