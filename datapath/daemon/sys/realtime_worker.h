/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that works for the control thread while departures wait for the result. The control thread has
 * ordinary scheduling: on a busy machine it may wait milliseconds for a processor. The worker gets real-time
 * scheduling while ktsnd still has the privilege, and sleeps until it is needed. The control thread waits
 * meanwhile, so the worker may use everything that belongs to the control thread.
 *
 * A second worker, with ordinary scheduling but the highest nice value, starts threads that inherit it after
 * ktsnd has given up the privilege.
 */
#ifndef KTSN_SYS_REALTIME_WORKER_H
#define KTSN_SYS_REALTIME_WORKER_H

struct realtime_worker;

struct realtime_worker_config {
	const char *name;
	int fifo_priority; /* SCHED_FIFO where allowed; 0: ordinary scheduling */
	int nice;          /* of ordinary scheduling, where allowed */
	int off_cpu;       /* avoided if there are others; -1: none */
};

/* 0 or -errno. */
int realtime_worker_create(struct realtime_worker **worker, const struct realtime_worker_config *config);
void realtime_worker_destroy(struct realtime_worker *worker);

/* Calls run(argument) in the worker and waits for it. NULL: in the calling thread. */
void realtime_worker_run(struct realtime_worker *worker, void (*run)(void *argument), void *argument);

#endif
