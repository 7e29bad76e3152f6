/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring between an application and a daemon that both follow the rules; test_ring_hostile.c has those that
 * do not.
 */
#include "ring_pair.h"

#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "unit_test.h"

enum { SLOTS = 128, PAYLOAD_BYTES = 100, PAYLOAD_CAPACITY_BYTES = 128 };

static int set_up(void **state)
{
	return ring_pair_set_up(state, SLOTS, PAYLOAD_BYTES);
}

static uint32_t send_text(struct ring_pair *pair, const char *text, int64_t txtime_ns)
{
	const struct ktsn_ring_message message = {
		.flow = 3, .destination = 5, .payload_bytes = (uint32_t)strlen(text), .txtime_ns = txtime_ns};
	uint32_t slot = UINT32_MAX;

	assert_int_equal(ring_pair_send(pair, &message, text, &slot), 0);
	return slot;
}

static struct ktsn_ring_taken take_one(struct ring_pair *pair)
{
	struct ktsn_ring_taken taken;

	assert_int_equal(ring_pair_take(pair, &taken), 1);
	return taken;
}

static void assert_nothing_to_take(struct ring_pair *pair)
{
	struct ktsn_ring_taken taken;

	assert_int_equal(ktsn_ring_take(&pair->consumer, &taken), 0);
}

static void fill(struct ring_pair *pair)
{
	for (int i = 0; i < SLOTS; i++)
		send_text(pair, "x", i);
}

#define PAIR_TEST(name) TEST_WITH(name, set_up, ring_pair_tear_down)

/* A network beyond the bits has no bit and is not refused here. */
PAIR_TEST(networks_are_refused_by_bits)
{
	const uint64_t first = 1, last = UINT64_C(1) << 63;
	struct ring_pair *pair = *state;

	assert_false(ktsn_ring_refuses(&pair->producer, first));
	ktsn_ring_refused_set(&pair->consumer, first | last);
	assert_true(ktsn_ring_refuses(&pair->producer, first));
	assert_true(ktsn_ring_refuses(&pair->producer, last));
	assert_false(ktsn_ring_refuses(&pair->producer, 2));
	assert_false(ktsn_ring_refuses(&pair->producer, 0));
	ktsn_ring_refused_set(&pair->consumer, last);
	assert_false(ktsn_ring_refuses(&pair->producer, first));
	/* Before another ktsnd gets the ring, which writes the refused networks again. */
	ktsn_ring_refuse_none(&pair->producer);
	assert_false(ktsn_ring_refuses(&pair->producer, UINT64_MAX));
	(void)ktsn_ring_recover(&pair->consumer);
	assert_false(ktsn_ring_refuses(&pair->producer, UINT64_MAX));
	ktsn_ring_refused_set(&pair->consumer, first);
	assert_true(ktsn_ring_refuses(&pair->producer, first));
}

/* The previous content of the slot is not taken for the time of another call. */
PAIR_TEST(call_time_is_passed_while_tracing)
{
	struct ring_pair *pair = *state;
	struct ktsn_ring_message message = {.payload_bytes = 1, .called_tai_ns = 4711};
	struct ktsn_ring_taken taken;

	assert_false(ktsn_ring_traced(&pair->producer));
	ktsn_ring_trace_set(&pair->consumer, true);
	assert_true(ktsn_ring_traced(&pair->producer));
	for (int i = 0; i < 2; i++) {
		uint32_t slot;

		assert_int_equal(ring_pair_send(pair, &message, "x", &slot), 0);
		assert_int_equal(slot, 0);
		assert_int_equal(ktsn_ring_take(&pair->consumer, &taken), 1);
		assert_int_equal(taken.called_tai_ns, i == 0 ? 4711 : 0);
		ktsn_ring_release(&pair->consumer, taken.slot);
		message.called_tai_ns = 0;
	}
	ktsn_ring_trace_set(&pair->consumer, false);
	assert_false(ktsn_ring_traced(&pair->producer));
}

PAIR_TEST(slots_and_payload_are_rounded_up)
{
	struct ring_pair *pair = *state;
	struct ktsn_ring_memory memory;

	assert_int_equal(pair->memory.geometry.slot_count, SLOTS);
	assert_int_equal(pair->producer.payload_capacity_bytes, PAYLOAD_CAPACITY_BYTES);
	assert_int_equal(pair->consumer.payload_capacity_bytes, PAYLOAD_CAPACITY_BYTES);
	assert_int_equal(ktsn_ring_memory_create(&memory, ktsn_ring_geometry_make(65, 1)), 0);
	assert_int_equal(memory.geometry.slot_count, 128);
	assert_int_equal(memory.geometry.slot_bytes, 192);
	ktsn_ring_memory_destroy(&memory);
	assert_int_equal(ktsn_ring_memory_create(&memory, ktsn_ring_geometry_make(0, 1)), -EINVAL);
	assert_int_equal(
		ktsn_ring_memory_create(&memory, ktsn_ring_geometry_make(KTSN_RING_SLOTS_MAX + 1, 1)),
		-EINVAL);
	assert_int_equal(ktsn_ring_memory_create(&memory, ktsn_ring_geometry_make(KTSN_RING_SLOTS_MAX, 1)),
			 0);
	ktsn_ring_memory_destroy(&memory);
}

/* One field of a valid header replaced, and the producer's error. */
static const struct bad_header {
	const char *label;
	size_t offset, bytes;
	uint64_t value;
	int result;
} bad_headers[] = {
#define FIELD(name) offsetof(struct ktsn_ring_header, name), sizeof(((struct ktsn_ring_header *)0)->name)
	{"no magic", FIELD(magic), 0, -EPROTO},
	{"other magic", FIELD(magic), KTSN_RING_MAGIC + 1, -EPROTO},
	{"older version", FIELD(version), KTSN_RING_VERSION - 1, -EPROTONOSUPPORT},
	{"newer version", FIELD(version), KTSN_RING_VERSION + 1, -EPROTONOSUPPORT},
	{"no slots", FIELD(slot_count), 0, -EBADMSG},
	{"slots that fill no word", FIELD(slot_count), 100, -EBADMSG},
	{"more slots than memory", FIELD(slot_count), SLOTS + 64, -EBADMSG},
	{"more slots than bitmaps", FIELD(slot_count), KTSN_RING_SLOTS_MAX + 64, -EBADMSG},
	{"slots without payload", FIELD(slot_bytes), KTSN_RING_SLOT_HEADER_BYTES, -EBADMSG},
	{"slots of nothing", FIELD(slot_bytes), 0, -EBADMSG},
	{"slots beyond the memory", FIELD(slot_bytes), 512, -EBADMSG},
	{"slots of 4 GiB", FIELD(slot_bytes), UINT32_MAX - 63, -EBADMSG},
	{"slots in the header", FIELD(slots_offset), 64, -EBADMSG},
	{"slots behind the end", FIELD(slots_offset), UINT32_MAX - 63, -EBADMSG},
#undef FIELD
};

PAIR_TEST(bad_headers_are_refused)
{
	struct ring_pair *pair = *state;
	struct ktsn_ring_producer producer;

	for (size_t i = 0; i < sizeof(bad_headers) / sizeof(bad_headers[0]); i++) {
		const struct bad_header *bad = &bad_headers[i];
		uint8_t *field = (uint8_t *)pair->application + bad->offset;
		uint64_t good;
		int result;

		memcpy(&good, field, bad->bytes);
		memcpy(field, &bad->value, bad->bytes);
		result = ktsn_ring_producer_init(&producer, pair->application, pair->memory.bytes);
		if (result != bad->result)
			fail_msg("%s: %d, not %d", bad->label, result, bad->result);
		memcpy(field, &good, bad->bytes);
	}
	assert_int_equal(ktsn_ring_producer_init(&producer, pair->application, pair->memory.bytes), 0);
}

PAIR_TEST(small_memory_is_refused)
{
	struct ring_pair *pair = *state;
	struct ktsn_ring_producer producer;
	size_t header_bytes = sizeof(struct ktsn_ring_header);
	size_t laid_out_bytes = header_bytes + (size_t)SLOTS * pair->memory.geometry.slot_bytes;

	assert_int_equal(ktsn_ring_producer_init(&producer, pair->application, 0), -EPROTO);
	assert_int_equal(ktsn_ring_producer_init(&producer, pair->application, header_bytes - 1), -EPROTO);
	assert_int_equal(ktsn_ring_producer_init(&producer, pair->application, header_bytes), -EBADMSG);
	assert_int_equal(ktsn_ring_producer_init(&producer, pair->application, laid_out_bytes - 1), -EBADMSG);
}

PAIR_TEST(message_arrives_as_it_was_sent)
{
	struct ring_pair *pair = *state;
	uint32_t slot = send_text(pair, "hello", -7);
	struct ktsn_ring_taken taken = take_one(pair);

	assert_int_equal(taken.slot, slot);
	assert_int_equal(taken.flow, 3);
	assert_int_equal(taken.destination, 5);
	assert_int_equal(taken.payload_bytes, 5);
	assert_true(taken.txtime_ns == -7);
	assert_int_equal(taken.sequence, 0);
	assert_memory_equal(ktsn_ring_taken_payload(&pair->consumer, slot), "hello", 5);
	assert_nothing_to_take(pair);
	ktsn_ring_release(&pair->consumer, slot);
	assert_nothing_to_take(pair);
}

PAIR_TEST(messages_are_numbered_by_publication)
{
	struct ring_pair *pair = *state;

	for (uint64_t i = 0; i < 3 * SLOTS; i++) {
		struct ktsn_ring_taken taken;

		send_text(pair, "x", 0);
		taken = take_one(pair);
		assert_int_equal(taken.sequence, i);
		ktsn_ring_release(&pair->consumer, taken.slot);
	}
}

PAIR_TEST(smallest_and_largest_payload_fit)
{
	struct ring_pair *pair = *state;
	struct ktsn_ring_message message = {.payload_bytes = PAYLOAD_CAPACITY_BYTES};
	uint8_t payload[PAYLOAD_CAPACITY_BYTES];
	struct ktsn_ring_taken taken;

	for (int i = 0; i < PAYLOAD_CAPACITY_BYTES; i++)
		payload[i] = (uint8_t)(i * 7);
	assert_int_equal(ring_pair_send(pair, &message, payload, NULL), 0);
	taken = take_one(pair);
	assert_int_equal(taken.payload_bytes, PAYLOAD_CAPACITY_BYTES);
	assert_memory_equal(ktsn_ring_taken_payload(&pair->consumer, taken.slot), payload, sizeof(payload));

	message.payload_bytes = 0;
	assert_int_equal(ring_pair_send(pair, &message, payload, NULL), 0);
	assert_int_equal(take_one(pair).payload_bytes, 0);
}

PAIR_TEST(slot_states)
{
	struct ring_pair *pair = *state;
	const struct ktsn_ring_message message = {0};
	uint32_t slot;

	assert_int_equal(ktsn_ring_claim(&pair->producer, &slot), 0);
	assert_int_equal(ring_pair_state(pair, slot), KTSN_SLOT_WRITING);
	assert_false(ktsn_ring_ready(&pair->consumer));
	ktsn_ring_publish(&pair->producer, slot, &message);
	assert_int_equal(ring_pair_state(pair, slot), KTSN_SLOT_READY);
	assert_true(ktsn_ring_ready(&pair->consumer));
	assert_int_equal(take_one(pair).slot, slot);
	assert_int_equal(pair->consumer.held, 1);
	/* A successor of a killed ktsnd must find it again. */
	assert_int_equal(ring_pair_state(pair, slot), KTSN_SLOT_READY);
	ktsn_ring_depart(&pair->consumer, slot);
	assert_int_equal(ring_pair_state(pair, slot), KTSN_SLOT_DEPARTING);
	ktsn_ring_undepart(&pair->consumer, slot);
	assert_int_equal(ring_pair_state(pair, slot), KTSN_SLOT_READY);
	ktsn_ring_depart(&pair->consumer, slot);
	ktsn_ring_release(&pair->consumer, slot);
	assert_int_equal(ring_pair_state(pair, slot), KTSN_SLOT_FREE);
	assert_int_equal(pair->consumer.held, 0);
}

PAIR_TEST(full_ring_refuses)
{
	struct ring_pair *pair = *state;
	struct ktsn_ring_taken taken;
	uint32_t slot;

	fill(pair);
	assert_int_equal(ktsn_ring_claim(&pair->producer, &slot), -EAGAIN);
	taken = take_one(pair);
	/* Taking frees nothing: the message has not left. */
	assert_int_equal(ktsn_ring_claim(&pair->producer, &slot), -EAGAIN);
	ktsn_ring_release(&pair->consumer, taken.slot);
	assert_int_equal(ktsn_ring_claim(&pair->producer, &slot), 0);
	assert_int_equal(slot, taken.slot);
	assert_int_equal(ktsn_ring_claim(&pair->producer, &slot), -EAGAIN);
}

PAIR_TEST(slots_become_free_in_any_order)
{
	struct ring_pair *pair = *state;
	uint32_t slots[SLOTS], slot;

	fill(pair);
	for (int i = 0; i < SLOTS; i++)
		slots[i] = take_one(pair).slot;
	assert_nothing_to_take(pair);
	for (int i = 0; i < SLOTS; i++) {
		uint32_t odd_steps = slots[i * 37 % SLOTS];

		ktsn_ring_release(&pair->consumer, odd_steps);
		assert_int_equal(ktsn_ring_claim(&pair->producer, &slot), 0);
		assert_int_equal(slot, odd_steps);
	}
	assert_int_equal(pair->consumer.held, 0);
}

PAIR_TEST(untaken_message_is_taken_again)
{
	struct ring_pair *pair = *state;
	uint32_t slot = send_text(pair, "later", 9), other;
	struct ktsn_ring_taken taken = take_one(pair);

	ktsn_ring_untake(&pair->consumer, &taken);
	assert_int_equal(pair->consumer.held, 0);
	assert_true(ktsn_ring_ready(&pair->consumer));
	assert_int_equal(ring_pair_state(pair, slot), KTSN_SLOT_READY);
	taken = take_one(pair);
	assert_int_equal(taken.slot, slot);
	assert_true(taken.txtime_ns == 9);
	assert_nothing_to_take(pair);
	assert_false(ktsn_ring_ready(&pair->consumer));

	/* Putting a message back does not hide a message that is published meanwhile. */
	ktsn_ring_untake(&pair->consumer, &taken);
	other = send_text(pair, "new", 8);
	assert_int_equal(take_one(pair).slot, slot);
	assert_int_equal(take_one(pair).slot, other);
	assert_nothing_to_take(pair);
}

PAIR_TEST(doorbell_follows_the_threshold)
{
	struct ring_pair *pair = *state;
	struct ktsn_ring_producer *producer = &pair->producer;
	static const int64_t before_ns[KTSN_CLOCKS] = {
		[KTSN_CLOCK_REALTIME] = 1000, [KTSN_CLOCK_MONOTONIC] = -5, [KTSN_CLOCK_TAI] = INT64_MIN};

	/* Nobody waits at a new ring. */
	for (int clock = 0; clock < KTSN_CLOCKS; clock++)
		assert_true(ktsn_ring_doorbell_due(producer, (enum ktsn_clock)clock, INT64_MAX));
	ktsn_ring_doorbell_set(&pair->consumer, before_ns);
	assert_true(ktsn_ring_doorbell_due(producer, KTSN_CLOCK_REALTIME, 999));
	assert_false(ktsn_ring_doorbell_due(producer, KTSN_CLOCK_REALTIME, 1000));
	assert_true(ktsn_ring_doorbell_due(producer, KTSN_CLOCK_MONOTONIC, INT64_MIN));
	assert_false(ktsn_ring_doorbell_due(producer, KTSN_CLOCK_MONOTONIC, -5));
	assert_false(ktsn_ring_doorbell_due(producer, KTSN_CLOCK_TAI, INT64_MIN));
	assert_false(ktsn_ring_doorbell_due(producer, KTSN_CLOCK_TAI, INT64_MAX));
}

PAIR_TEST(waiting_sockets_are_notified_once)
{
	struct ring_pair *pair = *state;
	uint32_t slot;

	assert_false(ktsn_ring_space_polled(&pair->consumer));
	fill(pair);
	ktsn_ring_space_poll(&pair->producer, 3);
	ktsn_ring_space_poll(&pair->producer, 64);
	ktsn_ring_space_poll(&pair->producer, KTSN_RING_FLOWS);
	assert_int_equal(ktsn_ring_claim(&pair->producer, &slot), -EAGAIN);

	ktsn_ring_release(&pair->consumer, take_one(pair).slot);
	assert_true(ktsn_ring_space_polled(&pair->consumer));
	assert_int_equal(ktsn_ring_space_pollers(&pair->consumer, 0), 1 << 3);
	assert_int_equal(ktsn_ring_space_pollers(&pair->consumer, 1), 1);
	assert_int_equal(ktsn_ring_claim(&pair->producer, &slot), 0);
	assert_false(ktsn_ring_space_polled(&pair->consumer));
	assert_int_equal(ktsn_ring_space_pollers(&pair->consumer, 0), 0);
}

/* A ktsnd that was killed, and its successor. */
PAIR_TEST(successor_finds_ready_messages)
{
	struct ring_pair *pair = *state;
	struct ktsn_ring_header *header = pair->application;
	uint32_t held = send_text(pair, "held", 1), departing = send_text(pair, "departing", 2), fresh,
		 writing;
	struct ktsn_ring_taken taken;
	uint64_t returned;

	take_one(pair);
	take_one(pair);
	ktsn_ring_depart(&pair->consumer, departing);
	fresh = send_text(pair, "fresh", 3);
	assert_int_equal(ktsn_ring_claim(&pair->producer, &writing), 0);
	/* Killed before it could announce slots that it had freed. */
	atomic_store(&header->free[1], 0);

	ktsn_ring_consumer_init(&pair->consumer, pair->memory.address, pair->memory.geometry.slot_count,
				pair->memory.geometry.slot_bytes);
	returned = atomic_load(&header->released_bytes[3]);
	assert_int_equal(ktsn_ring_recover(&pair->consumer), 1);
	assert_int_equal(ring_pair_state(pair, departing), KTSN_SLOT_FREE);
	/* Its socket may send as much again: reports of other sockets are not returned. */
	assert_int_equal(atomic_load(&header->released_bytes[3]) - returned,
			 ktsn_ring_charge_bytes(strlen("departing")));
	assert_int_equal(take_one(pair).slot, held);
	assert_int_equal(take_one(pair).slot, fresh);
	/* The bit of `fresh`, which was not fetched yet, is no second message. */
	assert_nothing_to_take(pair);
	ktsn_ring_publish(&pair->producer, writing, &(struct ktsn_ring_message){.txtime_ns = 4});
	taken = take_one(pair);
	assert_int_equal(taken.slot, writing);
	assert_true(taken.txtime_ns == 4);
	for (int i = 0; i < SLOTS - 3; i++)
		send_text(pair, "x", 5);
	assert_int_equal(ktsn_ring_claim(&pair->producer, &writing), -EAGAIN);
}

/* Between the two steps of a publication: the slot is READY, but its bit is not set yet. */
PAIR_TEST(concurrent_publication_is_taken_once)
{
	struct ring_pair *pair = *state;
	uint32_t slot = send_text(pair, "once", 1);
	uint64_t bit = atomic_exchange(&pair->application->ready[slot / 64], 0);

	assert_int_equal(ktsn_ring_recover(&pair->consumer), 0);
	assert_int_equal(take_one(pair).slot, slot);
	ktsn_ring_release(&pair->consumer, slot);
	atomic_fetch_or(&pair->application->ready[slot / 64], bit);
	atomic_fetch_or(&pair->application->ready_summary, 1);
	assert_nothing_to_take(pair);
}

/* All claimed slots can be given back, and space is reported when the requested number is free. */
PAIR_TEST(unused_slots_are_returned)
{
	struct ring_pair *pair = *state;
	uint32_t slots[KTSN_RING_WORD_BITS], count = pair->producer.slot_count;

	assert_true(ktsn_ring_has_space(&pair->producer, count));
	assert_false(ktsn_ring_has_space(&pair->producer, count + 1));
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(ktsn_ring_claim(&pair->producer, &slots[i]), 0);
	assert_true(ktsn_ring_has_space(&pair->producer, count - 3));
	assert_false(ktsn_ring_has_space(&pair->producer, count - 2));
	for (uint32_t i = 0; i < 3; i++)
		ktsn_ring_unclaim(&pair->producer, slots[i]);
	assert_true(ktsn_ring_has_space(&pair->producer, count));
	assert_nothing_to_take(pair);
	fill(pair);
	assert_false(ktsn_ring_has_space(&pair->producer, 1));
}

PAIR_TEST(message_of_frames_has_its_attributes)
{
	struct ring_pair *pair = *state;
	const struct ktsn_ring_message message = {.ethertype_be = 0x1234, .priority = 0xf6};
	struct ktsn_ring_taken taken;

	assert_int_equal(ring_pair_send(pair, &message, "", NULL), 0);
	taken = take_one(pair);
	assert_int_equal(taken.ethertype_be, 0x1234);
	assert_int_equal(taken.priority, 6);
}
