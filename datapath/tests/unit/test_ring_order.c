/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages are taken in the order in which they were handed over, whichever slots they are in and however few
 * are taken at a time.
 */
#include "ring_pair.h"
#include "test_random.h"

#include <stdbool.h>
#include <stdlib.h>

#include "unit_test.h"

enum { SLOTS = 512, ROUNDS = 200, PAYLOAD_BYTES = 8 };

static int set_up(void **state)
{
	return ring_pair_set_up(state, SLOTS, PAYLOAD_BYTES);
}

/* ---- the order alone ---- */

struct entry {
	uint64_t sequence;
	uint32_t slot;
};

/* The smallest sequence first; for equal sequences the smallest slot. */
static int entry_compare(const void *a, const void *b)
{
	const struct entry *first = a, *second = b;

	if (first->sequence != second->sequence)
		return first->sequence < second->sequence ? -1 : 1;
	return first->slot < second->slot ? -1 : first->slot > second->slot;
}

static void shuffle(uint32_t *slots, uint32_t count, struct test_random *random)
{
	for (uint32_t i = 0; i < count; i++)
		slots[i] = i;
	for (uint32_t i = count; i > 1; i--) {
		uint32_t other = (uint32_t)test_random_below(random, i), slot = slots[other];

		slots[other] = slots[i - 1];
		slots[i - 1] = slot;
	}
}

/* Adds all slots of a ring and takes some out in between. The smaller `limit` of the sequences, the more
 * are equal. */
static void order_check(struct ktsn_ring_order *order, uint32_t slot_count, uint64_t limit,
			struct test_random *random)
{
	struct entry *held = calloc(slot_count, sizeof(*held)), taken;
	uint32_t *slots = calloc(slot_count, sizeof(*slots)), count = 0, added = 0;

	assert_non_null(held);
	assert_non_null(slots);
	shuffle(slots, slot_count, random);
	while (added < slot_count || count) {
		if (added < slot_count && test_random_below(random, 3)) {
			held[count] = (struct entry){test_random_below(random, limit), slots[added++]};
			ktsn_ring_order_add(order, held[count].sequence, held[count].slot);
			count++;
			qsort(held, count, sizeof(*held), entry_compare);
			continue;
		}
		assert_true(ktsn_ring_order_any(order) == (count > 0));
		if (!ktsn_ring_order_take(order, &taken.sequence, &taken.slot)) {
			assert_int_equal(count, 0);
			continue;
		}
		assert_true(count > 0);
		assert_int_equal(entry_compare(&taken, &held[0]), 0);
		memmove(held, held + 1, --count * sizeof(*held));
	}
	assert_false(ktsn_ring_order_any(order));
	free(slots);
	free(held);
}

TEST(smallest_sequence_comes_out_first)
{
	static const uint64_t limits[] = {1, 3, SLOTS, UINT64_C(1) << 52};
	struct test_random random = test_random_seeded("order of slots");
	struct ktsn_ring_order *order = malloc(sizeof(*order));

	assert_non_null(order);
	for (uint32_t slot_count = 64; slot_count <= SLOTS; slot_count *= 2) {
		ktsn_ring_order_init(order, slot_count);
		for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
			order_check(order, slot_count, limits[i], &random);
	}
	free(order);
}

/* The largest ring, and around the end of its positions. */
TEST(ordered_slots_stay_ordered)
{
	struct ktsn_ring_order *order = malloc(sizeof(*order));
	uint64_t sequence = 0, expected = 0, taken;
	uint32_t slot;

	assert_non_null(order);
	ktsn_ring_order_init(order, KTSN_RING_SLOTS_MAX);
	for (; sequence < KTSN_RING_SLOTS_MAX; sequence++)
		ktsn_ring_order_add(order, sequence, (uint32_t)sequence);
	for (int i = 0; i < 3 * KTSN_RING_SLOTS_MAX; i++, expected++, sequence++) {
		assert_true(ktsn_ring_order_take(order, &taken, &slot));
		assert_int_equal(taken, expected);
		assert_int_equal(slot, expected % KTSN_RING_SLOTS_MAX);
		ktsn_ring_order_add(order, sequence, slot);
	}
	assert_int_equal(order->heap_count, 0);
	free(order);
}

/* ---- the ring ---- */

static void send_one(struct ring_pair *pair)
{
	const struct ktsn_ring_message message = {.payload_bytes = 1};

	assert_int_equal(ring_pair_send(pair, &message, "x", NULL), 0);
}

/* All slots are claimed, and published in any order. */
static void fill_shuffled(struct ring_pair *pair, struct test_random *random)
{
	const struct ktsn_ring_message message = {.payload_bytes = 1};
	uint32_t slots[SLOTS], slot;

	for (uint32_t i = 0; i < SLOTS; i++)
		assert_int_equal(ktsn_ring_claim(&pair->producer, &slot), 0);
	shuffle(slots, SLOTS, random);
	for (uint32_t i = 0; i < SLOTS; i++)
		ktsn_ring_publish(&pair->producer, slots[i], &message);
}

/* As by a thread that is interrupted or ends between taking its number and publishing its message. */
static void sequence_lose(struct ring_pair *pair)
{
	atomic_fetch_add(&pair->application->next_sequence, 1);
}

static struct ktsn_ring_taken take_one(struct ring_pair *pair, uint64_t sequence)
{
	struct ktsn_ring_taken taken;

	assert_int_equal(ring_pair_take(pair, &taken), 1);
	assert_int_equal(taken.sequence, sequence);
	return taken;
}

static void assert_nothing_to_take(struct ring_pair *pair)
{
	struct ktsn_ring_taken taken;

	assert_int_equal(ring_pair_take(pair, &taken), 0);
	assert_false(ktsn_ring_ready(&pair->consumer));
	assert_int_equal(pair->consumer.held, 0);
}

#define PAIR_TEST(name) TEST_WITH(name, set_up, ring_pair_tear_down)

/* A new message gets the lowest free slot, below older ones: as many arrive as leave. */
PAIR_TEST(batches_keep_the_publication_order)
{
	struct test_random random = test_random_seeded("messages a few at a time");
	struct ring_pair *pair = *state;
	uint64_t expected = 0, sent = 0;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t more = test_random_below(&random, SLOTS), fewer = test_random_below(&random, SLOTS);

		for (; more && sent - expected < SLOTS; more--, sent++)
			send_one(pair);
		for (; fewer && expected < sent; fewer--)
			ktsn_ring_release(&pair->consumer, take_one(pair, expected++).slot);
	}
	while (expected < sent)
		ktsn_ring_release(&pair->consumer, take_one(pair, expected++).slot);
	assert_nothing_to_take(pair);
}

/* The caller looks at the clock in between. */
PAIR_TEST(full_ring_is_sorted_in_batches)
{
	struct test_random random = test_random_seeded("full ring");
	struct ring_pair *pair = *state;
	struct ktsn_ring_taken taken;
	uint32_t calls = 0;

	sequence_lose(pair);
	fill_shuffled(pair, &random);
	while (ktsn_ring_take(&pair->consumer, &taken) == -EAGAIN)
		calls++;
	assert_true(calls >= SLOTS / 8 - 1 && calls <= SLOTS);
	assert_int_equal(taken.sequence, 1);
	ktsn_ring_release(&pair->consumer, taken.slot);
	for (uint64_t i = 2; i <= SLOTS; i++) {
		assert_int_equal(ktsn_ring_take(&pair->consumer, &taken), 1);
		assert_int_equal(taken.sequence, i);
		ktsn_ring_release(&pair->consumer, taken.slot);
	}
	assert_nothing_to_take(pair);
}

/* Independent of other ready messages. */
PAIR_TEST(next_message_is_found_in_one_call)
{
	struct ring_pair *pair = *state;
	struct ktsn_ring_taken taken;

	for (int i = 0; i < SLOTS; i++)
		send_one(pair);
	for (uint64_t i = 0; i < SLOTS; i++) {
		assert_int_equal(ktsn_ring_take(&pair->consumer, &taken), 1);
		assert_int_equal(taken.sequence, i);
		ktsn_ring_release(&pair->consumer, taken.slot);
	}
	assert_nothing_to_take(pair);
}

/* A thread has a number and has not published its message yet: others are not delayed. Once it has, no
 * later message is taken before it. */
PAIR_TEST(late_publication_is_next)
{
	struct test_random random = test_random_seeded("late message");
	struct ring_pair *pair = *state;
	uint32_t late;

	assert_int_equal(ktsn_ring_claim(&pair->producer, &late), 0);
	sequence_lose(pair);
	for (uint64_t round = 0; round < 20; round++) {
		for (int i = 0; i < SLOTS / 2; i++)
			send_one(pair);
		for (uint64_t i = 0; i < SLOTS / 2; i++)
			ktsn_ring_release(&pair->consumer, take_one(pair, 1 + round * SLOTS / 2 + i).slot);
		if (test_random_below(&random, 2))
			assert_nothing_to_take(pair);
	}
	ktsn_ring_publish(&pair->producer, late, &(struct ktsn_ring_message){0});
	ring_pair_slot(pair, late)->sequence = 0;
	send_one(pair);
	ktsn_ring_release(&pair->consumer, take_one(pair, 0).slot);
	ktsn_ring_release(&pair->consumer, take_one(pair, 20 * SLOTS / 2 + 2).slot);
	assert_nothing_to_take(pair);
}

/* A single message is found by one call. */
PAIR_TEST(single_message_is_found_in_one_call)
{
	struct ring_pair *pair = *state;
	struct ktsn_ring_taken taken;

	for (uint64_t i = 0; i < 2 * SLOTS; i++) {
		send_one(pair);
		assert_int_equal(ktsn_ring_take(&pair->consumer, &taken), 1);
		assert_int_equal(taken.sequence, i);
		ktsn_ring_release(&pair->consumer, taken.slot);
	}
	assert_nothing_to_take(pair);
}

/* Also the last message, and together with others that arrived meanwhile. */
PAIR_TEST(untaken_message_precedes_later_ones)
{
	struct test_random random = test_random_seeded("messages put back");
	struct ring_pair *pair = *state;
	uint64_t expected = 0, sent = SLOTS;

	fill_shuffled(pair, &random);
	while (expected < sent) {
		struct ktsn_ring_taken taken = take_one(pair, expected);

		if (test_random_below(&random, 2)) {
			ktsn_ring_untake(&pair->consumer, &taken);
			continue;
		}
		ktsn_ring_release(&pair->consumer, taken.slot);
		expected++;
		if (sent < 4 * SLOTS && test_random_below(&random, 10)) {
			send_one(pair);
			sent++;
		}
	}
	assert_nothing_to_take(pair);
}

/* Bits of slots that never contain a message. A bit of a slot that is used later may be false about the
 * order. */
static void bits_set(struct ring_pair *pair)
{
	for (uint32_t w = SLOTS / 2 / KTSN_RING_WORD_BITS; w < SLOTS / KTSN_RING_WORD_BITS; w++)
		atomic_store(&pair->application->ready[w], UINT64_MAX);
	atomic_store(&pair->application->ready_summary, UINT64_MAX);
}

PAIR_TEST(false_bits_keep_the_order)
{
	struct test_random random = test_random_seeded("lies");
	struct ring_pair *pair = *state;
	uint64_t expected = 0, sent = 0;
	uint32_t held = UINT32_MAX;

	while (sent < 4 * SLOTS) {
		for (uint64_t more = test_random_below(&random, 20); more && sent - expected < SLOTS / 2 - 1;
		     more--) {
			send_one(pair);
			sent++;
		}
		bits_set(pair);
		for (uint64_t fewer = test_random_below(&random, 20); fewer && expected < sent; fewer--) {
			uint32_t slot = take_one(pair, expected++).slot;

			if (held != UINT32_MAX)
				ktsn_ring_release(&pair->consumer, held);
			held = slot;
		}
	}
	while (expected < sent)
		ktsn_ring_release(&pair->consumer, take_one(pair, expected++).slot);
	ktsn_ring_release(&pair->consumer, held);
	assert_nothing_to_take(pair);
}

/* The application takes them back after they were put in order. */
PAIR_TEST(withdrawn_slots_are_skipped)
{
	struct test_random random = test_random_seeded("slots taken back");
	struct ring_pair *pair = *state;
	uint32_t slots[SLOTS];

	fill_shuffled(pair, &random);
	ktsn_ring_release(&pair->consumer, take_one(pair, 0).slot);
	for (uint32_t slot = 0; slot < SLOTS; slot++)
		slots[ring_pair_slot(pair, slot)->sequence] = slot;
	for (uint32_t i = 1; i < SLOTS; i += 2)
		atomic_store(&ring_pair_slot(pair, slots[i])->state, KTSN_SLOT_WRITING);
	for (uint32_t i = 2; i < SLOTS; i += 2)
		ktsn_ring_release(&pair->consumer, take_one(pair, i).slot);
	assert_nothing_to_take(pair);
	/* They are messages again when they are published again. */
	for (uint32_t i = 1; i < SLOTS; i += 2)
		ktsn_ring_publish(&pair->producer, slots[i], &(struct ktsn_ring_message){0});
	for (uint32_t i = 0; i < SLOTS / 2; i++)
		ktsn_ring_release(&pair->consumer, take_one(pair, SLOTS + i).slot);
	assert_nothing_to_take(pair);
}

/* All sequences equal, or random. */
PAIR_TEST(any_sequence_loses_no_message)
{
	struct test_random random = test_random_seeded("sequences of any value");
	struct ring_pair *pair = *state;
	struct ktsn_ring_taken taken;

	for (int round = 0; round < 4; round++) {
		fill_shuffled(pair, &random);
		for (uint32_t slot = 0; slot < SLOTS; slot++)
			ring_pair_slot(pair, slot)->sequence = round ? test_random_next(&random) : UINT64_MAX;
		for (int i = 0; i < SLOTS; i++) {
			assert_int_equal(ring_pair_take(pair, &taken), 1);
			ktsn_ring_release(&pair->consumer, taken.slot);
		}
		assert_nothing_to_take(pair);
	}
}

PAIR_TEST(successor_keeps_the_order)
{
	struct test_random random = test_random_seeded("successor");
	struct ring_pair *pair = *state;
	struct ktsn_ring_taken taken;

	fill_shuffled(pair, &random);
	for (uint64_t i = 0; i < 10; i++)
		ktsn_ring_release(&pair->consumer, take_one(pair, i).slot);
	/* The messages that the first holds, put in order but not seen yet. */
	(void)take_one(pair, 10);
	for (int i = 0; i < 5; i++)
		send_one(pair);
	ktsn_ring_consumer_init(&pair->consumer, pair->memory.address, pair->memory.geometry.slot_count,
				pair->memory.geometry.slot_bytes);
	assert_int_equal(ktsn_ring_recover(&pair->consumer), 0);
	/* And those that arrived since. */
	for (int i = 0; i < 5; i++)
		send_one(pair);
	for (uint64_t i = 10; i < SLOTS + 10; i++) {
		taken = take_one(pair, i);
		assert_true(taken.recovered == (i < SLOTS + 5));
		ktsn_ring_release(&pair->consumer, taken.slot);
	}
	assert_nothing_to_take(pair);
}

static void ring_succeed(struct ring_pair *pair)
{
	ktsn_ring_consumer_init(&pair->consumer, pair->memory.address, pair->memory.geometry.slot_count,
				pair->memory.geometry.slot_bytes);
	assert_int_equal(ktsn_ring_recover(&pair->consumer), 0);
}

/* Each by one call, independent of other ready messages. */
static void assert_next_found_at_once(struct ring_pair *pair, uint64_t first)
{
	struct ktsn_ring_taken taken;

	for (int i = 0; i < SLOTS / 2; i++)
		send_one(pair);
	for (uint64_t i = 0; i < SLOTS / 2; i++) {
		assert_int_equal(ktsn_ring_take(&pair->consumer, &taken), 1);
		assert_int_equal(taken.sequence, first + i);
		ktsn_ring_release(&pair->consumer, taken.slot);
	}
}

/* Messages that its predecessor took are not waited for. */
PAIR_TEST(successor_finds_the_next_message)
{
	struct test_random random = test_random_seeded("successor");
	struct ring_pair *pair = *state;

	fill_shuffled(pair, &random);
	for (uint64_t i = 0; i < 10; i++)
		ktsn_ring_release(&pair->consumer, take_one(pair, i).slot);
	/* Like a message that its predecessor took from somewhere. */
	sequence_lose(pair);
	ring_succeed(pair);
	send_one(pair);
	for (uint64_t i = 10; i < SLOTS; i++)
		ktsn_ring_release(&pair->consumer, take_one(pair, i).slot);
	ktsn_ring_release(&pair->consumer, take_one(pair, SLOTS + 1).slot);
	assert_next_found_at_once(pair, SLOTS + 2);
	ring_succeed(pair);
	assert_next_found_at_once(pair, SLOTS + 2 + SLOTS / 2);
	assert_nothing_to_take(pair);
}

/* A thread has a number when the ring is handed over, and publishes its message later, before another one
 * of its own in a lower slot. A second thread has no number yet. */
PAIR_TEST(successor_orders_unfinished_messages)
{
	struct ring_pair *pair = *state;
	uint32_t low, late, numberless;

	assert_int_equal(ktsn_ring_claim(&pair->producer, &low), 0);
	assert_int_equal(ktsn_ring_claim(&pair->producer, &late), 0);
	assert_int_equal(ktsn_ring_claim(&pair->producer, &numberless), 0);
	assert_true(low < late);
	ktsn_ring_unclaim(&pair->producer, low);
	sequence_lose(pair);
	ring_succeed(pair);
	send_one(pair);
	ktsn_ring_release(&pair->consumer, take_one(pair, 1).slot);
	ktsn_ring_publish(&pair->producer, late, &(struct ktsn_ring_message){0});
	ring_pair_slot(pair, late)->sequence = 0;
	atomic_fetch_sub(&pair->application->next_sequence, 1);
	send_one(pair);
	ktsn_ring_release(&pair->consumer, take_one(pair, 0).slot);
	ktsn_ring_release(&pair->consumer, take_one(pair, 2).slot);
	/* The third message may have such a number as well. */
	assert_int_equal(pair->consumer.order.missing, 1);
	ktsn_ring_publish(&pair->producer, numberless, &(struct ktsn_ring_message){0});
	ktsn_ring_release(&pair->consumer, take_one(pair, 3).slot);
	assert_next_found_at_once(pair, 4);
	assert_nothing_to_take(pair);
}
