/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clock steps while messages wait. The test sets the clock: CLOCK_TAI is the machine's plus an offset of the
 * test; the other clocks are the machine's. The machine's clocks are not changed.
 */
#include "loop_rig.h"

#include "clock.h"

#include <stdlib.h>

#include "unit_test.h"

enum { SLOTS = 64, PACKETS = 256, MS = 1000000, TAI_OFFSET_S = 37, FAR_S = 1000 };

static _Atomic int64_t tai_ahead_s;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = __real_clock_gettime(clock == CLOCK_TAI ? CLOCK_REALTIME : clock, now);

	if (clock == CLOCK_TAI)
		now->tv_sec += atomic_load(&tai_ahead_s);
	return result;
}

static const clockid_t clocks[KTSN_CLOCKS] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_TAI};

struct bench {
	struct rig rig;
	struct rig_ring ring;
	struct loop_destination *destinations[KTSN_CLOCKS];
};

static int set_up(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	*state = bench;
	atomic_store(&tai_ahead_s, TAI_OFFSET_S);
	rig_init(&bench->rig, &(struct rig_config){PACKETS, PACKETS, 10000, 10000});
	rig_ring_open(&bench->rig, &bench->ring, SLOTS);
	for (uint32_t clock = 0; clock < KTSN_CLOCKS; clock++) {
		struct loop_flow *flow =
			rig_flow_open(&bench->rig, &bench->ring, clock, clock + 1, (enum ktsn_clock)clock);

		bench->destinations[clock] =
			rig_destination_open(&bench->rig, &bench->ring, clock, flow, DESTINATION_RESOLVED);
	}
	rig_wait_commands(&bench->rig);
	return 0;
}

static int tear_down(void **state)
{
	struct bench *bench = *state;

	rig_wait_pending(&bench->rig, 0);
	for (uint32_t clock = 0; clock < KTSN_CLOCKS; clock++) {
		rig_destination_close(&bench->rig, &bench->ring, clock);
		rig_flow_close(&bench->rig, &bench->ring, clock);
	}
	rig_ring_close(&bench->rig, &bench->ring);
	rig_wait_retired(&bench->rig, 2 * KTSN_CLOCKS + 1);
	assert_int_equal(rig_ring_free_slots(&bench->ring), SLOTS);
	rig_fini(&bench->rig);
	rig_ring_fini(&bench->ring);
	free(bench);
	return 0;
}

/* Returns its transmit time. */
static int64_t send_ahead(struct bench *bench, enum ktsn_clock clock, int64_t ahead_ns)
{
	int64_t txtime_ns = clock_ns(clocks[clock]) + ahead_ns;

	rig_send(&bench->ring,
		 &(struct rig_message){(uint32_t)clock, (uint32_t)clock, clock, txtime_ns, "x", 0, 0, 0});
	return txtime_ns;
}

static void wait_sent(struct bench *bench, uint64_t count)
{
	rig_wait_counter(&bench->rig, &loop_counters(bench->rig.loop)->sent, count);
}

TEST_F(every_clock_is_met_when_TAI_is_ahead)
{
	struct bench *bench = *state;

	for (int clock = 0; clock < KTSN_CLOCKS; clock++) {
		int64_t now_ns = clock_ns(clocks[clock]), now_tai_ns = clock_tai_ns();
		int64_t txtime_ns = send_ahead(bench, (enum ktsn_clock)clock, 20 * MS);
		struct departure departure;

		wait_sent(bench, (uint64_t)clock + 1);
		departure = rig_departure(&bench->rig, (uint32_t)clock);
		/* As far ahead on that clock as on this one, except for the time between the readings. */
		assert_true(departure.requested_tai_ns - now_tai_ns >= txtime_ns - now_ns - MS);
		assert_true(departure.requested_tai_ns - now_tai_ns < 20 * MS + NS_PER_SECOND);
		assert_true(departure.departed_tai_ns >= departure.requested_tai_ns);
		assert_true(clock_ns(clocks[clock]) >= txtime_ns);
	}
}

/* CLOCK_TAI jumps ahead, as with a leap second or when somebody sets the machine's TAI offset. */
TEST_F(messages_on_other_clocks_are_not_early_when_TAI_is_set_ahead)
{
	struct bench *bench = *state;
	int64_t realtime_ns = send_ahead(bench, KTSN_CLOCK_REALTIME, 300 * MS);
	int64_t monotonic_ns = send_ahead(bench, KTSN_CLOCK_MONOTONIC, 300 * MS);

	rig_wait_pending(&bench->rig, 2);
	atomic_fetch_add(&tai_ahead_s, FAR_S);
	wait_sent(bench, 2);
	assert_true(clock_ns(CLOCK_REALTIME) >= realtime_ns);
	assert_true(clock_ns(CLOCK_MONOTONIC) >= monotonic_ns);
	for (uint32_t i = 0; i < 2; i++) {
		struct departure departure = rig_departure(&bench->rig, i);

		assert_true(departure.departed_tai_ns >= departure.requested_tai_ns);
		assert_true(departure.requested_tai_ns >=
			    realtime_ns + (TAI_OFFSET_S + FAR_S) * NS_PER_SECOND - NS_PER_SECOND);
	}
}

/* Without the step they would wait for a thousand seconds. */
TEST_F(messages_on_other_clocks_are_not_late_when_TAI_is_set_back)
{
	struct bench *bench = *state;

	atomic_fetch_add(&tai_ahead_s, FAR_S);
	(void)send_ahead(bench, KTSN_CLOCK_MONOTONIC, 300 * MS);
	(void)send_ahead(bench, KTSN_CLOCK_REALTIME, 310 * MS);
	rig_wait_pending(&bench->rig, 2);
	atomic_fetch_sub(&tai_ahead_s, FAR_S);
	wait_sent(bench, 2);
	assert_int_equal(rig_departure(&bench->rig, 0).flow, KTSN_CLOCK_MONOTONIC + 1);
}

TEST_F(messages_on_TAI_follow_it)
{
	struct bench *bench = *state;
	int64_t txtime_ns = send_ahead(bench, KTSN_CLOCK_TAI, (int64_t)FAR_S * NS_PER_SECOND / 2);

	(void)send_ahead(bench, KTSN_CLOCK_MONOTONIC, 100 * MS);
	rig_wait_pending(&bench->rig, 2);
	atomic_fetch_add(&tai_ahead_s, FAR_S);
	wait_sent(bench, 2);
	assert_true(clock_tai_ns() >= txtime_ns);
	assert_int_equal(rig_departure(&bench->rig, 0).flow, KTSN_CLOCK_TAI + 1);
}

/* A message that waits for an address is moved, too. */
TEST_F(pending_messages_follow_steps)
{
	struct bench *bench = *state;
	struct loop_destination *destination = bench->destinations[KTSN_CLOCK_MONOTONIC];
	int64_t txtime_ns;

	rig_destination_update(&bench->rig, destination, DESTINATION_RESOLVING);
	txtime_ns = send_ahead(bench, KTSN_CLOCK_MONOTONIC, 300 * MS);
	rig_wait_pending(&bench->rig, 1);
	atomic_fetch_add(&tai_ahead_s, FAR_S);
	/* The loop completes another round. */
	(void)send_ahead(bench, KTSN_CLOCK_REALTIME, 0);
	wait_sent(bench, 1);
	rig_destination_update(&bench->rig, destination, DESTINATION_RESOLVED);
	wait_sent(bench, 2);
	assert_true(clock_ns(CLOCK_MONOTONIC) >= txtime_ns);
}
