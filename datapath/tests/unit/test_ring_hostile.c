/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer with an application that writes anything. Whatever the memory contains: no slot is held twice,
 * none beyond the ring is touched (the sanitizers watch), and every taken payload fits its slot.
 */
#include "ring_pair.h"
#include "test_random.h"

#include <stdbool.h>

#include "unit_test.h"

enum { SLOTS = 128, PAYLOAD_CAPACITY_BYTES = 128, ROUNDS = 20000 };

static int set_up(void **state)
{
	return ring_pair_set_up(state, SLOTS, PAYLOAD_CAPACITY_BYTES);
}

static uint32_t send_empty(struct ring_pair *pair)
{
	const struct ktsn_ring_message message = {0};
	uint32_t slot = UINT32_MAX;

	assert_int_equal(ring_pair_send(pair, &message, "", &slot), 0);
	return slot;
}

static void ready_set(struct ring_pair *pair, uint32_t slot)
{
	atomic_fetch_or(&pair->application->ready[slot / 64], UINT64_C(1) << slot % 64);
	atomic_fetch_or(&pair->application->ready_summary, UINT64_C(1) << slot / 64);
}

static void assert_taken(struct ring_pair *pair, int result, uint32_t slot)
{
	struct ktsn_ring_taken taken;

	assert_int_equal(ktsn_ring_take(&pair->consumer, &taken), result);
	assert_int_equal(taken.slot, slot);
}

static void assert_nothing_to_take(struct ring_pair *pair)
{
	struct ktsn_ring_taken taken;

	assert_int_equal(ktsn_ring_take(&pair->consumer, &taken), 0);
	assert_false(ktsn_ring_ready(&pair->consumer));
}

#define PAIR_TEST(name) TEST_WITH(name, set_up, ring_pair_tear_down)

/* The bits only show where to look; the state decides. */
PAIR_TEST(unpublished_slot_is_ignored)
{
	struct ring_pair *pair = *state;
	uint32_t slot;

	ready_set(pair, 77);
	assert_nothing_to_take(pair);
	assert_int_equal(pair->consumer.held, 0);
	assert_int_equal(ring_pair_state(pair, 77), KTSN_SLOT_FREE);
	/* The producer does not lose it either. */
	do
		assert_int_equal(ktsn_ring_claim(&pair->producer, &slot), 0);
	while (slot != 77);
}

PAIR_TEST(any_state_but_ready_is_ignored)
{
	static const uint32_t states[] = {KTSN_SLOT_FREE, KTSN_SLOT_WRITING, KTSN_SLOT_DEPARTING, 4,
					  UINT32_MAX};
	struct ring_pair *pair = *state;

	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		uint32_t slot = send_empty(pair);

		atomic_store(&ring_pair_slot(pair, slot)->state, states[i]);
		assert_nothing_to_take(pair);
		assert_int_equal(pair->consumer.held, 0);
		/* It is a message when both agree. */
		atomic_store(&ring_pair_slot(pair, slot)->state, KTSN_SLOT_READY);
		assert_nothing_to_take(pair);
		ready_set(pair, slot);
		assert_taken(pair, 1, slot);
		ktsn_ring_release(&pair->consumer, slot);
	}
}

PAIR_TEST(overlong_payload_is_bad)
{
	static const uint32_t sizes[] = {PAYLOAD_CAPACITY_BYTES + 1, 65536, INT32_MAX, UINT32_MAX};
	struct ring_pair *pair = *state;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t slot = send_empty(pair);

		ring_pair_slot(pair, slot)->payload_bytes = sizes[i];
		assert_taken(pair, -EBADMSG, slot);
		ktsn_ring_release(&pair->consumer, slot);
	}
}

PAIR_TEST(bits_beyond_the_ring_are_ignored)
{
	struct ring_pair *pair = *state;

	for (int w = SLOTS / 64; w < KTSN_RING_WORDS; w++)
		atomic_store(&pair->application->ready[w], UINT64_MAX);
	atomic_store(&pair->application->ready_summary, UINT64_MAX);
	assert_true(ktsn_ring_ready(&pair->consumer));
	assert_nothing_to_take(pair);
	assert_int_equal(pair->consumer.held, 0);

	/* A valid message is found among them. */
	atomic_store(&pair->application->ready_summary, ~UINT64_C(3));
	assert_taken(pair, 1, send_empty(pair));
	assert_nothing_to_take(pair);
}

PAIR_TEST(summary_without_bits_is_harmless)
{
	struct ring_pair *pair = *state;

	atomic_store(&pair->application->ready_summary, UINT64_MAX);
	assert_nothing_to_take(pair);
}

PAIR_TEST(held_slot_is_not_taken_again)
{
	struct ring_pair *pair = *state;
	uint32_t slot = send_empty(pair);

	assert_taken(pair, 1, slot);
	ready_set(pair, slot);
	assert_nothing_to_take(pair);
	ktsn_ring_depart(&pair->consumer, slot);
	ready_set(pair, slot);
	assert_nothing_to_take(pair);
	ktsn_ring_release(&pair->consumer, slot);
	/* The bits were false: no message had come. */
	assert_nothing_to_take(pair);
}

PAIR_TEST(republished_message_is_one_message)
{
	struct ring_pair *pair = *state;
	uint32_t slot = send_empty(pair);
	struct ktsn_ring_taken taken;

	assert_int_equal(ktsn_ring_take(&pair->consumer, &taken), 1);
	ktsn_ring_untake(&pair->consumer, &taken);
	ready_set(pair, slot);
	assert_taken(pair, 1, slot);
	assert_nothing_to_take(pair);
	assert_int_equal(pair->consumer.held, 1);
}

/* The application may overwrite the header; the consumer uses its own copy. */
PAIR_TEST(overwritten_header_moves_no_slot)
{
	struct ring_pair *pair = *state;
	uint32_t slot = send_empty(pair);
	struct ktsn_ring_taken taken;

	memset(ring_pair_slot(pair, slot)->payload, 'p', 16);
	ring_pair_slot(pair, slot)->payload_bytes = 16;
	pair->application->magic = 0;
	pair->application->slot_count = UINT32_MAX;
	pair->application->slot_bytes = UINT32_MAX;
	pair->application->slots_offset = UINT32_MAX;
	pair->application->total_bytes = 0;
	assert_int_equal(ktsn_ring_take(&pair->consumer, &taken), 1);
	assert_int_equal(taken.slot, slot);
	assert_memory_equal(ktsn_ring_taken_payload(&pair->consumer, slot), "pppppppppppppppp", 16);
	ktsn_ring_release(&pair->consumer, slot);
}

PAIR_TEST(free_bits_of_held_slots_are_ignored)
{
	struct ring_pair *pair = *state;
	uint32_t slot = send_empty(pair), other;

	assert_taken(pair, 1, slot);
	atomic_store(&pair->application->free[slot / 64], UINT64_MAX);
	assert_int_equal(ktsn_ring_claim(&pair->producer, &other), 0);
	assert_int_not_equal(other, slot);
	/* The application harms only itself: it writes into a message that is under way, which is not
	 * taken. */
	ktsn_ring_publish(&pair->producer, slot, &(struct ktsn_ring_message){0});
	assert_nothing_to_take(pair);
	assert_int_equal(pair->consumer.held, 1);
}

/* Bits without messages are set again and again: each look into the ring ends all the same. */
PAIR_TEST(each_look_ends)
{
	struct ring_pair *pair = *state;
	struct ktsn_ring_taken taken;

	for (int i = 0; i < 1000; i++) {
		for (uint32_t slot = 0; slot < SLOTS; slot++)
			ready_set(pair, slot);
		assert_true(ktsn_ring_take(&pair->consumer, &taken) <= 0);
	}
	assert_int_equal(pair->consumer.held, 0);
}

/* Each costs a read of uncached memory: the caller has to look at the clock in between. */
PAIR_TEST(false_bits_are_read_in_batches)
{
	struct ring_pair *pair = *state;
	struct ktsn_ring_taken taken;
	uint32_t looks = 0;

	for (uint32_t slot = 0; slot < SLOTS; slot++)
		ready_set(pair, slot);
	while (ktsn_ring_take(&pair->consumer, &taken) == -EAGAIN)
		looks++;
	assert_true(looks >= SLOTS / 8 - 1);
	assert_nothing_to_take(pair);
	assert_int_equal(pair->consumer.held, 0);
}

/* The slots that the test holds, tracked independently of the consumer. */
struct book {
	bool held[SLOTS];
	struct ktsn_ring_taken messages[SLOTS];
	uint32_t count;
	uint32_t good, bad; /* number of taken messages */
};

static void vandalize(struct ring_pair *pair, struct test_random *random)
{
	uint8_t *bytes = (uint8_t *)pair->application;
	size_t offset = test_random_below(random, pair->memory.bytes / 8) * 8;
	uint64_t value = test_random_next(random);

	if (test_random_below(random, 2))
		ready_set(pair, (uint32_t)test_random_below(random, 2 * SLOTS));
	if (test_random_below(random, 4) == 0)
		atomic_store(&ring_pair_slot(pair, (uint32_t)test_random_below(random, SLOTS))->state,
			     KTSN_SLOT_READY);
	memcpy(bytes + offset, &value, sizeof(value));
}

static void take_and_check(struct ring_pair *pair, struct book *book)
{
	struct ktsn_ring_taken taken;
	int result = ktsn_ring_take(&pair->consumer, &taken);

	if (result == 0 || result == -EAGAIN)
		return;
	assert_true(taken.slot < SLOTS);
	assert_false(book->held[taken.slot]);
	assert_true(result > 0 || result == -EBADMSG);
	if (result > 0)
		assert_true(taken.payload_bytes <= PAYLOAD_CAPACITY_BYTES);
	book->good += result > 0;
	book->bad += result < 0;
	book->held[taken.slot] = true;
	book->messages[book->count++] = taken;
}

static void give_back(struct ring_pair *pair, struct book *book, struct test_random *random)
{
	uint32_t place = (uint32_t)test_random_below(random, book->count);
	struct ktsn_ring_taken taken = book->messages[place];

	book->messages[place] = book->messages[--book->count];
	book->held[taken.slot] = false;
	if (test_random_below(random, 4))
		ktsn_ring_release(&pair->consumer, taken.slot);
	else
		ktsn_ring_untake(&pair->consumer, &taken);
}

PAIR_TEST(random_writes_keep_the_accounting)
{
	struct test_random random = test_random_seeded("consumer against random writes");
	struct ring_pair *pair = *state;
	struct book book = {.count = 0};

	for (int round = 0; round < ROUNDS; round++) {
		vandalize(pair, &random);
		if (test_random_below(&random, 4))
			take_and_check(pair, &book);
		else if (book.count)
			give_back(pair, &book, &random);
		assert_int_equal(pair->consumer.held, book.count);
	}
	assert_true(book.good > 100 && book.bad > 100);
}

/* The application may overwrite the word that shows how full the ring is: the producer harms only itself. */
PAIR_TEST(slots_beyond_the_ring_are_not_claimed)
{
	struct ring_pair *pair = *state;
	uint32_t slot;

	for (int w = 0; w < KTSN_RING_WORDS; w++)
		atomic_store(&pair->application->free[w], w < SLOTS / 64 ? 0 : UINT64_MAX);
	assert_int_equal(ktsn_ring_claim(&pair->producer, &slot), -EAGAIN);
}
