/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames from a relay: each carries its EtherType and priority. Frames of an untimed ring leave as soon as
 * they can, in their order, and are never late.
 */
#include "clock.h"
#include "commands.h"
#include "loop_rig.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "unit_test.h"

#define MS INT64_C(1000000)

enum {
	SLOTS = 64,
	PACKETS = 256,
	MANY = 40,
	ETHER_BYTES = KTSN_TUNNEL_HEADER_BYTES + KTSN_ETHER_HEADER_BYTES,
	PAYLOAD_MAX = 100,
	TIMED_PRIORITY = 3,
	TIMEOUT_MS = 10000,
};

/* A relay's two rings of one pod. */
struct relay {
	struct rig rig;
	struct rig_ring untimed, timed;
	const struct counters *counters;
	struct loop_destination *untimed_destination;
	struct loop_gates *gates; /* the loop has them until it ends */
};

static struct loop_destination *flow_open(struct relay *relay, struct rig_ring *ring, uint64_t number)
{
	struct loop_flow *flow = rig_flow_open(&relay->rig, ring, 0, number,
					       ring->ring->untimed ? KTSN_CLOCK_MONOTONIC : KTSN_CLOCK_TAI);
	struct loop_destination *destination =
		rig_destination_open(&relay->rig, ring, 0, flow, DESTINATION_RESOLVED);

	flow->frames = true;
	destination->admission.priority_max = 15;
	destination->route.path.kind = KTSN_FRAME_ETHERNET;
	destination->route.payload_max_bytes = PAYLOAD_MAX;
	destination->route.tagged_max_bytes = PAYLOAD_MAX + 4;
	return destination;
}

static void frame_send_as(struct rig_ring *ring, const char *text, uint16_t ethertype, uint8_t priority,
			  int64_t txtime_tai_ns)
{
	rig_send(ring, &(struct rig_message){.clock = KTSN_CLOCK_TAI,
					     .txtime_ns = txtime_tai_ns,
					     .text = text,
					     .ethertype_be = htobe16(ethertype),
					     .priority = priority});
}

static void frame_send(struct relay *relay, const char *text)
{
	frame_send_as(&relay->untimed, text, 0x0800, 0, clock_tai_ns());
}

static void number_send(struct relay *relay, unsigned int number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	frame_send(relay, text);
}

/* Does not start the loop. */
static struct relay *relay_create(void)
{
	struct relay *relay = calloc(1, sizeof(*relay));

	assert_non_null(relay);
	rig_create(&relay->rig, &(struct rig_config){PACKETS, PACKETS, 10000, 10000});
	relay->counters = loop_counters(relay->rig.loop);
	rig_ring_make(&relay->rig, &relay->untimed, SLOTS, RIG_PAYLOAD_BYTES);
	relay->untimed.ring->untimed = true;
	rig_ring_open(&relay->rig, &relay->timed, SLOTS);
	relay->untimed_destination = flow_open(relay, &relay->untimed, 1);
	flow_open(relay, &relay->timed, 2);
	return relay;
}

static int set_up(void **state)
{
	struct relay *relay = *state = relay_create();

	rig_ring_announce(&relay->rig, &relay->untimed);
	rig_start(&relay->rig);
	rig_wait_commands(&relay->rig);
	return 0;
}

static int tear_down(void **state)
{
	struct relay *relay = *state;

	uint32_t before = relay->rig.retired_count;

	rig_wait_pending(&relay->rig, 0);
	rig_application_close(&relay->rig, &relay->untimed);
	rig_application_close(&relay->rig, &relay->timed);
	rig_wait_retired(&relay->rig, before + 6);
	assert_int_equal(rig_ring_free_slots(&relay->untimed), SLOTS);
	rig_fini(&relay->rig);
	rig_ring_fini(&relay->untimed);
	rig_ring_fini(&relay->timed);
	free(relay->gates);
	free(relay);
	return 0;
}

static void sent_wait(struct relay *relay, uint64_t count)
{
	rig_wait_counter(&relay->rig, &relay->counters->sent, count);
}

static const uint8_t *frame_at(const struct relay *relay, size_t index, uint32_t *bytes)
{
	const uint8_t *frame = ktsn_port_fake_sent(relay->rig.port, index, bytes);

	assert_non_null(frame);
	*bytes -= ETHER_BYTES;
	return frame + ETHER_BYTES;
}

static void frame_check(const struct relay *relay, size_t index, const char *text)
{
	uint32_t bytes;
	const uint8_t *payload = frame_at(relay, index, &bytes);

	assert_int_equal(bytes, strlen(text));
	assert_memory_equal(payload, text, bytes);
}

TEST_F(untimed_frame_is_never_late)
{
	struct relay *relay = *state;
	struct departure departure;

	/* The time of the hand-over does not matter. */
	frame_send_as(&relay->untimed, "old", 0x0800, 0, 1);
	frame_send_as(&relay->untimed, "to come", 0x0800, 0, clock_tai_ns() + 1000000 * MS);
	sent_wait(relay, 2);
	rig_wait_pending(&relay->rig, 0);
	assert_int_equal(counter_read(&relay->counters->untimed), 2);
	assert_int_equal(counter_read(&relay->counters->on_time), 0);
	assert_int_equal(counter_read(&relay->counters->classes[1].sent), 2);
	assert_int_equal(counter_read(&relay->counters->classes[1].late), 0);
	/* Without a requested time there is no departure error. */
	rig_departures(&relay->rig, 0, &departure, 1, 0);
}

TEST_F(frame_sets_ethertype_and_class)
{
	static const uint16_t ethertypes[] = {0x0806, 0x86dd, 0x88b5};
	struct relay *relay = *state;
	struct loop_classes classes = loop_classes_default();

	for (size_t i = 0; i < 3; i++) {
		uint32_t bytes;
		uint16_t ethertype_be;

		frame_send_as(&relay->untimed, "x", ethertypes[i], (uint8_t)(i + 4), 0);
		sent_wait(relay, i + 1);
		memcpy(&ethertype_be, frame_at(relay, i, &bytes) - 2, sizeof(ethertype_be));
		assert_int_equal(be16toh(ethertype_be), ethertypes[i]);
		assert_int_equal(counter_read(&relay->counters->classes[classes.of_priority[i + 4]].sent), 1);
	}
}

TEST_F(tag_adds_to_the_longest_payload)
{
	char text[PAYLOAD_MAX + 5];
	struct relay *relay = *state;

	memset(text, 'x', sizeof(text));
	text[PAYLOAD_MAX + 4] = '\0';
	frame_send_as(&relay->untimed, text, 0x0800, 0, 0);
	rig_wait_counter(&relay->rig, &relay->counters->drop_invalid, 1);
	frame_send_as(&relay->untimed, text, 0x8100, 0, 0);
	frame_send_as(&relay->untimed, text, 0x88a8, 0, 0);
	sent_wait(relay, 2);
}

/* A few are taken at a time. */
TEST_F(untimed_frames_keep_their_order)
{
	struct relay *relay = *state;
	char text[16];

	atomic_store(&relay->untimed.quota.pending_max, 3);
	for (unsigned int i = 0; i < 4 * SLOTS; i++)
		number_send(relay, i);
	sent_wait(relay, 4 * SLOTS);
	for (unsigned int i = 0; i < 4 * SLOTS; i++) {
		snprintf(text, sizeof(text), "%u", i);
		frame_check(relay, i, text);
	}
}

TEST_F(untimed_frames_leave_with_every_strategy)
{
	struct relay *relay = *state;

	for (unsigned int strategy = 0; strategy < KTSN_STRATEGIES; strategy++) {
		rig_strategy_set(&relay->rig, (enum ktsn_strategy)strategy);
		loop_pause(relay->rig.loop);
		for (unsigned int i = 0; i < MANY; i++)
			number_send(relay, i);
		loop_resume(relay->rig.loop);
		sent_wait(relay, (strategy + 1) * MANY);
	}
	rig_wait_pending(&relay->rig, 0);
	assert_int_equal(counter_read(&relay->counters->untimed), KTSN_STRATEGIES * MANY);
}

static struct loop_gates *gates_give(struct relay *relay, const struct loop_gates *before,
				     const struct ktsn_schedule *schedule)
{
	struct loop_gates *gates = rig_gates_change(&relay->rig, before, schedule);

	rig_wait_commands(&relay->rig);
	return gates;
}

/* All except those of timed frames shut when the cycle begins, for four more seconds. */
static struct loop_gates *gates_shut(struct relay *relay)
{
	const unsigned int timed_class = loop_classes_default().of_priority[TIMED_PRIORITY];
	const struct ktsn_schedule shut = {
		.gate_enabled = true,
		.gate_states = (uint8_t)(1U << timed_class),
		.base_time_tai_ns = clock_tai_ns() + MS,
		.cycle_time_ns = 3600000 * MS,
		.entry_count = 2,
		.entries = {{4000000000U, (uint8_t)(1U << timed_class)}, {1000000, 0xff}}};

	return gates_give(relay, NULL, &shut);
}

static void gates_open(struct relay *relay, const struct loop_gates *before)
{
	struct ktsn_schedule open;

	ktsn_schedule_init(&open);
	relay->gates = gates_give(relay, before, &open);
}

/* It does not delay a timed frame of another class either. */
TEST_F(untimed_frame_waits_for_its_gate)
{
	struct relay *relay = *state;
	const struct loop_gates *shut = gates_shut(relay);

	for (unsigned int i = 0; i < MANY; i++)
		number_send(relay, i);
	rig_wait_counter(&relay->rig, &relay->counters->taken, MANY);
	frame_send_as(&relay->timed, "timed", 0x0800, TIMED_PRIORITY, clock_tai_ns());
	sent_wait(relay, 1);
	frame_check(relay, 0, "timed");
	gates_open(relay, shut);
	sent_wait(relay, 1 + MANY);
	rig_wait_pending(&relay->rig, 0);
	assert_int_equal(counter_read(&relay->counters->untimed), MANY);
	assert_int_equal(counter_read(&relay->counters->late_gate), 0);
	rig_wait_retired(&relay->rig, 1);
}

/* A pod's whole quota waits for its gate, and more frames wait in the ring. */
TEST_F(untimed_quota_is_separate)
{
	enum { PENDING_MAX = 10 };
	struct relay *relay = *state;
	const struct loop_gates *shut;

	atomic_store(&relay->untimed.quota.pending_max, PENDING_MAX);
	atomic_store(&relay->timed.quota.pending_max, PENDING_MAX);
	shut = gates_shut(relay);
	for (unsigned int i = 0; i < MANY; i++)
		number_send(relay, i);
	rig_wait_counter(&relay->rig, &relay->counters->taken, PENDING_MAX);
	while (!counter_read(&relay->counters->share_pending))
		usleep(100);
	for (unsigned int i = 1; i <= MANY; i++) {
		frame_send_as(&relay->timed, "timed", 0x0800, TIMED_PRIORITY, clock_tai_ns());
		sent_wait(relay, i);
		frame_check(relay, i - 1, "timed");
	}
	rig_wait_pending(&relay->rig, PENDING_MAX);
	assert_int_equal(quota_pending(&relay->untimed.quota), PENDING_MAX);
	assert_int_equal(quota_pending(&relay->timed.quota), 0);
	gates_open(relay, shut);
	sent_wait(relay, 2 * MANY);
	assert_int_equal(counter_read(&relay->counters->untimed), MANY);
	rig_wait_retired(&relay->rig, 1);
}

TEST_F(forbidden_frame_is_dropped)
{
	struct relay *relay = *state;

	relay->untimed_destination->admission.priority_max = 5;
	frame_send_as(&relay->untimed, "granted", 0x88f7, 5, 0);
	frame_send_as(&relay->untimed, "not granted", 0x88f7, 6, 0);
	rig_wait_counter(&relay->rig, &relay->counters->drop_source, 1);
	sent_wait(relay, 1);
	frame_check(relay, 0, "granted");
}

static int64_t alive_at(const struct relay *relay)
{
	const struct ktsn_ring_header *header = relay->untimed.memory.address;

	return atomic_load(&header->alive_ns);
}

TEST_F(idle_loop_marks_rings)
{
	struct relay *relay = *state;
	int64_t first_ns = alive_at(relay);
	const struct ktsn_ring_header *timed = relay->timed.memory.address;

	assert_true(first_ns > 0 && first_ns <= clock_ns(CLOCK_MONOTONIC));
	for (int rounds = 0; rounds < 3; rounds++) {
		for (int ms = 0; alive_at(relay) == first_ns; ms++) {
			assert_true(ms < TIMEOUT_MS);
			usleep(1000);
		}
		assert_true(alive_at(relay) > first_ns);
		first_ns = alive_at(relay);
	}
	assert_int_equal(atomic_load(&timed->alive_ns), 0);
}

/* They do not depend on clocks. */
TEST_F(untimed_frames_continue_without_clock)
{
	struct loop_attachment attachment = {.clock = LOOP_CLOCK_GOOD};
	struct relay *relay = *state;

	relay->untimed_destination->attachment = &attachment;
	for (enum loop_clock clock = LOOP_CLOCK_CONTINUE; clock <= LOOP_CLOCK_REFUSE; clock++) {
		loop_command(relay->rig.loop, &(struct loop_command){.type = COMMAND_ATTACHMENT_CLOCK,
								     .attachment = &attachment,
								     .clock = clock});
		rig_wait_commands(&relay->rig);
		number_send(relay, clock);
		rig_wait_counter(&relay->rig, &relay->counters->untimed, clock);
	}
	assert_int_equal(counter_read(&relay->counters->clock_lost), 0);
	loop_command(relay->rig.loop, &(struct loop_command){.type = COMMAND_ATTACHMENT_CLOCK,
							     .attachment = &attachment,
							     .clock = LOOP_CLOCK_GOOD});
	rig_wait_commands(&relay->rig);
}

TEST_WITH(old_frames_are_stale_after_take_over, NULL, tear_down)
{
	struct relay *relay = relay_create();
	int64_t now_tai_ns = clock_tai_ns();

	*state = relay;
	frame_send_as(&relay->untimed, "old", 0x0800, 0, now_tai_ns - 1001 * MS);
	frame_send_as(&relay->untimed, "before 1970", 0x0800, 0, INT64_MIN);
	frame_send_as(&relay->untimed, "young", 0x0800, 0, now_tai_ns - 900 * MS);
	assert_int_equal(ktsn_ring_recover(&relay->untimed.ring->consumer), 0);
	relay->untimed.ring->recovered_tai_ns = now_tai_ns;
	/* A frame that is handed over after that may be of any age. */
	frame_send_as(&relay->untimed, "late", 0x0800, 0, now_tai_ns - 2000 * MS);
	rig_ring_announce(&relay->rig, &relay->untimed);
	rig_start(&relay->rig);
	sent_wait(relay, 2);
	rig_wait_pending(&relay->rig, 0);
	frame_check(relay, 0, "young");
	frame_check(relay, 1, "late");
	assert_int_equal(counter_read(&relay->counters->drop_stale), 2);
	assert_int_equal(counter_read(&relay->counters->taken), 4);
}

TEST_F(timed_relay_frames_leave_at_their_time)
{
	struct relay *relay = *state;
	int64_t txtime_tai_ns = clock_tai_ns() + 20 * MS;
	struct departure departure;

	frame_send_as(&relay->timed, "timed", 0x0800, TIMED_PRIORITY, txtime_tai_ns);
	sent_wait(relay, 1);
	rig_wait_pending(&relay->rig, 0);
	frame_check(relay, 0, "timed");
	assert_int_equal(counter_read(&relay->counters->untimed), 0);
	rig_departures(&relay->rig, 0, &departure, 1, 1);
	assert_int_equal(departure.requested_tai_ns, txtime_tai_ns);
	assert_true(departure.departed_tai_ns >= txtime_tai_ns);
}
