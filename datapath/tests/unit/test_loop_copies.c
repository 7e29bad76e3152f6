/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of messages to a group do not make others late, neither when they are made nor when they leave. The
 * test's clock advances with each reading, each frame built and each frame sent, so the machine's load
 * changes nothing.
 */
#include "commands.h"
#include "loop_rig.h"

#include "clock.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

#define BEGAN_NS INT64_C(1000000000000)
#define LOOK_NS  20
#define BUILD_NS 1000
#define FRAME_NS 5000

enum {
	SLOTS = 64,
	PACKETS = 4096,
	PEERS = 62,
	MESSAGES = 20, /* to the group */
	GOOD = 20,
	SPACING_NS = 150000,
	COMMANDS_IN_A_ROUND = 8,
	GROUP_FLOW = 1,
	GOOD_FLOW = 2,
	/* The other pod's frame, a burst of the group's, and the copies that are made before the clock is
	 * read. */
	BOUND_NS = (1 + 4) * FRAME_NS + 8 * BUILD_NS,
};

static _Atomic int64_t passed_ns;
static const struct ktsn_port *_Atomic frames_of;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_ktsn_frame_build(uint8_t *frame, size_t capacity_bytes, const struct ktsn_frame_path *path,
			    const struct ktsn_frame_tunnel *tunnel, size_t payload_bytes);
int __wrap_ktsn_frame_build(uint8_t *frame, size_t capacity_bytes, const struct ktsn_frame_path *path,
			    const struct ktsn_frame_tunnel *tunnel, size_t payload_bytes);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	const struct ktsn_port *port = atomic_load(&frames_of);
	int64_t now_ns;

	if (clock != CLOCK_TAI)
		return __real_clock_gettime(clock, now);
	now_ns = BEGAN_NS + atomic_fetch_add(&passed_ns, LOOK_NS);
	if (port)
		now_ns += (int64_t)ktsn_port_fake_sent_count(port) * FRAME_NS;
	*now = (struct timespec){.tv_sec = now_ns / NS_PER_SECOND, .tv_nsec = now_ns % NS_PER_SECOND};
	return 0;
}

int __wrap_ktsn_frame_build(uint8_t *frame, size_t capacity_bytes, const struct ktsn_frame_path *path,
			    const struct ktsn_frame_tunnel *tunnel, size_t payload_bytes)
{
	atomic_fetch_add(&passed_ns, BUILD_NS);
	return __real_ktsn_frame_build(frame, capacity_bytes, path, tunnel, payload_bytes);
}

/* Two pods; one of them sends to a group. The loop does not run yet. */
struct bench {
	struct rig rig;
	struct rig_ring group, good;
	struct loop_destination *to_group;
	struct loop_replication *copies;
};

static struct loop_replication *copies_make(uint32_t first_address)
{
	struct loop_replication *copies = calloc(1, sizeof(*copies) + PEERS * sizeof(copies->copies[0]));

	assert_non_null(copies);
	copies->object = (struct loop_object){.kind = LOOP_REPLICATION, .owner = copies};
	copies->count = PEERS;
	copies->common = rig_route(DESTINATION_RESOLVED);
	for (uint32_t i = 0; i < PEERS; i++) {
		copies->copies[i].remote_be = htobe32(first_address + i);
	}
	return copies;
}

static struct loop_destination *pod_open(struct bench *bench, struct rig_ring *ring, uint64_t number)
{
	rig_ring_open(&bench->rig, ring, SLOTS);
	return rig_destination_open(&bench->rig, ring, 0,
				    rig_flow_open(&bench->rig, ring, 0, number, KTSN_CLOCK_TAI),
				    DESTINATION_RESOLVED);
}

static int set_up(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	assert_non_null(bench);
	*state = bench;
	atomic_store(&passed_ns, 0);
	rig_create(&bench->rig, &(struct rig_config){PACKETS, PACKETS, 10000, 10000});
	atomic_store(&frames_of, bench->rig.port);
	bench->to_group = pod_open(bench, &bench->group, GROUP_FLOW);
	bench->to_group->replication = bench->copies = copies_make(0xc0000210);
	(void)pod_open(bench, &bench->good, GOOD_FLOW);
	return 0;
}

static int tear_down(void **state)
{
	struct bench *bench = *state;
	uint32_t before;

	rig_collect(&bench->rig);
	before = bench->rig.retired_count;
	rig_application_close(&bench->rig, &bench->group);
	rig_application_close(&bench->rig, &bench->good);
	rig_wait_retired(&bench->rig, before + 6);
	atomic_store(&frames_of, NULL);
	rig_fini(&bench->rig);
	rig_ring_fini(&bench->group);
	rig_ring_fini(&bench->good);
	free(bench->copies);
	free(bench);
	return 0;
}

static void send_at(struct rig_ring *ring, int64_t txtime_tai_ns)
{
	rig_send(ring,
		 &(struct rig_message){.clock = KTSN_CLOCK_TAI, .txtime_ns = txtime_tai_ns, .text = "text"});
}

/* Lets all messages leave. Returns the longest lateness of the other pod's messages. */
static int64_t good_worst(struct bench *bench)
{
	struct departure records[MESSAGES + GOOD];
	int64_t worst_ns = 0;
	int good = 0;

	bench->rig.sent_to_several = MESSAGES;
	rig_start(&bench->rig);
	rig_wait_counter(&bench->rig, &loop_counters(bench->rig.loop)->sent, MESSAGES + GOOD);
	assert_int_equal(counter_read(&loop_counters(bench->rig.loop)->copies_sent), MESSAGES * PEERS);
	rig_departures(&bench->rig, 0, records, MESSAGES + GOOD, MESSAGES + GOOD);
	for (int i = 0; i < MESSAGES + GOOD; i++) {
		int64_t late_ns = records[i].departed_tai_ns - records[i].requested_tai_ns;

		assert_true(late_ns >= 0);
		if (records[i].flow != GOOD_FLOW)
			continue;
		good++;
		if (late_ns > worst_ns)
			worst_ns = late_ns;
	}
	assert_int_equal(good, GOOD);
	return worst_ns;
}

static void good_send(struct bench *bench)
{
	for (int i = 1; i <= GOOD; i++)
		send_at(&bench->good, BEGAN_NS + (int64_t)i * SPACING_NS);
}

/* They are due at the same moment as the first of the other pod, and all are handed over before its others
 * have left. */
TEST_F(due_copies_delay_no_other_pod)
{
	struct bench *bench = *state;

	for (int i = 0; i < MESSAGES; i++)
		send_at(&bench->group, BEGAN_NS + SPACING_NS - FRAME_NS / 2);
	good_send(bench);
	assert_in_range(good_worst(bench), 0, BOUND_NS);
}

/* They are made when those of the other pod are due. */
TEST_F(making_copies_delays_no_other_pod)
{
	struct bench *bench = *state;

	for (int i = 0; i < MESSAGES; i++)
		send_at(&bench->group, BEGAN_NS + (GOOD + 1) * (int64_t)SPACING_NS);
	good_send(bench);
	assert_in_range(good_worst(bench), 0, BOUND_NS);
}

TEST_F(overdue_copies_delay_no_other_pod)
{
	struct bench *bench = *state;

	for (int i = 0; i < MESSAGES; i++)
		send_at(&bench->group, 0);
	good_send(bench);
	assert_in_range(good_worst(bench), 0, BOUND_NS);
}

/* The destination of the frame with that number. */
static uint32_t frame_address(const struct bench *bench, size_t index)
{
	uint32_t bytes, address_be;
	const uint8_t *frame = ktsn_port_fake_sent(bench->rig.port, index, &bytes);

	assert_non_null(frame);
	memcpy(&address_be, frame + KTSN_ETHER_HEADER_BYTES + 16, sizeof(address_be));
	return be32toh(address_be);
}

/* The command belongs to the second round; in the first one no message can be made as a whole. */
TEST_F(begun_message_keeps_its_receivers)
{
	struct bench *bench = *state;
	struct loop_replication *others = copies_make(0xc0000310);

	send_at(&bench->group, BEGAN_NS + SPACING_NS);
	for (int i = 0; i < COMMANDS_IN_A_ROUND; i++)
		loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_LIMITS});
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_DESTINATION_UPDATE,
							     .destination = bench->to_group,
							     .route = rig_route(DESTINATION_UNREACHABLE),
							     .replication = others});
	bench->copies = others;
	bench->rig.sent_to_several = 1;
	rig_start(&bench->rig);
	rig_wait_counter(&bench->rig, &loop_counters(bench->rig.loop)->sent, 1);
	assert_int_equal(ktsn_port_fake_sent_count(bench->rig.port), PEERS);
	for (size_t i = 0; i < PEERS; i++)
		assert_in_range(frame_address(bench, i), 0xc0000210, 0xc0000210 + PEERS - 1);
	rig_wait_retired(&bench->rig, 1);
	assert_int_equal(bench->rig.retired[0], LOOP_REPLICATION);
}
