/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The filter of system calls of a guest's relay as it is shipped, including threads that ran before it was
 * loaded. Not tested in builds with sanitizers, which have none.
 */
#include "sandbox.h"

#include <pthread.h>

#include "unit_test.h"

#include "sandbox_calls.h"

static pthread_barrier_t entered;
static bool (*to_hold)(void);

static void *hold(void *unused)
{
	pthread_barrier_wait(&entered); /* it has begun */
	pthread_barrier_wait(&entered);
	return to_hold() ? &entered : NULL;
}

/* Checks in this thread, and in one that began before. */
static int run(bool (*holds)(void))
{
	pthread_t thread;
	void *held;

	to_hold = holds;
	pthread_barrier_init(&entered, NULL, 2);
	if (sandbox_vhost_prepare() || pthread_create(&thread, NULL, hold, NULL))
		return NOT_ENTERED;
	pthread_barrier_wait(&entered);
	if (sandbox_vhost_enter())
		return NOT_ENTERED;
	pthread_barrier_wait(&entered);
	pthread_join(thread, &held);
	return held && holds() ? YES : NO;
}

static bool listening_is_refused_and_accepting_is_not(void)
{
	return refused(bind(0, NULL, 0)) && refused(listen(0, 1)) && accept(0, NULL, NULL) < 0 &&
	       errno != EPERM;
}

TEST(calls_are_sandboxed)
{
	assert_calls_sandboxed(run);
	assert_true(sandboxed(run, listening_is_refused_and_accepting_is_not));
}
