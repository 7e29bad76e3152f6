/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More messages than fit into the memory or a pod's quota: the loop with its real thread and clock and a fake
 * port.
 */
#include "clock.h"
#include "loop_bench.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit_test.h"

/* With room for fewer messages than are sent, the rest waits in the ring. */
static void check_short_memory(uint32_t packets, uint32_t buffers)
{
	const uint64_t room = packets < buffers ? packets : buffers;
	struct bench bench = {0};
	int64_t first_tai_ns;
	bool filled;

	/* The loop finds all of them at once: otherwise it might take the first and look for the others
	 * only when they are due. */
	bench_create(&bench, packets, buffers, KTSN_CLOCK_TAI);
	first_tai_ns = clock_tai_ns() + 200 * MS;
	for (unsigned int i = 0; i < 200; i++)
		bench_send_number(&bench, i, first_tai_ns + i * 10000);
	rig_start(&bench.rig);
	/* A loop that had no processor and takes them only when the first is nearly due sends as fast as
	 * it takes. */
	while (counter_read(&bench.counters->taken) < room && clock_tai_ns() < first_tai_ns - 100 * MS)
		usleep(100);
	filled = counter_read(&bench.counters->taken) >= room && clock_tai_ns() < first_tai_ns - 100 * MS;
	bench_wait_sent(&bench, 200);
	if (filled && counter_read(&bench.counters->late_wakeup) == 0)
		assert_true(counter_read(&bench.counters->frame_pool_empty) > 0);
	assert_int_equal(rig_drops(&bench.rig), 0);
	bench_fini(&bench);
}

/* Its whole quota leaves at once, and nothing rings for the messages that still wait. */
TEST(freed_quota_resumes_a_held_ring)
{
	struct bench bench = {0};
	int64_t txtime_tai_ns;

	bench_init(&bench, 1024, 1024, KTSN_CLOCK_TAI);
	bench.ring.quota.pending_max = 16;
	txtime_tai_ns = clock_tai_ns() + 50 * MS;
	for (unsigned int i = 0; i < 40; i++)
		bench_send_number(&bench, i, txtime_tai_ns);
	bench_wait_sent(&bench, 40);
	assert_int_equal(rig_drops(&bench.rig), 0);
	bench_fini(&bench);
}

TEST(small_packet_pool_loses_nothing)
{
	check_short_memory(16, 1024);
}

TEST(small_frame_pool_loses_nothing)
{
	check_short_memory(1024, 16);
}

/* All messages under way leave at once, and then nothing else would wake the loop. */
TEST(held_ring_is_taken_again)
{
	enum { MESSAGES = 64, PENDING_MAX = 2 };
	struct rig rig;
	struct rig_ring ring;
	struct loop_flow *flow;

	rig_create(&rig, &(struct rig_config){BENCH_PACKETS, BENCH_PACKETS, 10000, 10000});
	rig_ring_open(&rig, &ring, MESSAGES);
	ring.quota.pending_max = PENDING_MAX;
	flow = rig_flow_open(&rig, &ring, 0, 1, KTSN_CLOCK_TAI);
	rig_destination_open(&rig, &ring, 0, flow, DESTINATION_RESOLVED);
	for (int i = 0; i < MESSAGES; i++)
		rig_send(&ring, &(struct rig_message){.txtime_ns = 1 + i, .text = "held"});
	rig_start(&rig);
	rig_wait_counter(&rig, &loop_counters(rig.loop)->sent, MESSAGES);
	assert_true(counter_read(&loop_counters(rig.loop)->share_pending) > 0);
	rig_application_close(&rig, &ring);
	rig_wait_retired(&rig, 3);
	rig_fini(&rig);
	rig_ring_fini(&ring);
}

/* The messages of both pods are due, and the flood's earlier: the flood leaves first, but not all of it. */
TEST(late_flood_lets_others_through)
{
	enum { FLOOD = 256, BEFORE_IT_MAX = 64 };
	struct rig rig;
	struct rig_ring flood, other;
	struct loop_flow *flow;
	char text[RIG_PAYLOAD_BYTES] = "";
	size_t index = 0;

	rig_create(&rig, &(struct rig_config){2 * FLOOD, 2 * FLOOD, 10000, 10000});
	rig_ring_open(&rig, &flood, FLOOD);
	flow = rig_flow_open(&rig, &flood, 0, 1, KTSN_CLOCK_TAI);
	rig_destination_open(&rig, &flood, 0, flow, DESTINATION_RESOLVED);
	rig_ring_open(&rig, &other, 64);
	flow = rig_flow_open(&rig, &other, 0, 2, KTSN_CLOCK_TAI);
	rig_destination_open(&rig, &other, 0, flow, DESTINATION_RESOLVED);
	for (int i = 0; i < FLOOD; i++)
		rig_send(&flood, &(struct rig_message){.txtime_ns = 1 + i, .text = "flood"});
	rig_send(&other, &(struct rig_message){.txtime_ns = clock_tai_ns(), .text = "other"});
	rig_start(&rig);
	rig_wait_counter(&rig, &loop_counters(rig.loop)->sent, FLOOD + 1);
	assert_int_equal(ktsn_port_fake_sent_count(rig.port), FLOOD + 1);
	while (strcmp(text, "other") != 0)
		rig_sent_text(&rig, index++, text);
	assert_in_range(index, 1, BEFORE_IT_MAX);
	rig_application_close(&rig, &flood);
	rig_application_close(&rig, &other);
	rig_wait_retired(&rig, 6);
	rig_fini(&rig);
	rig_ring_fini(&flood);
	rig_ring_fini(&other);
}
