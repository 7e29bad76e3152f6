/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop with the etf strategies: a deadline is met as early as possible, even if the loop knows its sender
 * well, and messages for which the loop itself is late are not dropped.
 */
#include "clock.h"
#include "commands.h"
#include "loop_bench.h"

#include <string.h>
#include <unistd.h>

#include "unit_test.h"

/* Later than any test waits. */
#define FAR    (1000 * INT64_C(1000000000))
#define PERIOD (100 * MS)

BENCH_TEST(periodic_deadlines_leave_immediately)
{
	struct bench *bench = *state;
	int64_t first_tai_ns = clock_tai_ns() + FAR;

	bench->flow->deadline = true;
	rig_strategy_set(&bench->rig, KTSN_STRATEGY_ETF_DEADLINE);
	for (unsigned int i = 0; i < 5; i++) {
		bench_send_number(bench, i, first_tai_ns + i * PERIOD);
		bench_wait_sent(bench, i + 1);
	}
	assert_int_equal(counter_read(&bench->counters->on_time), 5);
}

BENCH_TEST(strategy_change_sends_waiting_deadlines)
{
	struct bench *bench = *state;
	int64_t first_tai_ns = clock_tai_ns() + FAR;

	bench->flow->deadline = true;
	for (unsigned int i = 0; i < 3; i++) {
		bench_send_number(bench, i, first_tai_ns + i * PERIOD);
		if (i < 2)
			bench_wait_taken(bench, i + 1);
		/* The ring has its new threshold when the round is over: in the next round the loop calls
		 * this. */
		loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_LIMITS});
		rig_wait_commands(&bench->rig);
	}
	rig_strategy_set(&bench->rig, KTSN_STRATEGY_ETF_DEADLINE);
	bench_wait_sent(bench, 3);
}

BENCH_TEST(transmit_times_are_refused_with_deadlines)
{
	struct bench *bench = *state;
	int64_t first_tai_ns = clock_tai_ns() + FAR;

	rig_strategy_set(&bench->rig, KTSN_STRATEGY_ETF_DEADLINE);
	for (unsigned int i = 0; i < 5; i++) {
		bench_send_number(bench, i, first_tai_ns + i * PERIOD);
		rig_wait_counter(&bench->rig, &bench->counters->drop_txtime, i + 1);
	}
}

/* A loop that stops for this long after the message's time has a message that was handed over in time. */
static void message_with_a_late_loop(struct bench *bench, int64_t late_ns)
{
	int64_t called_tai_ns = clock_tai_ns(), txtime_tai_ns = called_tai_ns + 20 * MS;

	loop_pause(bench->rig.loop);
	rig_send(&bench->ring, &(struct rig_message){.clock = KTSN_CLOCK_TAI,
						     .txtime_ns = txtime_tai_ns,
						     .called_tai_ns = called_tai_ns,
						     .text = "late"});
	while (clock_tai_ns() < txtime_tai_ns + late_ns)
		usleep(100);
	loop_resume(bench->rig.loop);
}

static void bench_with_delta(struct bench *bench, int64_t delta_ns)
{
	memset(bench, 0, sizeof(*bench));
	bench_create_for(bench, &(struct rig_config){BENCH_PACKETS, BENCH_PACKETS, 10000, delta_ns},
			 KTSN_CLOCK_TAI);
	rig_start(&bench->rig);
	rig_strategy_set(&bench->rig, KTSN_STRATEGY_ETF);
}

TEST(loop_lateness_within_delta_is_sent)
{
	struct bench bench;

	bench_with_delta(&bench, FAR);
	message_with_a_late_loop(&bench, MS);
	bench_wait_sent(&bench, 1);
	assert_int_equal(counter_read(&bench.counters->on_time), 0);
	assert_int_equal(
		counter_read(&bench.counters->late_taken) + counter_read(&bench.counters->late_wakeup), 1);
	assert_int_equal(rig_drops(&bench.rig), 0);
	bench_fini(&bench);
}

TEST(loop_lateness_beyond_delta_is_missed)
{
	struct bench bench;

	bench_with_delta(&bench, MS / 2);
	message_with_a_late_loop(&bench, MS);
	rig_wait_counter(&bench.rig, &bench.counters->drop_missed, 1);
	bench_fini(&bench);
}
