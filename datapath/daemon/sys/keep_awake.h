/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a CPU from sleeping while ktsnd does, in one of two ways:
 *
 *   latency limit  /dev/cpu_dma_latency holds the limit of 0 us as long as it is open (the kernel's
 *                  Documentation/power/pm_qos_interface.rst). Each idle CPU of the machine polls then, in the
 *                  kernel's idle thread. That needs a driver of power states (cpuidle) with a state to poll
 * in: without one the kernel halts an idle CPU whatever the limit is, as in most virtual machines. thread of
 * the lowest priority (SCHED_IDLE), which only spins. It yields to everything else.
 *
 * Power, and on a virtual machine a whole core, are the price of both. Main thread.
 */
#ifndef KTSN_SYS_KEEP_AWAKE_H
#define KTSN_SYS_KEEP_AWAKE_H

#include <pthread.h>
#include <stdatomic.h>

enum keep_awake_by { KEEP_AWAKE_NONE, KEEP_AWAKE_LATENCY_LIMIT, KEEP_AWAKE_THREAD };

struct keep_awake {
	enum keep_awake_by by;
	int fd;           /* of KEEP_AWAKE_LATENCY_LIMIT */
	pthread_t thread; /* of KEEP_AWAKE_THREAD */
	atomic_bool stop;
};

/* By a limit where the device can be opened and counts for that CPU, else by a thread there. `root` stands
 * before the paths of /sys, "" but in tests; an empty device: by a thread. 0 or -errno; ended by _stop. */
int keep_awake_start(struct keep_awake *awake, int cpu, const char *device, const char *root);
void keep_awake_stop(struct keep_awake *awake);

/* As the control socket says it. */
const char *keep_awake_name(enum keep_awake_by by);

#endif
