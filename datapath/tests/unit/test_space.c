/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads that wait for space, of which ktsnd wakes a few.
 */
#include "ring_pair.h"
#include "sleepers.h"
#include "space.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { THREADS = 200 };

static void wait_as_library(struct sleepers *sleepers)
{
	struct ktsn_ring_producer *ring = sleepers->ring;
	uint32_t seen = ktsn_ring_space_wait_begin(ring);

	while (!atomic_load(&sleepers->end)) {
		sleeper_announce(sleepers);
		if (space_wait(ring, seen, 60 * INT64_C(1000000000)) == 0)
			atomic_fetch_add(&sleepers->woken, 1);
		seen = atomic_load(ktsn_ring_space_futex(ring));
	}
	ktsn_ring_space_wait_end(ring);
}

static void space_given_back(struct ring_pair *pair, int wakes)
{
	assert_true(ktsn_ring_space_wake_due(&pair->consumer));
	syscall(SYS_futex, ktsn_ring_consumer_space_futex(&pair->consumer), FUTEX_WAKE, wakes, NULL, NULL, 0);
}

/* Each time each of them looks, and looks once. */
static void all_that_wait_look_once_when_a_few_are_woken(void **state)
{
	struct sleepers sleepers = {.wait = wait_as_library};
	struct ring_pair pair;

	(void)state;
	assert_int_equal(ring_pair_init(&pair, 64, 64), 0);
	sleepers.ring = &pair.producer;
	sleepers_start(&sleepers, THREADS);
	for (uint32_t times = 1; times <= 40; times++) {
		sleepers_await_asleep(&sleepers);
		space_given_back(&pair, KTSN_RING_SPACE_WAKES);
		sleepers_await_woken(&sleepers, times * THREADS);
	}
	usleep(20000);
	assert_int_equal(atomic_load(&sleepers.woken), 40 * THREADS);
	atomic_store(&sleepers.end, true);
	space_given_back(&pair, INT_MAX);
	sleepers_join(&sleepers);
	ring_pair_fini(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_wait_look_once_when_a_few_are_woken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
