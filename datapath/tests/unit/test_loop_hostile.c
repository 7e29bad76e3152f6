/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks of a pod on the loop and on other pods' messages: the loop with its real thread and clock and a
 * fake port.
 */
#include "clock.h"
#include "loop_rig.h"
#include "sleepers.h"

#include <string.h>

#include "unit_test.h"

#define MS INT64_C(1000000)

enum { PACKETS = 1024, OBJECTS_OF_POD = 3 };

struct pod {
	struct rig_ring ring;
	struct loop_destination *destination;
};

static void pod_open(struct rig *rig, struct pod *pod, uint64_t number, uint32_t payload_bytes,
		     enum loop_destination_state state)
{
	struct loop_flow *flow;

	rig_ring_open_for(rig, &pod->ring, PACKETS, payload_bytes);
	flow = rig_flow_open(rig, &pod->ring, 0, number, KTSN_CLOCK_TAI);
	pod->destination = rig_destination_open(rig, &pod->ring, 0, flow, state);
}

static void send_text(struct pod *pod, const char *text, int64_t txtime_tai_ns)
{
	rig_send(&pod->ring,
		 &(struct rig_message){.clock = KTSN_CLOCK_TAI, .txtime_ns = txtime_tai_ns, .text = text});
}

/* Slots and links may both be longer than the port's frames: a ring that was handed back, or pods of one
 * node. */
TEST(overlong_message_harms_no_other)
{
	static char longer[2 * RIG_BUFFER_BYTES];
	struct rig rig = {0};
	struct pod hostile = {0}, other = {0};
	const struct counters *counters;
	char text[RIG_PAYLOAD_BYTES];
	int64_t at_tai_ns;

	memset(longer, 'x', sizeof(longer) - 1);
	rig_create(&rig, &(struct rig_config){PACKETS, PACKETS, 10000, 10000});
	counters = loop_counters(rig.loop);
	pod_open(&rig, &other, 1, RIG_PAYLOAD_BYTES, DESTINATION_RESOLVED);
	pod_open(&rig, &hostile, 2, sizeof(longer), DESTINATION_RESOLVED);
	hostile.destination->route.payload_max_bytes = sizeof(longer);
	rig_start(&rig);
	rig_wait_commands(&rig);
	at_tai_ns = clock_tai_ns() + 200 * MS;
	/* Their frames are adjacent, in either order. */
	send_text(&other, "before", at_tai_ns);
	rig_wait_pending(&rig, 1);
	send_text(&hostile, longer, at_tai_ns + MS);
	rig_wait_counter(&rig, &counters->drop_invalid, 1);
	rig_wait_counter(&rig, &counters->sent, 1);
	rig_sent_text(&rig, 0, text);
	assert_string_equal(text, "before");
	rig_application_close(&rig, &other.ring);
	rig_application_close(&rig, &hostile.ring);
	rig_wait_retired(&rig, 2 * OBJECTS_OF_POD);
	rig_fini(&rig);
	rig_ring_fini(&other.ring);
	rig_ring_fini(&hostile.ring);
}

static uint32_t *futex_of(const struct sleepers *sleepers)
{
	return &sleepers->ring->header->reserved[1];
}

static void wait_for_nothing(struct sleepers *sleepers)
{
	sleeper_announce(sleepers);
	syscall(SYS_futex, futex_of(sleepers), FUTEX_WAIT, 0, NULL, NULL, 0);
	atomic_fetch_add(&sleepers->woken, 1);
}

/* Waking a sender walks past everything that the pod has put there, between departures of others. */
TEST(loop_wakes_nothing_in_shared_memory)
{
	enum { THREADS = 8, MESSAGES = 3 };
	struct sleepers sleepers = {.wait = wait_for_nothing, .call = SYS_futex};
	struct rig rig = {0};
	struct pod pod = {0};

	rig_create(&rig, &(struct rig_config){PACKETS, PACKETS, 10000, 10000});
	pod_open(&rig, &pod, 1, RIG_PAYLOAD_BYTES, DESTINATION_RESOLVED);
	rig_start(&rig);
	rig_wait_commands(&rig);
	sleepers.ring = &pod.ring.producer;
	sleepers_start(&sleepers, THREADS);
	sleepers_await_asleep(&sleepers);
	/* As older libraries report that many threads wait. */
	pod.ring.producer.header->reserved[0] = THREADS;
	for (uint64_t sent = 1; sent <= MESSAGES; sent++) {
		send_text(&pod, "one", clock_tai_ns());
		rig_wait_counter(&rig, &loop_counters(rig.loop)->sent, sent);
	}
	usleep(20000);
	assert_int_equal(atomic_load(&sleepers.woken), 0);
	assert_int_equal(*futex_of(&sleepers), 0);
	syscall(SYS_futex, futex_of(&sleepers), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	sleepers_join(&sleepers);
	rig_application_close(&rig, &pod.ring);
	rig_wait_retired(&rig, OBJECTS_OF_POD);
	rig_fini(&rig);
	rig_ring_fini(&pod.ring);
}
