/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a CPU from sleeping while ktsnd does, in one of two ways:
 *
 *   latency limit  /dev/cpu_dma_latency holds the limit of 0 us as long as it is open (the kernel's
 *                  Documentation/power/pm_qos_interface.rst). Each idle CPU of the machine polls then, in the
 *                  kernel's idle thread. That needs a driver of power states (cpuidle) with a polling state:
 *                  without one the kernel halts an idle CPU whatever the limit is, as in most virtual
 * machines. thread         A thread of the lowest priority (SCHED_IDLE) spins. It yields to everything else.
 *
 * Both cost power, and in a virtual machine a whole core. Main thread.
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

/* Uses the limit if the device can be opened and has an effect on the CPU, otherwise, or with an empty
 * device, a thread. `root` is a prefix of paths in /sys for tests, otherwise "". 0 or -errno. */
int keep_awake_start(struct keep_awake *awake, int cpu, const char *device, const char *root);
void keep_awake_stop(struct keep_awake *awake);

/* Returns the name on the control socket. */
const char *keep_awake_name(enum keep_awake_by by);

#endif
