/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop with its real thread and clock and a fake port. The tests check order, counts, and that no frame
 * is early. How late a frame leaves depends on the machine and is measured elsewhere.
 */
#include "clock.h"
#include "commands.h"
#include "loop_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit_test.h"

BENCH_TEST(frame_carries_payload_and_addresses)
{
	struct bench *bench = *state;
	struct loop_route route = rig_route(DESTINATION_RESOLVED);
	uint8_t expected[RIG_HEADERS_BYTES + 5];
	const uint8_t *frame;
	uint32_t bytes;

	bench_send_text(bench, "hello", clock_tai_ns() + MS);
	bench_wait_sent(bench, 1);
	memcpy(expected + RIG_HEADERS_BYTES, "hello", 5);
	assert_int_equal(ktsn_frame_build(expected, sizeof(expected), &route.path, &route.tunnel, 5),
			 RIG_HEADERS_BYTES);
	frame = ktsn_port_fake_sent(bench->rig.port, 0, &bytes);
	assert_int_equal(bytes, sizeof(expected));
	assert_memory_equal(frame, expected, sizeof(expected));
}

BENCH_TEST(empty_and_largest_message_leave)
{
	struct bench *bench = *state;
	char largest[RIG_PAYLOAD_BYTES];

	memset(largest, 'x', sizeof(largest) - 1);
	largest[sizeof(largest) - 1] = '\0';
	bench_send_text(bench, "", clock_tai_ns() + MS);
	bench_wait_sent(bench, 1);
	bench_send_text(bench, largest, clock_tai_ns() + MS);
	bench_wait_sent(bench, 2);
	bench_assert_sent(bench, 0, "");
	bench_assert_sent(bench, 1, largest);
}

BENCH_TEST(frames_leave_by_time_never_early)
{
	struct bench *bench = *state;
	int64_t first_tai_ns = clock_tai_ns() + 300 * MS;

	/* Every 37th of 100 visits each once. */
	for (unsigned int i = 0; i < BENCH_MANY; i++)
		bench_send_number(bench, i * 37 % BENCH_MANY, first_tai_ns + i * 37 % BENCH_MANY * MS);
	/* All are taken before the first is due, even on a slow machine. */
	rig_send(&bench->ring, &(struct rig_message){.flow = 99, .text = "wakes the loop"});
	bench_wait_taken(bench, BENCH_MANY + 1);
	bench_skip_if_due(first_tai_ns);
	bench_watch_until_sent(bench, first_tai_ns, MS, BENCH_MANY);
	for (unsigned int i = 0; i < BENCH_MANY; i++)
		assert_int_equal(bench_sent_number(bench, i), i);
	bench_check_departures(bench, first_tai_ns, MS, BENCH_MANY);
}

BENCH_TEST(equal_times_keep_the_sending_order)
{
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 300 * MS;

	for (unsigned int i = 0; i < BENCH_MANY; i++) {
		bench_send_number(bench, i, txtime_tai_ns);
		/* Taken in several batches. */
		if (i % 10 == 9) {
			rig_send(&bench->ring, &(struct rig_message){.flow = 99, .text = "wakes the loop"});
			rig_wait_counter(&bench->rig, &bench->counters->drop_invalid, i / 10 + 1);
		}
	}
	bench_wait_sent(bench, BENCH_MANY);
	for (unsigned int i = 0; i < BENCH_MANY; i++)
		assert_int_equal(bench_sent_number(bench, i), i);
	bench_check_departures(bench, txtime_tai_ns, 0, BENCH_MANY);
}

/* As when ktsnd did not run for a while: all are overdue, and only a few are taken before the first
 * leaves. A message that was handed over later is in a lower slot. */
BENCH_TEST(overdue_messages_keep_the_sending_order)
{
	struct bench *bench = *state;
	const int64_t first_tai_ns = clock_tai_ns() - 1000 * MS;
	struct ktsn_ring_producer *producer = &bench->ring.producer;
	uint32_t slots[BENCH_MANY];
	uint64_t increment = 1;

	atomic_store(&bench->ring.quota.pending_max, 3);
	loop_pause(bench->rig.loop);
	for (unsigned int i = 0; i < BENCH_MANY; i++)
		assert_int_equal(ktsn_ring_claim(producer, &slots[i]), 0);
	for (unsigned int i = 0; i < BENCH_MANY; i++) {
		uint32_t slot = slots[(i + 1) * 37 % BENCH_MANY];
		const struct ktsn_ring_message message = {
			.payload_bytes =
				(uint32_t)sprintf((char *)ktsn_ring_payload(producer, slot), "%u", i),
			.txtime_ns = first_tai_ns + i * MS};

		ktsn_ring_publish(producer, slot, &message);
	}
	(void)!write(bench->ring.doorbell_fd, &increment, sizeof(increment));
	loop_resume(bench->rig.loop);
	bench_wait_sent(bench, BENCH_MANY);
	for (unsigned int i = 0; i < BENCH_MANY; i++)
		assert_int_equal(bench_sent_number(bench, i), i);
}

/* After an interrupted send, at most one message of each flow is uncertain. */
BENCH_TEST(messages_of_a_flow_leave_one_at_a_time)
{
	enum { FLOWS = 3, PER_QUOTA = 4 };
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 100 * MS;
	uint32_t send = 0, together = 0, together_most = 0, seen = 0;

	for (uint32_t i = 1; i < FLOWS; i++) {
		struct loop_flow *flow = rig_flow_open(&bench->rig, &bench->ring, i, 10 + i, KTSN_CLOCK_TAI);

		rig_destination_open(&bench->rig, &bench->ring, i, flow, DESTINATION_RESOLVED);
	}
	for (uint32_t i = 0; i < BENCH_MANY; i++) {
		const char *const texts[FLOWS] = {"0", "1", "2"};

		rig_send(&bench->ring, &(struct rig_message){.flow = i % FLOWS,
							     .destination = i % FLOWS,
							     .clock = KTSN_CLOCK_TAI,
							     .txtime_ns = txtime_tai_ns,
							     .text = texts[i % FLOWS]});
	}
	bench_wait_sent(bench, BENCH_MANY);
	for (uint32_t i = 0; i < BENCH_MANY; i++) {
		uint32_t flow = 1U << bench_sent_number(bench, i);

		if (ktsn_port_fake_sent_by(bench->rig.port, i) != send)
			seen = together = 0;
		send = ktsn_port_fake_sent_by(bench->rig.port, i);
		assert_int_equal(seen & flow, 0);
		seen |= flow;
		if (++together > together_most)
			together_most = together;
	}
	/* Messages of other flows leave at the same time. */
	assert_in_range(together_most, 2, PER_QUOTA);
	for (uint32_t i = 1; i < FLOWS; i++) {
		rig_destination_close(&bench->rig, &bench->ring, i);
		rig_flow_close(&bench->rig, &bench->ring, i);
	}
	rig_wait_retired(&bench->rig, 2 * (FLOWS - 1));
}

BENCH_TEST(late_messages_leave_and_are_counted)
{
	struct bench *bench = *state;
	int64_t now_tai_ns = clock_tai_ns();

	bench_send_number(bench, 0, now_tai_ns - 1000 * MS);
	bench_wait_sent(bench, 1);
	bench_send_number(bench, 1, now_tai_ns - 2000 * MS);
	bench_wait_sent(bench, 2);
	bench_send_number(bench, 2, 0);
	bench_wait_sent(bench, 3);
	assert_int_equal(counter_read(&bench->counters->late_taken), 3);
	assert_int_equal(counter_read(&bench->counters->on_time), 0);
}

/* The ring may contain any 64 bits: nothing overflows (UBSan watches), and the loop continues. */
static void check_absurd_times(enum ktsn_clock clock)
{
	static const int64_t txtimes_ns[] = {INT64_MIN, INT64_MAX, INT64_MIN + 1, INT64_MAX - 2,
					     -1,        INT64_MIN, INT64_MAX - 1, INT64_MIN,
					     1,         INT64_MAX};
	const uint32_t count = sizeof(txtimes_ns) / sizeof(txtimes_ns[0]);
	struct bench bench = {0};
	uint64_t gone;

	bench_init(&bench, BENCH_PACKETS, BENCH_PACKETS, clock);
	ktsn_port_fake_limit_next(bench.rig.port, 1, 0);
	for (uint32_t i = 0; i < count; i++) {
		rig_send(&bench.ring,
			 &(struct rig_message){.clock = clock, .txtime_ns = txtimes_ns[i], .text = "absurd"});
		bench_wait_taken(&bench, i + 1);
	}
	bench_send_text(&bench, "sound", 1000);
	bench_wait_taken(&bench, count + 1);
	/* Messages for a future century stay. */
	do
		gone = counter_read(&bench.counters->sent) + rig_drops(&bench.rig);
	while (gone + loop_pending(bench.rig.loop) != count + 1 || gone < count / 2);
	bench_stop(&bench);
}

BENCH_TEST(absurd_times_are_harmless)
{
	for (int clock = 0; clock < KTSN_CLOCKS; clock++)
		check_absurd_times((enum ktsn_clock)clock);
}

BENCH_TEST(clocks_are_converted)
{
	struct bench *bench = *state;
	static const clockid_t clocks[KTSN_CLOCKS] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_TAI};
	struct departure records[KTSN_CLOCKS];

	for (uint32_t clock = 0; clock < KTSN_CLOCKS; clock++) {
		struct loop_flow *flow = rig_flow_open(&bench->rig, &bench->ring, 1 + clock, 100 + clock,
						       (enum ktsn_clock)clock);
		int64_t before_tai_ns = clock_tai_ns();
		int64_t txtime_ns = clock_ns(clocks[clock]) + 5 * MS;
		int64_t after_tai_ns = clock_tai_ns();

		rig_destination_open(&bench->rig, &bench->ring, 1 + clock, flow, DESTINATION_RESOLVED);
		rig_send(&bench->ring, &(struct rig_message){1 + clock, 1 + clock, (enum ktsn_clock)clock,
							     txtime_ns, "x", 0, 0, 0});
		bench_wait_sent(bench, clock + 1);
		rig_departures(&bench->rig, clock, records, 1, 1);
		assert_int_equal(records[0].flow, 100 + clock);
		/* Read between the two, and never converted to an earlier time; 1 us allows for rounding
		 * up. */
		assert_true(records[0].requested_tai_ns >= before_tai_ns + 5 * MS);
		assert_true(records[0].requested_tai_ns <= after_tai_ns + 5 * MS + 100000);
		rig_destination_close(&bench->rig, &bench->ring, 1 + clock);
		rig_flow_close(&bench->rig, &bench->ring, 1 + clock);
	}
	rig_wait_retired(&bench->rig, 2 * KTSN_CLOCKS);
}

/* Invalid flows, destinations and lengths that an application may write. */
BENCH_TEST(invalid_messages_are_dropped)
{
	static const struct ktsn_ring_message bad[] = {
		{.flow = 1},
		{.flow = LOOP_FLOWS_PER_RING - 1},
		{.flow = LOOP_FLOWS_PER_RING},
		{.flow = UINT32_MAX},
		{.destination = 1},
		{.destination = LOOP_DESTINATIONS_PER_RING - 1},
		{.destination = LOOP_DESTINATIONS_PER_RING},
		{.destination = UINT32_MAX},
		{.payload_bytes = RIG_PAYLOAD_BYTES},     /* more than the destination's path carries */
		{.payload_bytes = RIG_PAYLOAD_BYTES + 1}, /* more than the slot holds */
		{.payload_bytes = UINT32_MAX},
		{.flow = 2}, /* open, but the destination belongs to another flow */
	};
	uint32_t count = sizeof(bad) / sizeof(bad[0]);
	struct bench *bench = *state;

	rig_flow_open(&bench->rig, &bench->ring, 2, 8, KTSN_CLOCK_TAI);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t increment = 1;
		uint32_t slot;

		assert_int_equal(ktsn_ring_claim(&bench->ring.producer, &slot), 0);
		ktsn_ring_publish(&bench->ring.producer, slot, &bad[i]);
		assert_int_equal(write(bench->ring.doorbell_fd, &increment, sizeof(increment)),
				 sizeof(increment));
		rig_wait_counter(&bench->rig, &bench->counters->drop_invalid, i + 1);
	}
	assert_int_equal(counter_read(&bench->counters->taken), count);
	assert_int_equal(loop_pending(bench->rig.loop), 0);
	rig_wait_free_slots(&bench->rig, &bench->ring, BENCH_SLOTS);
	bench_send_number(bench, 1, clock_tai_ns());
	bench_wait_sent(bench, 1);
	rig_flow_close(&bench->rig, &bench->ring, 2);
	rig_wait_retired(&bench->rig, 1);
}

TEST(message_beyond_the_horizon_is_dropped)
{
	struct bench bench = {0};

	bench_init(&bench, 1024, 1024, KTSN_CLOCK_TAI);
	bench.ring.quota.horizon_ns = NS_PER_SECOND;
	bench_send_number(&bench, 0, clock_tai_ns() + 2 * NS_PER_SECOND);
	rig_wait_counter(&bench.rig, &bench.counters->drop_horizon, 1);
	bench_fini(&bench);
}

/* The loop expects a periodic sender, which rings less and less. */
BENCH_TEST(periodic_flow_is_expected)
{
	struct bench *bench = *state;
	int64_t first_tai_ns = clock_tai_ns() + 20 * MS;

	for (unsigned int i = 0; i < BENCH_MANY; i++) {
		struct timespec until;
		int64_t until_ns = first_tai_ns + i * 2 * MS - MS;

		until = (struct timespec){until_ns / NS_PER_SECOND, until_ns % NS_PER_SECOND};
		clock_nanosleep(CLOCK_TAI, TIMER_ABSTIME, &until, NULL);
		bench_send_number(bench, i, first_tai_ns + i * 2 * MS);
	}
	bench_wait_sent(bench, BENCH_MANY);
	for (unsigned int i = 0; i < BENCH_MANY; i++)
		assert_int_equal(bench_sent_number(bench, i), i);
	bench_check_departures(bench, first_tai_ns, 2 * MS, BENCH_MANY);
}

/* Rings of periodic flows that are expected much later do not make a message of another flow more
 * expensive. */
BENCH_TEST(unexpected_rings_cost_nothing)
{
	enum { IDLE = 100, MESSAGES = 50, EACH_MAX = 8 };
	struct bench *bench = *state;
	struct rig_ring *idle = calloc(IDLE, sizeof(*idle));
	struct loop_costs before, costs;
	int64_t first_tai_ns;

	assert_non_null(idle);
	for (int i = 0; i < IDLE; i++) {
		struct loop_flow *flow;

		rig_ring_open(&bench->rig, &idle[i], 64);
		flow = rig_flow_open(&bench->rig, &idle[i], 0, 100 + (uint64_t)i, KTSN_CLOCK_TAI);
		rig_destination_open(&bench->rig, &idle[i], 0, flow, DESTINATION_RESOLVED);
		/* Each flow's next message is expected in almost a second. */
		for (int64_t ago_ns = 970 * MS; ago_ns >= 0; ago_ns -= 970 * MS)
			rig_send(&idle[i], &(struct rig_message){.clock = KTSN_CLOCK_TAI,
								 .txtime_ns = clock_tai_ns() - ago_ns,
								 .text = "idle"});
	}
	bench_wait_sent(bench, 2 * IDLE);
	before = loop_costs(bench->rig.loop);
	first_tai_ns = clock_tai_ns() + 5 * MS;
	for (unsigned int i = 0; i < MESSAGES; i++) {
		bench_send_number(bench, i, first_tai_ns + i * MS);
		bench_wait_sent(bench, 2 * IDLE + i + 1);
	}
	costs = loop_costs(bench->rig.loop);
	assert_in_range(costs.polls - before.polls, MESSAGES, EACH_MAX * MESSAGES);
	assert_in_range(costs.doorbells_set - before.doorbells_set, 1, EACH_MAX * MESSAGES);
	for (int i = 0; i < IDLE; i++)
		rig_application_close(&bench->rig, &idle[i]);
	rig_wait_retired(&bench->rig, 3 * IDLE);
	bench->rig.retired_count = 0;
	for (int i = 0; i < IDLE; i++)
		rig_ring_fini(&idle[i]);
	free(idle);
}

TEST(stopped_loop_sends_no_more)
{
	struct bench bench = {0};

	bench_init(&bench, BENCH_PACKETS, BENCH_PACKETS, KTSN_CLOCK_TAI);
	bench_send_number(&bench, 0, clock_tai_ns() + 3600 * NS_PER_SECOND);
	rig_wait_pending(&bench.rig, 1);
	loop_stop(bench.rig.loop);
	assert_int_equal(ktsn_port_fake_sent_count(bench.rig.port), 0);
	assert_int_equal(ktsn_port_fake_buffers_in_use(bench.rig.port), 1);
	/* Its successor finds the message in the ring. */
	assert_int_equal(rig_ring_free_slots(&bench.ring), BENCH_SLOTS - 1);
	bench_stop(&bench);
}

/* As when ktsnd ends: removing the endpoint closes the route of later messages. The loop also executes
 * commands that it had not reached, even if no later command fits into the queue. */
TEST(stopped_loop_leaves_messages_to_its_successor)
{
	enum { MESSAGES = 3 };
	struct bench bench = {0};

	bench_init(&bench, BENCH_PACKETS, BENCH_PACKETS, KTSN_CLOCK_TAI);
	loop_pause(bench.rig.loop);
	for (unsigned int i = 0; i < COMMANDS_CAPACITY; i++)
		loop_command(bench.rig.loop, &(struct loop_command){.type = COMMAND_LIMITS});
	loop_stop(bench.rig.loop);
	rig_destination_update(&bench.rig, bench.destination, DESTINATION_CLOSED);
	for (unsigned int i = 0; i < MESSAGES; i++)
		bench_send_number(&bench, i, clock_tai_ns());
	rig_application_close(&bench.rig, &bench.ring);
	rig_wait_retired(&bench.rig, 3);
	assert_int_equal(counter_read(&bench.counters->taken), 0);
	assert_int_equal(rig_ring_free_slots(&bench.ring), BENCH_SLOTS - MESSAGES);
	rig_fini(&bench.rig);
	rig_ring_fini(&bench.ring);
}
