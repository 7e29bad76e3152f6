/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quotas of pods in the pool of packets: the loop with its real thread and clock and a fake port.
 */
#include "clock.h"
#include "commands.h"
#include "loop_rig.h"

#include <stdlib.h>
#include <unistd.h>

#include "unit_test.h"

#define MS INT64_C(1000000)

enum { PACKETS = 256, SLOTS = 256, GREEDY = 6, OBJECTS_OF_POD = 3 };

/* Each has a ring with a quota of its own. */
struct pods {
	struct rig rig;
	struct rig_ring greedy[GREEDY], modest, late;
	const struct counters *counters;
};

static void pod_open(struct pods *pods, struct rig_ring *ring, uint64_t number)
{
	struct loop_flow *flow;

	rig_ring_open(&pods->rig, ring, SLOTS);
	flow = rig_flow_open(&pods->rig, ring, 0, number, KTSN_CLOCK_TAI);
	rig_destination_open(&pods->rig, ring, 0, flow, DESTINATION_RESOLVED);
}

static void pod_close(struct pods *pods, struct rig_ring *ring)
{
	rig_destination_close(&pods->rig, ring, 0);
	rig_flow_close(&pods->rig, ring, 0);
	rig_ring_close(&pods->rig, ring);
}

static void send_many(struct rig_ring *ring, int count, int64_t txtime_tai_ns)
{
	for (int i = 0; i < count; i++)
		rig_send(ring, &(struct rig_message){
				       .clock = KTSN_CLOCK_TAI, .txtime_ns = txtime_tai_ns, .text = "x"});
}

static uint32_t greedy_pending(const struct pods *pods)
{
	uint32_t sum = 0;

	for (int i = 0; i < GREEDY; i++)
		sum += quota_pending(&pods->greedy[i].quota);
	return sum;
}

/* All of them take as many packets as they can. The reserve of each other pod is left, including one for a
 * pod that arrives then. */
TEST(every_pod_has_its_reserve)
{
	/* Six pods and two more: 16 reserves of half the pool. */
	enum { RESERVE = PACKETS / 2 / 16, OF_LATE = RESERVE / 2 };
	struct pods pods = {0};
	int64_t far_tai_ns;
	uint32_t pending;

	rig_create(&pods.rig, &(struct rig_config){PACKETS, PACKETS, 10000, 10000});
	pods.counters = loop_counters(pods.rig.loop);
	for (int i = 0; i < GREEDY; i++)
		pod_open(&pods, &pods.greedy[i], (uint64_t)i + 1);
	pod_open(&pods, &pods.modest, GREEDY + 1);
	/* The test has looked by then, also on a busy machine. */
	far_tai_ns = clock_tai_ns() + 2000 * MS;
	for (int i = 0; i < GREEDY; i++)
		send_many(&pods.greedy[i], SLOTS, far_tai_ns);
	rig_start(&pods.rig);
	rig_wait_commands(&pods.rig);
	send_many(&pods.modest, RESERVE, far_tai_ns + 1);
	while (quota_pending(&pods.modest.quota) < RESERVE)
		assert_true(clock_tai_ns() < far_tai_ns + 5000 * MS);
	pod_open(&pods, &pods.late, GREEDY + 2);
	send_many(&pods.late, OF_LATE, far_tai_ns + 2);
	while (quota_pending(&pods.late.quota) < OF_LATE)
		assert_true(clock_tai_ns() < far_tai_ns + 5000 * MS);
	pending = greedy_pending(&pods);
	/* If it took packets until those of the others had left, the test has shown nothing. */
	if (clock_tai_ns() < far_tai_ns)
		assert_true(pending > PACKETS / 4);
	rig_wait_counter(&pods.rig, &pods.counters->sent, GREEDY * SLOTS + RESERVE + OF_LATE);
	assert_true(counter_read(&pods.counters->share_pending) > 0);
	assert_int_equal(counter_read(&pods.counters->frame_pool_empty), 0);
	for (int i = 0; i < GREEDY; i++)
		pod_close(&pods, &pods.greedy[i]);
	pod_close(&pods, &pods.modest);
	pod_close(&pods, &pods.late);
	rig_wait_retired(&pods.rig, (GREEDY + 2) * OBJECTS_OF_POD);
	rig_fini(&pods.rig);
	for (int i = 0; i < GREEDY; i++)
		rig_ring_fini(&pods.greedy[i]);
	rig_ring_fini(&pods.modest);
	rig_ring_fini(&pods.late);
}

/* As a process that hands a ring back and ends before it resumes. */
static void ring_never_opened_close(struct pods *pods, struct rig_ring *ring, struct quota *quota)
{
	assert_int_equal(
		ktsn_ring_memory_create(&ring->memory, ktsn_ring_geometry_make(SLOTS, RIG_PAYLOAD_BYTES)), 0);
	ring->ring = calloc(1, sizeof(*ring->ring));
	assert_non_null(ring->ring);
	ring->ring->object = (struct loop_object){.kind = LOOP_RING, .owner = ring->ring};
	ring->ring->quota = quota;
	ring->ring->doorbell_set_fd = -1;
	ktsn_ring_consumer_init(&ring->ring->consumer, ring->memory.address, ring->memory.geometry.slot_count,
				ring->memory.geometry.slot_bytes);
	rig_ring_close(&pods->rig, ring);
}

/* Otherwise it could take the rest that is left for others, and be one of these as well. */
TEST(unopened_ring_keeps_other_reserves)
{
	struct pods pods = {0};
	struct rig_ring unresumed = {0};

	rig_create(&pods.rig, &(struct rig_config){PACKETS, PACKETS, 10000, 10000});
	pod_open(&pods, &pods.modest, 1);
	rig_start(&pods.rig);
	ring_never_opened_close(&pods, &unresumed, &pods.modest.quota);
	rig_wait_retired(&pods.rig, 1);
	assert_int_equal(pods.modest.quota.rings_open, 1);
	pod_close(&pods, &pods.modest);
	rig_wait_retired(&pods.rig, 1 + OBJECTS_OF_POD);
	assert_int_equal(pods.modest.quota.rings_open, 0);
	rig_fini(&pods.rig);
	rig_ring_fini(&pods.modest);
	ktsn_ring_memory_destroy(&unresumed.memory);
}

/* No message leaves and returns quota: all wait for an address. */
TEST(larger_quota_takes_waiting_messages)
{
	enum { BEFORE = 4, AFTER = 9 };
	struct quota_limits limits = {.pending = BEFORE, .horizon_ns = INT64_MAX};
	struct loop_destination *destination;
	struct loop_flow *flow;
	struct pods pods = {0};

	rig_create(&pods.rig, &(struct rig_config){PACKETS, PACKETS, 10000, 10000});
	rig_ring_open(&pods.rig, &pods.modest, SLOTS);
	flow = rig_flow_open(&pods.rig, &pods.modest, 0, 1, KTSN_CLOCK_TAI);
	destination = rig_destination_open(&pods.rig, &pods.modest, 0, flow, DESTINATION_RESOLVING);
	quota_limits_set(&pods.modest.quota, &limits);
	rig_start(&pods.rig);
	send_many(&pods.modest, SLOTS, clock_tai_ns());
	rig_wait_pending(&pods.rig, BEFORE);
	usleep(20000);
	assert_int_equal(quota_pending(&pods.modest.quota), BEFORE);
	limits.pending = AFTER;
	quota_limits_set(&pods.modest.quota, &limits);
	loop_command(pods.rig.loop, &(struct loop_command){.type = COMMAND_LIMITS});
	rig_wait_pending(&pods.rig, AFTER);
	/* Fewer than it has: it keeps them but gets no more. */
	limits.pending = 1;
	quota_limits_set(&pods.modest.quota, &limits);
	loop_command(pods.rig.loop, &(struct loop_command){.type = COMMAND_LIMITS});
	rig_wait_commands(&pods.rig);
	assert_int_equal(quota_pending(&pods.modest.quota), AFTER);
	rig_destination_update(&pods.rig, destination, DESTINATION_UNREACHABLE);
	rig_wait_counter(&pods.rig, &loop_counters(pods.rig.loop)->drop_unresolved, SLOTS);
	pod_close(&pods, &pods.modest);
	rig_wait_retired(&pods.rig, OBJECTS_OF_POD);
	rig_fini(&pods.rig);
	rig_ring_fini(&pods.modest);
}

TEST(rate_applies_immediately)
{
	struct quota quota = {0};
	int64_t now_tai_ns = 5000 * MS;

	quota.messages.burst_ns = 10 * MS;
	for (int i = 0; i < 1000; i++)
		assert_true(quota_rate_take(&quota.messages, now_tai_ns));
	quota_limits_set(&quota, &(struct quota_limits){.message_rate = 1000});
	for (int i = 0; i < 11; i++)
		assert_true(quota_rate_take(&quota.messages, now_tai_ns));
	assert_false(quota_rate_take(&quota.messages, now_tai_ns));
	/* A debt at the lower rate does not count against the higher rate. */
	quota_limits_set(&quota, &(struct quota_limits){.message_rate = 1});
	assert_true(quota_rate_take(&quota.messages, now_tai_ns + 2 * MS));
	assert_false(quota_rate_take(&quota.messages, now_tai_ns + 2 * MS));
	quota_limits_set(&quota, &(struct quota_limits){.message_rate = 1000});
	assert_true(quota_rate_take(&quota.messages, now_tai_ns + 2 * MS));
}

/* Messages above the rate stay in the ring: they leave one after the other, however long they have been
 * due. */
TEST(messages_above_the_rate_wait)
{
	enum { COUNT = 5 };
	const int64_t interval_ns = 20 * MS;
	struct pods pods = {0};
	int64_t began_tai_ns;

	rig_init(&pods.rig, &(struct rig_config){PACKETS, PACKETS, 10000, 10000});
	pods.counters = loop_counters(pods.rig.loop);
	pod_open(&pods, &pods.modest, 1);
	rig_wait_commands(&pods.rig);
	quota_limits_set(&pods.modest.quota,
			 &(struct quota_limits){.pending = UINT32_MAX,
						.message_rate = (uint32_t)(NS_PER_SECOND / interval_ns),
						.horizon_ns = INT64_MAX});
	began_tai_ns = clock_tai_ns();
	send_many(&pods.modest, COUNT, began_tai_ns);
	rig_wait_counter(&pods.rig, &pods.counters->sent, COUNT);
	assert_true(clock_tai_ns() - began_tai_ns >= (COUNT - 1) * interval_ns);
	assert_true(counter_read(&pods.counters->share_rate) > 0);
	pod_close(&pods, &pods.modest);
	rig_wait_retired(&pods.rig, OBJECTS_OF_POD);
	rig_fini(&pods.rig);
	rig_ring_fini(&pods.modest);
}
