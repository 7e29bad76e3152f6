/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port that is full or fails: the loop with its real thread and clock.
 */
#include "clock.h"
#include "loop_bench.h"

#include <string.h>

#include "unit_test.h"

BENCH_TEST(full_port_is_retried)
{
	struct bench *bench = *state;

	ktsn_port_fake_limit_next(bench->rig.port, 5, 0);
	for (unsigned int i = 0; i < 10; i++)
		bench_send_number(bench, i, clock_tai_ns() + 20 * MS);
	bench_wait_sent(bench, 10);
	assert_int_equal(counter_read(&bench->counters->port_retries), 5);
	assert_true(counter_read(&bench->counters->late_port) > 0);
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(bench_sent_number(bench, i), i);
}

BENCH_TEST(port_with_room_for_one)
{
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 20 * MS;

	ktsn_port_fake_limit_next(bench->rig.port, 9, 1);
	for (unsigned int i = 0; i < 10; i++)
		bench_send_number(bench, i, txtime_tai_ns);
	bench_wait_sent(bench, 10);
	for (unsigned int i = 0; i < 10; i++)
		assert_int_equal(bench_sent_number(bench, i), i);
}

/* The message that was sent later for an earlier time stays the first. */
BENCH_TEST(port_refusal_keeps_the_order)
{
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 100 * MS;

	ktsn_port_fake_limit_next(bench->rig.port, 2, 0);
	bench_send_number(bench, 2, txtime_tai_ns + 5000);
	bench_send_number(bench, 1, txtime_tai_ns);
	rig_send(&bench->ring, &(struct rig_message){.flow = 99, .text = "wakes the loop"});
	rig_wait_pending(&bench->rig, 2);
	bench_send_number(bench, 0, txtime_tai_ns - 1);
	bench_skip_if_due(txtime_tai_ns - 1);
	bench_wait_sent(bench, 3);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(bench_sent_number(bench, i), i);
}

BENCH_TEST(failed_frames_are_dropped)
{
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 20 * MS;

	ktsn_port_fake_fail_next(bench->rig.port, 3);
	for (unsigned int i = 0; i < 10; i++)
		bench_send_number(bench, i, txtime_tai_ns);
	rig_wait_counter(&bench->rig, &bench->counters->drop_port, 3);
	bench_wait_sent(bench, 7);
	rig_wait_free_slots(&bench->rig, &bench->ring, BENCH_SLOTS);
}

/* A port may stop at a frame that failed: the frames after it were not refused and belong to others. */
BENCH_TEST(failed_frame_delays_no_other)
{
	enum { FLOWS = 4, FAIL = 2 };
	static const char *const texts[FLOWS] = {"0", "1", "2", "3"};
	struct bench *bench = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 100 * MS;

	ktsn_port_fake_fail_next(bench->rig.port, FAIL);
	for (uint32_t i = 0; i < FLOWS; i++) {
		if (i > 0)
			rig_destination_open(
				&bench->rig, &bench->ring, i,
				rig_flow_open(&bench->rig, &bench->ring, i, 10 + i, KTSN_CLOCK_TAI),
				DESTINATION_RESOLVED);
		rig_send(&bench->ring, &(struct rig_message){.flow = i,
							     .destination = i,
							     .clock = KTSN_CLOCK_TAI,
							     .txtime_ns = txtime_tai_ns,
							     .text = texts[i]});
	}
	bench_wait_sent(bench, FLOWS - FAIL);
	assert_int_equal(counter_read(&bench->counters->drop_port), FAIL);
	assert_int_equal(counter_read(&bench->counters->port_retries), 0);
	for (uint32_t i = 0; i < FLOWS - FAIL; i++)
		assert_int_equal(bench_sent_number(bench, i), FAIL + i);
	for (uint32_t i = 1; i < FLOWS; i++) {
		rig_destination_close(&bench->rig, &bench->ring, i);
		rig_flow_close(&bench->rig, &bench->ring, i);
	}
	rig_wait_retired(&bench->rig, 2 * (FLOWS - 1));
}

BENCH_TEST(refused_message_becomes_stale)
{
	struct bench *bench = *state;

	ktsn_port_fake_limit_next(bench->rig.port, UINT32_MAX, 0);
	bench_send_number(bench, 0, clock_tai_ns());
	rig_wait_counter(&bench->rig, &bench->counters->drop_stale, 1);
	assert_int_equal(counter_read(&bench->counters->drop_port), 0);
	ktsn_port_fake_limit_next(bench->rig.port, 0, 0);
	bench_send_number(bench, 1, clock_tai_ns());
	bench_wait_sent(bench, 1);
	bench_assert_sent(bench, 0, "1");
}

/* Lateness is no reason to give up sooner. */
BENCH_TEST(late_message_is_retried_equally)
{
	struct bench *bench = *state;

	ktsn_port_fake_limit_next(bench->rig.port, 5, 0);
	bench_send_number(bench, 0, clock_tai_ns() - 5 * NS_PER_SECOND);
	bench_wait_sent(bench, 1);
	assert_int_equal(counter_read(&bench->counters->port_retries), 5);
}

/* A device would keep the frames and send them all when the link is back. */
BENCH_TEST(due_messages_are_dropped_without_link)
{
	struct bench *bench = *state;

	loop_link_set(bench->rig.loop, false);
	for (unsigned int i = 0; i < 3; i++)
		bench_send_number(bench, i, clock_tai_ns() + 5 * MS);
	rig_wait_counter(&bench->rig, &bench->counters->drop_port, 3);
	loop_link_set(bench->rig.loop, true);
	bench_send_number(bench, 3, clock_tai_ns() + 5 * MS);
	bench_wait_sent(bench, 1);
	assert_int_equal(bench_sent_number(bench, 0), 3);
	assert_int_equal(counter_read(&bench->counters->drop_port), 3);
}

/* The last ones that it took, and no more than it may withdraw. */
BENCH_TEST(withdrawn_frames_become_stale)
{
	struct bench *bench = *state;
	const struct class_counters *class = &bench->counters->classes[1];

	for (unsigned int i = 0; i < 3; i++)
		bench_send_number(bench, i, clock_tai_ns() - 5 * MS);
	bench_wait_sent(bench, 3);
	bench_send_number(bench, 3, 0);
	bench_wait_sent(bench, 4);
	loop_frames_withdrawn(bench->rig.loop, 2);
	rig_wait_counter(&bench->rig, &bench->counters->drop_stale, 2);
	assert_int_equal(counter_read(&bench->counters->sent), 2);
	assert_int_equal(counter_read(&bench->flow->counters.sent), 2);
	assert_int_equal(counter_read(&bench->flow->counters.dropped), 2);
	assert_int_equal(counter_read(&class->sent), 2);
	assert_int_equal(counter_read(&class->dropped), 2);
	assert_int_equal(counter_read(&bench->counters->late_taken), counter_read(&class->late));
	assert_int_equal(counter_read(&bench->counters->late_taken),
			 counter_read(&bench->flow->counters.late));
	for (unsigned int i = 0; i < RIG_WITHDRAWN_MAX; i++)
		bench_send_number(bench, i, clock_tai_ns() - 5 * MS);
	bench_wait_sent(bench, 2 + RIG_WITHDRAWN_MAX);
	loop_frames_withdrawn(bench->rig.loop, RIG_WITHDRAWN_MAX + 1);
	rig_wait_counter(&bench->rig, &bench->counters->drop_stale, 2 + RIG_WITHDRAWN_MAX);
	bench_send_number(bench, 0, clock_tai_ns() - 5 * MS);
	bench_wait_sent(bench, 3);
	assert_int_equal(counter_read(&bench->counters->drop_stale), 2 + RIG_WITHDRAWN_MAX);
	bench->rig.withdrawn = 2 + RIG_WITHDRAWN_MAX;
}

BENCH_TEST(withdrawal_after_socket_close)
{
	struct bench *bench = *state;
	struct loop_flow *flow = rig_flow_open(&bench->rig, &bench->ring, 1, 8, KTSN_CLOCK_TAI);

	rig_destination_open(&bench->rig, &bench->ring, 1, flow, DESTINATION_RESOLVED);
	rig_send(&bench->ring,
		 &(struct rig_message){
			 .flow = 1, .destination = 1, .clock = KTSN_CLOCK_TAI, .text = "of another socket"});
	bench_wait_sent(bench, 1);
	rig_destination_close(&bench->rig, &bench->ring, 1);
	rig_flow_close(&bench->rig, &bench->ring, 1);
	rig_wait_retired(&bench->rig, 2);
	rig_collect(&bench->rig);
	loop_frames_withdrawn(bench->rig.loop, 1);
	rig_wait_counter(&bench->rig, &bench->counters->drop_stale, 1);
	assert_int_equal(counter_read(&bench->counters->sent), 0);
	bench->rig.withdrawn = 1;
}
