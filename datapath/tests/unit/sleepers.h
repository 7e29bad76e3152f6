/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that sleep until a ring has space. Include before unit_test.h.
 */
#ifndef KTSN_TEST_SLEEPERS_H
#define KTSN_TEST_SLEEPERS_H

#include "ring_producer.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLEEPERS_MAX = 256, SLEEPERS_TRIES = 30000 };

struct sleepers {
	struct ktsn_ring_producer *ring;
	void (*wait)(struct sleepers *sleepers);
	int call; /* the system call in which they wait */
	uint32_t count;
	pthread_t threads[SLEEPERS_MAX];
	_Atomic int tids[SLEEPERS_MAX];
	_Atomic uint32_t tids_count;
	_Atomic uint32_t woken;
};

static __thread bool sleeper_announced;

/* Called by `wait` before it sleeps. */
static inline void sleeper_announce(struct sleepers *sleepers)
{
	if (!sleeper_announced)
		atomic_store(&sleepers->tids[atomic_fetch_add(&sleepers->tids_count, 1)],
			     (int)syscall(SYS_gettid));
	sleeper_announced = true;
}

static inline void *sleeper_run(void *argument)
{
	struct sleepers *sleepers = argument;

	sleepers->wait(sleepers);
	return NULL;
}

static inline void sleepers_fail(const char *label)
{
	fprintf(stderr, "threads that wait for space: %s\n", label);
	abort();
}

static inline void sleepers_start(struct sleepers *sleepers, uint32_t count)
{
	for (sleepers->count = 0; sleepers->count < count; sleepers->count++)
		if (pthread_create(&sleepers->threads[sleepers->count], NULL, sleeper_run, sleepers))
			sleepers_fail("cannot be started");
}

/* Waits until the thread sleeps in its system call (futex, ppoll), according to the state and system call
 * number that the kernel reports for it. */
static inline bool sleeper_asleep(int tid, int call_number)
{
	char path[64], call[32], expected[32];
	FILE *file;
	bool asleep;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	snprintf(expected, sizeof(expected), "%d ", call_number);
	file = fopen(path, "re");
	if (!file)
		return false;
	asleep = fgets(call, sizeof(call), file) && strncmp(call, expected, strlen(expected)) == 0;
	fclose(file);
	return asleep;
}

static inline uint32_t sleepers_asleep(struct sleepers *sleepers)
{
	uint32_t asleep = 0;

	for (uint32_t i = 0; i < atomic_load(&sleepers->tids_count); i++)
		asleep += sleeper_asleep(atomic_load(&sleepers->tids[i]), sleepers->call);
	return asleep;
}

static inline void sleepers_await_asleep(struct sleepers *sleepers)
{
	for (int tries = 0; sleepers_asleep(sleepers) != sleepers->count; tries++) {
		if (tries == SLEEPERS_TRIES)
			sleepers_fail("do not fall asleep");
		usleep(1000);
	}
}

static inline void sleepers_await_woken(struct sleepers *sleepers, uint32_t woken)
{
	for (int tries = 0; atomic_load(&sleepers->woken) < woken; tries++) {
		if (tries == SLEEPERS_TRIES)
			sleepers_fail("are left asleep");
		usleep(1000);
	}
}

static inline void sleepers_join(struct sleepers *sleepers)
{
	for (uint32_t i = 0; i < sleepers->count; i++)
		pthread_join(sleepers->threads[i], NULL);
}

#endif
