/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay's limits: its table of destinations, its memory of refusals, the rate of requests, and the frames
 * that wait.
 */
#include "backlog.h"
#include "refusals.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test_random.h"

#include "unit_test.h"

static struct destinations table;

static struct destination_key key_of(uint32_t number)
{
	struct destination_key key = {.flow = number % 3};

	memcpy(key.addresses, &number, sizeof(number));
	return key;
}

static struct destination *add(uint32_t number)
{
	const struct destination_key key = key_of(number);
	struct destination *destination = destinations_add(&table, &key);

	if (destination)
		destination->number = number;
	return destination;
}

static struct destination *find(uint32_t number)
{
	const struct destination_key key = key_of(number);

	return destinations_find(&table, &key);
}

TEST(added_destination_is_found)
{
	struct destination_key of_another_flow = key_of(7);

	destinations_init(&table, 1);
	assert_null(find(7));
	assert_non_null(add(7));
	assert_int_equal(find(7)->number, 7);
	of_another_flow.flow++;
	assert_null(destinations_find(&table, &of_another_flow));
	destinations_remove(&table, find(7));
	assert_null(find(7));
	assert_int_equal(table.count, 0);
	assert_null(destinations_next_used(&table, NULL));
}

TEST(full_table_refuses)
{
	destinations_init(&table, 2);
	for (uint32_t i = 0; i < DESTINATIONS_MAX; i++)
		assert_non_null(add(i));
	assert_null(add(DESTINATIONS_MAX));
	assert_int_equal(table.count, DESTINATIONS_MAX);
	for (uint32_t i = 0; i < DESTINATIONS_MAX; i++)
		assert_int_equal(find(i)->number, i);
}

TEST(least_recently_used_is_first)
{
	struct destination *at;

	destinations_init(&table, 3);
	for (uint32_t i = 0; i < 4; i++)
		add(i);
	find(0);
	find(2);
	find(2);
	at = destinations_next_used(&table, NULL);
	assert_int_equal(at->number, 1);
	at = destinations_next_used(&table, at);
	assert_int_equal(at->number, 3);
	at = destinations_next_used(&table, at);
	assert_int_equal(at->number, 0);
	at = destinations_next_used(&table, at);
	assert_int_equal(at->number, 2);
	assert_null(destinations_next_used(&table, at));
}

/* Compared with the simplest table: the time of each number's last use. */
TEST(order_of_use_is_kept)
{
	enum { NUMBERS = 2000, STEPS = 200000 };
	static uint32_t used[NUMBERS];
	struct test_random random = test_random_seeded("relay_tables");

	destinations_init(&table, 4);
	memset(used, 0, sizeof(used));
	for (uint32_t step = 1; step <= STEPS; step++) {
		uint32_t number = (uint32_t)test_random_below(&random, NUMBERS);
		struct destination *oldest = destinations_next_used(&table, NULL);

		assert_int_equal(find(number) != NULL, used[number] != 0);
		if (!used[number] && table.count == DESTINATIONS_MAX) {
			for (uint32_t i = 0; i < NUMBERS && step % 1000 == 0; i++)
				assert_true(!used[i] || used[oldest->number] <= used[i]);
			used[oldest->number] = 0;
			destinations_remove(&table, oldest);
		}
		if (!used[number])
			assert_non_null(add(number));
		used[number] = step;
	}
}

TEST(refusal_expires)
{
	static struct refusals refusals = {.seed = 5};
	const struct destination_key refused = key_of(1), other = key_of(2);
	const int64_t now_ns = INT64_C(1000000000000);

	assert_int_equal(refusals_find(&refusals, &refused, now_ns), 0);
	refusals_add(&refusals, &refused, -EPERM, now_ns);
	assert_int_equal(refusals_find(&refusals, &refused, now_ns), -EPERM);
	assert_int_equal(refusals_find(&refusals, &other, now_ns), 0);
	assert_int_equal(refusals_find(&refusals, &refused, now_ns + REFUSAL_NS - 1), -EPERM);
	assert_int_equal(refusals_find(&refusals, &refused, now_ns + REFUSAL_NS), 0);
	refusals_forget(&refusals);
	assert_int_equal(refusals_find(&refusals, &refused, now_ns), 0);
}

static uint32_t requests_at(struct refusals *refusals, int64_t now_ns)
{
	uint32_t taken = 0;

	while (refusals_request_take(refusals, now_ns))
		taken++;
	return taken;
}

TEST(requests_are_limited)
{
	static struct refusals refusals;
	int64_t now_ns = INT64_C(1000000000000);

	assert_int_equal(requests_at(&refusals, now_ns), NEW_DESTINATIONS_BURST);
	assert_int_equal(requests_at(&refusals, now_ns + NEW_DESTINATION_INTERVAL_NS - 1), 0);
	assert_int_equal(requests_at(&refusals, now_ns + 10 * NEW_DESTINATION_INTERVAL_NS), 10);
	now_ns += INT64_C(3600000000000);
	assert_int_equal(requests_at(&refusals, now_ns), NEW_DESTINATIONS_BURST);
}

static struct backlog backlog;

/* With its number as payload. */
static bool push(uint32_t number)
{
	static const uint8_t addresses[FRAME_ADDRESSES_BYTES] = {2, 4, 6};
	const struct captured_frame frame = {.addresses = addresses,
					     .payload = (const uint8_t *)&number,
					     .payload_bytes = sizeof(number),
					     .txtime_ns = number};

	return backlog_push(&backlog, &frame);
}

TEST(frames_keep_their_order)
{
	uint32_t pushed = 0, popped = 0;

	assert_null(backlog_first(&backlog));
	for (int round = 0; round < 5; round++) {
		while (push(pushed))
			pushed++;
		assert_int_equal(backlog.count, BACKLOG_MAX);
		for (int i = 0; i < 100; i++, popped++) {
			assert_memory_equal(backlog_first(&backlog)->payload, &popped, sizeof(popped));
			assert_memory_equal(backlog_first(&backlog)->addresses, "\2\4\6", 3);
			assert_int_equal(backlog_first(&backlog)->txtime_ns, popped);
			backlog_pop(&backlog);
		}
	}
	assert_int_equal(pushed - popped, BACKLOG_MAX - 100);
}

/* Frames of many lengths lie at any position and around the end. */
TEST(frames_keep_their_bytes)
{
	static uint8_t bytes[FRAME_BYTES_MAX];
	struct captured_frame frame = {.addresses = bytes, .payload = bytes + FRAME_HEADER_BYTES};
	uint32_t pushed = 0, popped = 0;

	memset(&backlog, 0, sizeof(backlog));
	while (popped < 5000) {
		memset(bytes, (uint8_t)pushed, sizeof(bytes));
		frame.payload_bytes = 40 + pushed * 7919 % 16000;
		if (backlog_push(&backlog, &frame)) {
			pushed++;
			continue;
		}
		for (uint32_t i = 0; i < 1 + popped % 50 && popped < pushed; i++, popped++) {
			const struct captured_frame *first = backlog_first(&backlog);

			assert_int_equal(first->payload_bytes, 40 + popped * 7919 % 16000);
			assert_int_equal(first->addresses[0], (uint8_t)popped);
			assert_int_equal(first->payload[0], (uint8_t)popped);
			assert_int_equal(first->payload[first->payload_bytes - 1], (uint8_t)popped);
			backlog_pop(&backlog);
		}
	}
}

static uint32_t until_full(const struct captured_frame *frame)
{
	uint32_t count = 0;

	memset(&backlog, 0, sizeof(backlog));
	while (backlog_push(&backlog, frame))
		count++;
	return count;
}

TEST(fewer_long_frames_fit)
{
	static uint8_t bytes[FRAME_BYTES_MAX];
	struct captured_frame frame = {
		.addresses = bytes, .payload = bytes + FRAME_HEADER_BYTES, .payload_bytes = 1500};

	assert_int_equal(until_full(&frame), BACKLOG_MAX);
	frame.payload_bytes = 9000;
	assert_int_equal(until_full(&frame), BACKLOG_BYTES / (9000 + FRAME_ADDRESSES_BYTES));
}

TEST(longest_frame_fits)
{
	static uint8_t bytes[FRAME_BYTES_MAX];
	struct captured_frame frame = {.addresses = bytes,
				       .payload = bytes + FRAME_HEADER_BYTES,
				       .payload_bytes = FRAME_BYTES_MAX - FRAME_HEADER_BYTES};

	memset(&backlog, 0, sizeof(backlog));
	assert_true(backlog_push(&backlog, &frame));
}
