/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that works for the control thread while departures wait for the result. The control thread has
 * ordinary scheduling: on a busy machine it may wait for a processor for milliseconds. The worker gets
 * real-time scheduling while ktsnd may still ask for it, and sleeps until it is needed. The control thread
 * waits meanwhile, so all that is the control thread's is the worker's for as long.
 *
 * A second one, of ordinary scheduling but before all other ordinary threads, starts threads that inherit
 * that when ktsnd itself may not ask for it any more.
 */
#ifndef KTSN_SYS_REALTIME_WORKER_H
#define KTSN_SYS_REALTIME_WORKER_H

struct realtime_worker;

struct realtime_worker_config {
	const char *name;
	int fifo_priority; /* SCHED_FIFO where allowed; 0: ordinary scheduling */
	int nice;          /* of ordinary scheduling, where allowed */
	int off_cpu;       /* it does not run there if there are others; -1: anywhere */
};

/* 0 or -errno. */
int realtime_worker_create(struct realtime_worker **worker, const struct realtime_worker_config *config);
void realtime_worker_destroy(struct realtime_worker *worker);

/* Returns when run(argument) has. NULL: the caller's own thread does it. */
void realtime_worker_run(struct realtime_worker *worker, void (*run)(void *argument), void *argument);

#endif
