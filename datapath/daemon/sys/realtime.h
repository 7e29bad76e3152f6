/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes a thread punctual. The machine may refuse each: a refusal is a warning that says what to do, and
 * ktsnd continues. Main thread, at start.
 */
#ifndef KTSN_SYS_REALTIME_H
#define KTSN_SYS_REALTIME_H

#include <pthread.h>
#include <stddef.h>

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

#endif
