/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late frames do not make others late. The test's clock advances with each reading and by the length of each
 * sent frame, so the machine's load changes nothing.
 */
#include "loop_rig.h"

#include "clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

#define BEGAN_NS   INT64_C(1000000000000)
#define LOOK_NS    20
#define FRAME_NS   10000
#define SPACING_NS 300000
#define FIRST_NS   400000 /* while its length is unknown, a whole burst of frames may have left before it */

enum {
	SLOTS = 256,
	PACKETS = 1024,
	FLOOD = 240,
	FLOOD_PODS_MAX = 12, /* more than are examined one by one */
	GOOD = 5,
	DENSE = 100,
	LEARNT = 20, /* by then the length of a frame is known */
	GOOD_FLOW = 1,
	FLOOD_FLOW = 2,
	OBJECTS_OF_POD = 3,
};

static _Atomic int64_t looks;
static const struct ktsn_port *_Atomic frames_of;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	const struct ktsn_port *port = atomic_load(&frames_of);
	int64_t now_ns;

	if (clock != CLOCK_TAI)
		return __real_clock_gettime(clock, now);
	now_ns = BEGAN_NS + atomic_fetch_add(&looks, 1) * LOOK_NS;
	if (port)
		now_ns += (int64_t)ktsn_port_fake_sent_count(port) * FRAME_NS;
	*now = (struct timespec){.tv_sec = now_ns / NS_PER_SECOND, .tv_nsec = now_ns % NS_PER_SECOND};
	return 0;
}

/* One pod next to others whose messages are all overdue. */
struct bench {
	struct rig rig;
	struct rig_ring flood[FLOOD_PODS_MAX], good;
	int flood_pods;
};

static void pod_open(struct bench *bench, struct rig_ring *ring, uint64_t number, uint8_t priority,
		     bool untimed)
{
	struct loop_flow *flow;

	rig_ring_make(&bench->rig, ring, SLOTS, RIG_PAYLOAD_BYTES);
	ring->ring->untimed = untimed;
	rig_ring_announce(&bench->rig, ring);
	flow = rig_flow_open(&bench->rig, ring, 0, number, KTSN_CLOCK_TAI);
	rig_destination_open(&bench->rig, ring, 0, flow, DESTINATION_RESOLVED)->priority = priority;
}

static void floods_send(struct bench *bench)
{
	for (int i = 0; i < FLOOD; i++)
		rig_send(&bench->flood[i % bench->flood_pods],
			 &(struct rig_message){.clock = KTSN_CLOCK_TAI, .txtime_ns = i, .text = "flood"});
}

static struct bench *bench_create(uint8_t good_priority, int flood_pods, bool untimed_flood)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	assert_non_null(bench);
	atomic_store(&looks, 0);
	/* Untimed messages would never be late by their time. */
	rig_create(&bench->rig, &(struct rig_config){PACKETS, PACKETS,
						     untimed_flood ? NS_PER_SECOND : FRAME_NS, FRAME_NS});
	atomic_store(&frames_of, bench->rig.port);
	bench->flood_pods = flood_pods;
	/* First, because the loop opens a few at a time. */
	pod_open(bench, &bench->good, GOOD_FLOW, good_priority, false);
	for (int i = 0; i < flood_pods; i++)
		pod_open(bench, &bench->flood[i], FLOOD_FLOW + (uint64_t)i, 0, untimed_flood);
	floods_send(bench);
	return bench;
}

static void good_send(struct bench *bench, int count, int64_t spacing_ns)
{
	for (int i = 1; i <= count; i++)
		rig_send(&bench->good,
			 &(struct rig_message){.clock = KTSN_CLOCK_TAI,
					       .txtime_ns = BEGAN_NS + FIRST_NS + i * spacing_ns,
					       .text = "good"});
}

/* Lets all messages leave. */
static void bench_run(struct bench *bench, int messages)
{
	rig_start(&bench->rig);
	rig_wait_counter(&bench->rig, &loop_counters(bench->rig.loop)->sent, (uint64_t)messages);
}

static void bench_destroy(struct bench *bench)
{
	for (int i = 0; i < bench->flood_pods; i++)
		rig_application_close(&bench->rig, &bench->flood[i]);
	rig_application_close(&bench->rig, &bench->good);
	rig_wait_retired(&bench->rig, ((uint32_t)bench->flood_pods + 1) * OBJECTS_OF_POD);
	atomic_store(&frames_of, NULL);
	rig_fini(&bench->rig);
	for (int i = 0; i < bench->flood_pods; i++)
		rig_ring_fini(&bench->flood[i]);
	rig_ring_fini(&bench->good);
	free(bench);
}

/* The frame that is at the port when the message comes due finishes up to FRAME_NS later. */
TEST(punctual_message_waits_for_no_late_frame)
{
	const uint8_t priorities[] = {0, 6};

	for (size_t i = 0; i < sizeof(priorities); i++) {
		struct bench *bench = bench_create(priorities[i], 1, false);
		int good = 0;

		good_send(bench, GOOD, SPACING_NS);
		bench_run(bench, FLOOD + GOOD);
		for (int d = 0; d < FLOOD + GOOD; d++) {
			struct departure departure = rig_departure(&bench->rig, d);

			if (departure.flow != GOOD_FLOW)
				continue;
			good++;
			assert_true(departure.departed_tai_ns - departure.requested_tai_ns < FRAME_NS / 10);
			/* No frame precedes it in the burst that the port gets then. */
			assert_true(rig_departure(&bench->rig, d - 1).departed_tai_ns <
				    departure.departed_tai_ns);
		}
		assert_int_equal(good, GOOD);
		bench_destroy(bench);
	}
}

static void good_leaves_before_the_untimed(uint8_t good_priority, int flood_pods, int64_t late_ns)
{
	struct bench *bench = bench_create(good_priority, flood_pods, true);

	good_send(bench, GOOD, SPACING_NS);
	bench_run(bench, FLOOD + GOOD);
	assert_int_equal(counter_read(&loop_counters(bench->rig.loop)->untimed), FLOOD);
	for (int d = 0; d < GOOD; d++) {
		struct departure departure = rig_departure(&bench->rig, d);

		assert_int_equal(departure.flow, GOOD_FLOW);
		assert_true(departure.departed_tai_ns - departure.requested_tai_ns < late_ns);
	}
	bench_destroy(bench);
}

/* This holds for any number of pods. With many, a burst is longer, and learning the length of a frame
 * takes longer: one may have begun. */
TEST(punctual_message_waits_for_no_untimed_frame)
{
	good_leaves_before_the_untimed(0, 1, FRAME_NS / 10);
	good_leaves_before_the_untimed(6, 1, FRAME_NS / 10);
	good_leaves_before_the_untimed(0, FLOOD_PODS_MAX, 2 * FRAME_NS);
	good_leaves_before_the_untimed(6, FLOOD_PODS_MAX, 2 * FRAME_NS);
}

/* There is always a due frame before another could finish. */
TEST(late_messages_get_their_share)
{
	struct bench *bench = bench_create(6, 1, false);
	int late = 0, good = 0;

	good_send(bench, DENSE, FRAME_NS * 3 / 2);
	bench_run(bench, FLOOD + DENSE);
	for (int d = 0; good < DENSE; d++) {
		if (rig_departure(&bench->rig, d).flow == GOOD_FLOW)
			good++;
		else
			late += good > LEARNT;
	}
	assert_true(late >= (DENSE - LEARNT) / 5);
	bench_destroy(bench);
}
