/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that works for the control thread while departures wait for the result. The control thread has
 * ordinary scheduling: on a busy machine it may wait for a processor for milliseconds. The worker gets
 * real-time scheduling while ktsnd may still ask for it, and sleeps until it is needed. The control thread
 * waits meanwhile, so all that is the control thread's is the worker's for as long.
 */
#ifndef KTSN_SYS_REALTIME_WORKER_H
#define KTSN_SYS_REALTIME_WORKER_H

struct realtime_worker;

/* With SCHED_FIFO of that priority where allowed, and not on that CPU if there are others (-1: any). 0 or
 * -errno. */
int realtime_worker_create(struct realtime_worker **worker, int fifo_priority, int off_cpu);
void realtime_worker_destroy(struct realtime_worker *worker);

/* Returns when run(argument) has. NULL: the caller's own thread does it. */
void realtime_worker_run(struct realtime_worker *worker, void (*run)(void *argument), void *argument);

#endif
