/* SPDX-License-Identifier: Apache-2.0 */
#include "loop_rig.h"

#include "clock.h"
#include "commands.h"
#include "doorbells.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit_test.h"

/* Frames that take longer are lost. Sanitizers on a busy machine are slow. */
enum { TIMEOUT_S = 30, POLL_US = 100, STALE_AFTER_NS = 1000000000 };

struct rig_deferred {
	enum loop_object_kind kind;
	void *owner;
	uint32_t mark;
	struct rig_deferred *next;
};

void rig_create(struct rig *rig, const struct rig_config *config)
{
	struct loop_config loop_config = {
		.withdrawn_max = RIG_WITHDRAWN_MAX,
		.packets = config->packets,
		.spin_ns = 60000,
		.late_after_ns = config->late_after_ns,
		.stale_after_ns = STALE_AFTER_NS,
		.delta_ns = config->delta_ns,
		.cpu = -1,
	};

	memset(rig, 0, sizeof(*rig));
	rig->port = ktsn_port_fake_create(config->buffers, RIG_BUFFER_BYTES);
	assert_non_null(rig->port);
	loop_config.port = loop_config.bridge_port = rig->port;
	assert_int_equal(loop_create(&rig->loop, &loop_config), 0);
}

void rig_start(struct rig *rig)
{
	struct loop_scheduling scheduling;

	assert_int_equal(loop_start(rig->loop, &scheduling), 0);
	assert_false(scheduling.fifo);
}

void rig_init(struct rig *rig, const struct rig_config *config)
{
	rig_create(rig, config);
	rig_start(rig);
}

static void defer(struct rig *rig, const struct loop_object *object)
{
	struct rig_deferred *deferred = malloc(sizeof(*deferred));
	struct rig_deferred **last = &rig->deferred;

	assert_non_null(deferred);
	if (rig->retired_count < RIG_RETIRED_MAX)
		rig->retired[rig->retired_count] = object->kind;
	rig->retired_count++;
	*deferred = (struct rig_deferred){
		.kind = object->kind, .owner = object->owner, .mark = loop_commands_mark(rig->loop)};
	while (*last)
		last = &(*last)->next;
	*last = deferred;
}

static void first_free(struct rig *rig)
{
	struct rig_deferred *deferred = rig->deferred;

	rig->deferred = deferred->next;
	free(deferred->owner);
	free(deferred);
}

/* Replaces ktsnd's deferred_free.c. */
void rig_collect(struct rig *rig)
{
	struct loop_object *object = loop_retired(rig->loop);

	while (object) {
		struct loop_object *next = object->next;

		defer(rig, object);
		object = next;
	}
	while (rig->deferred && loop_commands_passed(rig->loop, rig->deferred->mark))
		first_free(rig);
}

uint64_t rig_drops(const struct rig *rig)
{
	const struct counters *counters = loop_counters(rig->loop);

	return counter_read(&counters->drop_invalid) + counter_read(&counters->drop_unresolved) +
	       counter_read(&counters->drop_port) + counter_read(&counters->drop_closed) +
	       counter_read(&counters->drop_txtime) + counter_read(&counters->drop_missed) +
	       counter_read(&counters->drop_max_sdu) + counter_read(&counters->drop_no_window) +
	       counter_read(&counters->drop_horizon) + counter_read(&counters->drop_stale) +
	       counter_read(&counters->drop_no_association) + counter_read(&counters->drop_source) +
	       counter_read(&counters->drop_clock) + counter_read(&counters->drop_receiver);
}

static void books_check(const struct rig *rig)
{
	const struct counters *counters = loop_counters(rig->loop);
	uint64_t sent = counter_read(&counters->sent);

	assert_int_equal(counter_read(&counters->taken), sent + rig_drops(rig) + loop_pending(rig->loop));
	assert_int_equal(sent,
			 counter_read(&counters->on_time) + counter_read(&counters->late_taken) +
				 counter_read(&counters->late_wakeup) + counter_read(&counters->late_port) +
				 counter_read(&counters->late_gate) + counter_read(&counters->late_link) +
				 counter_read(&counters->late_unresolved) +
				 counter_read(&counters->late_clock) + counter_read(&counters->untimed));
	assert_int_equal(sent - rig->sent_to_several + counter_read(&counters->copies_sent) + rig->withdrawn +
				 rig->announced,
			 ktsn_port_fake_sent_count(rig->port));
	assert_int_equal(ktsn_port_fake_buffers_in_use(rig->port), loop_pending(rig->loop));
}

void rig_fini(struct rig *rig)
{
	loop_stop(rig->loop);
	books_check(rig);
	rig_collect(rig);
	while (rig->deferred)
		first_free(rig);
	loop_destroy(rig->loop);
	ktsn_port_destroy(rig->port);
}

void rig_ring_open(struct rig *rig, struct rig_ring *ring, uint32_t slots)
{
	rig_ring_open_for(rig, ring, slots, RIG_PAYLOAD_BYTES);
}

void rig_ring_open_for(struct rig *rig, struct rig_ring *ring, uint32_t slots, uint32_t payload_bytes)
{
	rig_ring_make(rig, ring, slots, payload_bytes);
	rig_ring_announce(rig, ring);
}

void rig_ring_announce(struct rig *rig, struct rig_ring *ring)
{
	loop_command(rig->loop, &(struct loop_command){.type = COMMAND_RING_OPEN, .ring = ring->ring});
}

void rig_ring_make(struct rig *rig, struct rig_ring *ring, uint32_t slots, uint32_t payload_bytes)
{
	assert_int_equal(
		ktsn_ring_memory_create(&ring->memory, ktsn_ring_geometry_make(slots, payload_bytes)), 0);
	/* A separate mapping, like the daemon's, so that ThreadSanitizer sees both sides. */
	assert_int_equal(ktsn_ring_producer_init(&ring->producer, ring->memory.address, ring->memory.bytes),
			 0);
	ring->doorbell_fd = doorbell_make();
	assert_true(ring->doorbell_fd >= 0);
	assert_int_equal(doorbells_create(&ring->doorbells, loop_epoll_fd(rig->loop), 0), 0);
	ring->ring = calloc(1, sizeof(*ring->ring));
	assert_non_null(ring->ring);
	ring->quota = (struct quota){.pending_max = UINT32_MAX, .horizon_ns = INT64_MAX};
	for (int i = 0; i < QUOTA_LANES; i++) {
		ring->quota.lanes[i] = calloc(1, ktsn_shaper_lane_bytes());
		assert_non_null(ring->quota.lanes[i]);
	}
	ring->ring->quota = &ring->quota;
	ring->ring->object = (struct loop_object){.kind = LOOP_RING, .owner = ring->ring};
	ring->doorbell_set_fd = ring->ring->doorbell_set_fd =
		doorbell_join(ring->doorbells, ring->doorbell_fd);
	assert_true(ring->doorbell_set_fd >= 0);
	ktsn_ring_consumer_init(&ring->ring->consumer, ring->memory.address, ring->memory.geometry.slot_count,
				ring->memory.geometry.slot_bytes);
}

void rig_ring_close(struct rig *rig, struct rig_ring *ring)
{
	loop_command(rig->loop, &(struct loop_command){.type = COMMAND_RING_CLOSE, .ring = ring->ring});
}

void rig_ring_fini(struct rig_ring *ring)
{
	for (int i = 0; i < QUOTA_LANES; i++)
		free(ring->quota.lanes[i]);
	ktsn_ring_memory_destroy(&ring->memory);
	doorbell_leave(ring->doorbells, ring->doorbell_set_fd, ring->doorbell_fd);
	doorbells_destroy(ring->doorbells);
}

uint32_t rig_ring_free_slots(const struct rig_ring *ring)
{
	struct ktsn_ring_header *header = ring->memory.address;
	int count = 0;

	for (int w = 0; w < KTSN_RING_WORDS; w++)
		count += __builtin_popcountll(atomic_load(&header->free[w]));
	return (uint32_t)count;
}

struct loop_flow *rig_flow_open(struct rig *rig, struct rig_ring *ring, uint32_t index, uint64_t number,
				enum ktsn_clock clock)
{
	struct loop_flow *flow = calloc(1, sizeof(*flow));

	assert_non_null(flow);
	flow->object = (struct loop_object){.kind = LOOP_FLOW, .owner = flow};
	flow->ring = ring->ring;
	flow->number = number;
	flow->clock = clock;
	loop_command(rig->loop,
		     &(struct loop_command){
			     .type = COMMAND_FLOW_OPEN, .ring = ring->ring, .index = index, .flow = flow});
	return flow;
}

void rig_flow_close(struct rig *rig, struct rig_ring *ring, uint32_t index)
{
	loop_command(rig->loop,
		     &(struct loop_command){.type = COMMAND_FLOW_CLOSE, .ring = ring->ring, .index = index});
}

struct loop_route rig_route(enum loop_destination_state state)
{
	return (struct loop_route){
		.state = state,
		.path =
			{
				.source_mac = {0x02, 0, 0, 0, 0, 0x0a},
				.destination_mac = {0x02, 0, 0, 0, 0, 0x0b},
				.source_ipv4_be = htobe32(0x0a2a0002),
				.destination_ipv4_be = htobe32(0x0a2a0102),
				.source_port_be = htobe16(40000),
				.destination_port_be = htobe16(5001),
				.ttl = 64,
			},
		.tunnel =
			{
				.outer =
					{
						.source_mac = {0x02, 0, 0, 0, 1, 1},
						.destination_mac = {0x02, 0, 0, 0, 1, 2},
						.source_ipv4_be = htobe32(0xc0000201),
						.destination_ipv4_be = htobe32(0xc0000202),
						.source_port_be = htobe16(50000),
						.destination_port_be = htobe16(4789),
						.ttl = 64,
					},
				.vni = 42,
			},
		.clear_port_be = htobe16(4789),
		.payload_max_bytes = RIG_PAYLOAD_BYTES - 1,
	};
}

struct loop_destination *rig_destination_open(struct rig *rig, struct rig_ring *ring, uint32_t index,
					      struct loop_flow *flow, enum loop_destination_state state)
{
	struct loop_destination *destination = calloc(1, sizeof(*destination));

	assert_non_null(destination);
	destination->object = (struct loop_object){.kind = LOOP_DESTINATION, .owner = destination};
	destination->flow = flow;
	destination->ring = ring->ring;
	destination->route = rig_route(state);
	loop_command(rig->loop, &(struct loop_command){.type = COMMAND_DESTINATION_OPEN,
						       .ring = ring->ring,
						       .index = index,
						       .destination = destination});
	return destination;
}

void rig_destination_close(struct rig *rig, struct rig_ring *ring, uint32_t index)
{
	loop_command(rig->loop, &(struct loop_command){.type = COMMAND_DESTINATION_CLOSE,
						       .ring = ring->ring,
						       .index = index});
}

void rig_application_close(struct rig *rig, struct rig_ring *ring)
{
	rig_destination_close(rig, ring, 0);
	rig_flow_close(rig, ring, 0);
	rig_ring_close(rig, ring);
}

void rig_destination_update(struct rig *rig, struct loop_destination *destination,
			    enum loop_destination_state state)
{
	loop_command(rig->loop, &(struct loop_command){.type = COMMAND_DESTINATION_UPDATE,
						       .destination = destination,
						       .route = rig_route(state)});
	rig_wait_commands(rig);
}

void rig_send(struct rig_ring *ring, const struct rig_message *message)
{
	const struct ktsn_ring_message shared = {
		.flow = message->flow,
		.destination = message->destination,
		.payload_bytes = (uint32_t)strlen(message->text),
		.txtime_ns = message->txtime_ns,
		.called_tai_ns = message->called_tai_ns,
		.ethertype_be = message->ethertype_be,
		.priority = message->priority,
	};
	uint64_t increment = 1;
	uint32_t slot;

	while (ktsn_ring_claim(&ring->producer, &slot))
		sched_yield();
	memcpy(ktsn_ring_payload(&ring->producer, slot), message->text, shared.payload_bytes);
	ktsn_ring_publish(&ring->producer, slot, &shared);
	if (ktsn_ring_doorbell_due(&ring->producer, message->clock, message->txtime_ns))
		(void)!write(ring->doorbell_fd, &increment, sizeof(increment));
}

static void pause_or_fail(struct rig *rig, int64_t since_ns, const char *label)
{
	rig_collect(rig);
	if (clock_ns(CLOCK_MONOTONIC) - since_ns > TIMEOUT_S * NS_PER_SECOND)
		fail_msg("%s did not happen", label);
	usleep(POLL_US);
}

void rig_wait_counter(struct rig *rig, const _Atomic uint64_t *counter, uint64_t value)
{
	int64_t since_ns = clock_ns(CLOCK_MONOTONIC);
	char label[80];

	snprintf(label, sizeof(label), "counter at %" PRIu64, value);
	while (counter_read(counter) < value)
		pause_or_fail(rig, since_ns, label);
	assert_int_equal(counter_read(counter), value);
}

void rig_wait_commands(struct rig *rig)
{
	int64_t since_ns = clock_ns(CLOCK_MONOTONIC);
	uint32_t mark = loop_commands_mark(rig->loop);

	while (!loop_commands_passed(rig->loop, mark))
		pause_or_fail(rig, since_ns, "execution of commands");
}

void rig_wait_pending(struct rig *rig, uint32_t pending)
{
	int64_t since_ns = clock_ns(CLOCK_MONOTONIC);

	while (loop_pending(rig->loop) != pending)
		pause_or_fail(rig, since_ns, "pending");
}

void rig_wait_free_slots(struct rig *rig, const struct rig_ring *ring, uint32_t slots)
{
	int64_t since_ns = clock_ns(CLOCK_MONOTONIC);

	while (rig_ring_free_slots(ring) < slots)
		pause_or_fail(rig, since_ns, "return of the slots");
	assert_int_equal(rig_ring_free_slots(ring), slots);
}

void rig_wait_retired(struct rig *rig, uint32_t count)
{
	int64_t since_ns = clock_ns(CLOCK_MONOTONIC);

	while (rig_collect(rig), rig->retired_count < count)
		pause_or_fail(rig, since_ns, "retirement");
	assert_int_equal(rig->retired_count, count);
}

void rig_sent_text(const struct rig *rig, size_t index, char text[RIG_PAYLOAD_BYTES])
{
	uint32_t bytes = 0;
	const uint8_t *frame = ktsn_port_fake_sent(rig->port, index, &bytes);

	assert_non_null(frame);
	assert_true(bytes >= RIG_HEADERS_BYTES && bytes - RIG_HEADERS_BYTES < RIG_PAYLOAD_BYTES);
	memcpy(text, frame + RIG_HEADERS_BYTES, bytes - RIG_HEADERS_BYTES);
	text[bytes - RIG_HEADERS_BYTES] = '\0';
}

void rig_assert_sent(const struct rig *rig, size_t index, const char *expected)
{
	char text[RIG_PAYLOAD_BYTES];

	rig_sent_text(rig, index, text);
	assert_string_equal(text, expected);
}

void rig_departures(struct rig *rig, uint64_t after, struct departure *records, uint32_t limit,
		    uint32_t count)
{
	uint64_t overwritten;

	assert_int_equal(departures_read(loop_departures(rig->loop), after, limit, records, &overwritten),
			 count);
}

struct departure rig_departure(struct rig *rig, uint64_t after)
{
	struct departure record;

	rig_departures(rig, after, &record, 1, 1);
	return record;
}

void rig_strategy_set(struct rig *rig, enum ktsn_strategy strategy)
{
	loop_command(rig->loop, &(struct loop_command){.type = COMMAND_STRATEGY, .strategy = strategy});
	rig_wait_commands(rig);
}

struct loop_gates *rig_gates_change(struct rig *rig, const struct loop_gates *before,
				    const struct ktsn_schedule *schedule)
{
	struct loop_gates *gates = calloc(1, sizeof(*gates));
	struct ktsn_gates none;

	assert_non_null(gates);
	gates->object = (struct loop_object){.kind = LOOP_GATES, .owner = gates};
	ktsn_gates_init(&none);
	ktsn_gates_change(before ? &before->gates : &none, schedule, clock_tai_ns(), &gates->gates);
	loop_command(rig->loop, &(struct loop_command){.type = COMMAND_GATES, .gates = gates});
	return gates;
}
