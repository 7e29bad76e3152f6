/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing sockets, addresses and rings: the loop with its real thread and clock and a fake port.
 */
#include "clock.h"
#include "commands.h"
#include "loop_bench.h"
#include "loop_state.h"
#include "take.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit_test.h"

static void send_many(struct bench *bench)
{
	int64_t txtime_tai_ns = clock_tai_ns() + 50 * MS;

	for (unsigned int i = 0; i < BENCH_MANY; i++)
		bench_send_number(bench, i, txtime_tai_ns + i * 10000);
}

static void check_many_left(struct bench *bench)
{
	bench_wait_sent(bench, BENCH_MANY);
	for (unsigned int i = 0; i < BENCH_MANY; i++)
		assert_int_equal(bench_sent_number(bench, i), i);
}

TEST(closed_ring_ends_after_its_messages)
{
	struct bench bench = {0};

	bench_init(&bench, BENCH_PACKETS, BENCH_PACKETS, KTSN_CLOCK_TAI);
	send_many(&bench);
	rig_application_close(&bench.rig, &bench.ring);
	check_many_left(&bench);
	rig_wait_retired(&bench.rig, 3);
	assert_int_equal(bench.rig.retired[0], LOOP_DESTINATION);
	assert_int_equal(bench.rig.retired[1], LOOP_FLOW);
	assert_int_equal(bench.rig.retired[2], LOOP_RING);
	assert_int_equal(rig_ring_free_slots(&bench.ring), BENCH_SLOTS);
	rig_fini(&bench.rig);
	rig_ring_fini(&bench.ring);
}

/* An application may write anything into its ring and remove it again: the ring must end all the same. */
TEST(closed_ring_with_removed_messages_ends)
{
	struct bench bench = {0};
	struct ktsn_ring_header *header;

	bench_init(&bench, 1024, 1024, KTSN_CLOCK_TAI);
	bench.ring.quota.pending_max = 1;
	/* Far enough in the future not to leave before the other one is gone, even if the machine stops. */
	bench_send_number(&bench, 0, clock_tai_ns() + 1000 * MS);
	bench_wait_taken(&bench, 1);
	/* A message that is held back stays in the ring, which counts as having a backlog. */
	bench_send_number(&bench, 1, clock_tai_ns());
	usleep(20000);
	header = bench.ring.memory.address;
	for (int w = 0; w < KTSN_RING_WORDS; w++)
		atomic_store(&header->ready[w], 0);
	atomic_store(&header->ready_summary, 0);
	bench_wait_sent(&bench, 1);
	rig_application_close(&bench.rig, &bench.ring);
	rig_wait_retired(&bench.rig, 3);
	rig_fini(&bench.rig);
	rig_ring_fini(&bench.ring);
}

/* As when a process ends: its flows and destinations are closed with the ring, without commands of their
 * own. */
TEST(closed_ring_without_memory_loses_nothing)
{
	struct bench bench = {0};

	bench_init(&bench, 16, BENCH_PACKETS, KTSN_CLOCK_TAI);
	send_many(&bench);
	rig_ring_close(&bench.rig, &bench.ring);
	check_many_left(&bench);
	rig_wait_retired(&bench.rig, 1);
	assert_int_equal(rig_ring_free_slots(&bench.ring), BENCH_SLOTS);
	free(bench.flow);
	free(bench.destination);
	rig_fini(&bench.rig);
	rig_ring_fini(&bench.ring);
}

TEST(closed_unresolved_ring_ends_with_the_answer)
{
	struct bench bench = {0};

	bench_init(&bench, BENCH_PACKETS, BENCH_PACKETS, KTSN_CLOCK_TAI);
	rig_destination_update(&bench.rig, bench.destination, DESTINATION_RESOLVING);
	for (unsigned int i = 0; i < 10; i++)
		bench_send_number(&bench, i, clock_tai_ns());
	rig_application_close(&bench.rig, &bench.ring);
	rig_wait_pending(&bench.rig, 10);
	rig_collect(&bench.rig);
	assert_int_equal(bench.rig.retired_count, 0);
	rig_destination_update(&bench.rig, bench.destination, DESTINATION_UNREACHABLE);
	rig_wait_retired(&bench.rig, 3);
	assert_int_equal(bench.rig.retired[2], LOOP_RING);
	assert_int_equal(counter_read(&bench.counters->drop_unresolved), 10);
	rig_fini(&bench.rig);
	rig_ring_fini(&bench.ring);
}

BENCH_TEST(closed_flow_ends_after_its_messages)
{
	struct bench *bench = *state;
	struct departure records[2];

	bench_send_number(bench, 0, clock_tai_ns() + 50 * MS);
	rig_destination_close(&bench->rig, &bench->ring, 0);
	rig_flow_close(&bench->rig, &bench->ring, 0);
	rig_wait_retired(&bench->rig, 2);
	assert_int_equal(bench->rig.retired[0], LOOP_DESTINATION);
	assert_int_equal(bench->rig.retired[1], LOOP_FLOW);
	bench_wait_sent(bench, 1);

	/* The next socket gets the numbers. */
	bench->flow = rig_flow_open(&bench->rig, &bench->ring, 0, 8, KTSN_CLOCK_TAI);
	bench->destination =
		rig_destination_open(&bench->rig, &bench->ring, 0, bench->flow, DESTINATION_RESOLVED);
	bench_send_number(bench, 1, clock_tai_ns());
	bench_wait_sent(bench, 2);
	rig_departures(&bench->rig, 0, records, 2, 2);
	assert_int_equal(records[0].flow, 7);
	assert_int_equal(records[1].flow, 8);
}

/* One system call for each would take the loop longer than everything else that it does for them. */
BENCH_TEST(ended_objects_are_announced_once)
{
	enum { OBJECTS = 100 };
	struct bench *bench = *state;
	uint64_t announcements;
	uint32_t mark;

	for (uint32_t i = 1; i <= OBJECTS; i++)
		rig_destination_open(&bench->rig, &bench->ring, i, bench->flow, DESTINATION_RESOLVED);
	rig_wait_commands(&bench->rig);
	for (uint32_t i = 1; i <= OBJECTS; i++)
		rig_destination_close(&bench->rig, &bench->ring, i);
	mark = loop_commands_mark(bench->rig.loop);
	while (!loop_commands_passed(bench->rig.loop, mark))
		usleep(100);
	assert_int_equal(read(loop_retired_fd(bench->rig.loop), &announcements, sizeof(announcements)),
			 sizeof(announcements));
	assert_int_equal(announcements, 1);
	rig_wait_retired(&bench->rig, OBJECTS);
	bench->rig.retired_count = 0;
}

/* The test takes the place of the loop. */
TEST(backlog_ends_a_few_at_a_time)
{
	enum { OBJECTS = 100, AT_ONCE_MAX = 32 };
	struct loop *loop = calloc(1, sizeof(*loop));
	struct loop_ring *ring = calloc(1, sizeof(*ring));
	struct loop_destination *destinations = calloc(OBJECTS, sizeof(*destinations));
	struct quota quota = {0};
	uint32_t ended = 0;

	assert_true(loop && ring && destinations);
	loop->retired.fd = -1;
	ring->quota = &quota;
	for (uint32_t i = 0; i < OBJECTS; i++) {
		ring->destinations[i] = &destinations[i];
		destination_end_later(ring, i);
	}
	while (closings_wait(ring)) {
		uint32_t before = ended;

		closings_end(loop, ring);
		ended = 0;
		for (uint32_t i = 0; i < OBJECTS; i++)
			ended += destinations[i].retired && !ring->destinations[i];
		assert_in_range(ended - before, 1, AT_ONCE_MAX);
		/* It comes back for the others. */
		assert_true(ring->watched || ended == OBJECTS);
	}
	assert_int_equal(ended, OBJECTS);
	free(destinations);
	free(ring);
	free(loop);
}

TEST(closed_objects_end_after_the_backlog)
{
	enum { OBJECTS = 100 };
	struct bench bench = {0};

	bench_init(&bench, BENCH_PACKETS, BENCH_PACKETS, KTSN_CLOCK_TAI);
	for (uint32_t i = 1; i <= OBJECTS; i++)
		rig_destination_open(&bench.rig, &bench.ring, i, bench.flow, DESTINATION_RESOLVED);
	rig_wait_commands(&bench.rig);
	bench.ring.quota.pending_max = 1;
	bench_send_number(&bench, 0, clock_tai_ns() + 200 * MS);
	bench_wait_taken(&bench, 1);
	bench_send_number(&bench, 1, clock_tai_ns());
	for (uint32_t i = 1; i <= OBJECTS; i++)
		rig_destination_close(&bench.rig, &bench.ring, i);
	rig_application_close(&bench.rig, &bench.ring);
	bench_wait_sent(&bench, 2);
	rig_wait_retired(&bench.rig, OBJECTS + 3);
	assert_int_equal(rig_ring_free_slots(&bench.ring), BENCH_SLOTS);
	rig_fini(&bench.rig);
	rig_ring_fini(&bench.ring);
}

/*
 * close() and socket() in a row, found by the loop at the same time: an invalid message that is looked up
 * while the first socket is being closed must not open the second one before that.
 */
TEST(reopened_socket_stays_open)
{
	struct bench bench = {0};
	struct rig *rig = &bench.rig;

	rig_create(rig, &(struct rig_config){BENCH_PACKETS, BENCH_PACKETS, 10000, 10000});
	bench.counters = loop_counters(rig->loop);
	rig_ring_open(rig, &bench.ring, BENCH_SLOTS);
	bench.flow = rig_flow_open(rig, &bench.ring, 0, 7, KTSN_CLOCK_TAI);
	rig_destination_open(rig, &bench.ring, 1, bench.flow, DESTINATION_RESOLVED);
	rig_send(&bench.ring, &(struct rig_message){.destination = 99, .text = "makes no sense"});
	rig_send(&bench.ring, &(struct rig_message){.destination = 1, .text = "first"});
	rig_destination_close(rig, &bench.ring, 1);
	rig_flow_close(rig, &bench.ring, 0);
	bench.flow = rig_flow_open(rig, &bench.ring, 0, 8, KTSN_CLOCK_TAI);
	rig_destination_open(rig, &bench.ring, 0, bench.flow, DESTINATION_RESOLVED);
	bench_send_text(&bench, "second", 1);
	rig_start(rig);
	bench_wait_sent(&bench, 2);
	bench_send_text(&bench, "third", 1);
	bench_wait_sent(&bench, 3);
	bench_assert_sent(&bench, 0, "first");
	bench_assert_sent(&bench, 1, "second");
	bench_assert_sent(&bench, 2, "third");
	assert_int_equal(counter_read(&bench.counters->drop_invalid), 1);
	rig_wait_retired(rig, 2);
	bench_fini(&bench);
}
