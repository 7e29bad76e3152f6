/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of transmit times compared with a simple search through an array.
 */

#include <stdlib.h>

#include "test_random.h"
#include "txtime_queue.h"

#include "unit_test.h"

enum { PACKETS = 300, OPERATIONS = 400000 };

/* The expected content of the queue. */
struct model {
	struct ktsn_txtime_queue queue;
	struct ktsn_shaper_packet packets[PACKETS];
	struct ktsn_shaper_packet *held[PACKETS];
	uint32_t count;
	uint32_t free[PACKETS];
	uint32_t free_count;
	uint64_t orders;
	int64_t now_tai_ns;
};

static struct model *model_create(void)
{
	struct model *model = calloc(1, sizeof(*model));

	assert_non_null(model);
	ktsn_txtime_queue_init(&model->queue);
	for (uint32_t i = 0; i < PACKETS; i++)
		model->free[model->free_count++] = i;
	return model;
}

static uint32_t first_of(const struct model *model)
{
	uint32_t first = 0;

	for (uint32_t i = 1; i < model->count; i++)
		if (ktsn_packet_before(model->held[i], model->held[first]))
			first = i;
	return first;
}

static void push(struct model *model, int64_t txtime_tai_ns, uint64_t order)
{
	struct ktsn_shaper_packet *packet = &model->packets[model->free[--model->free_count]];

	*packet = (struct ktsn_shaper_packet){.txtime_tai_ns = txtime_tai_ns, .order = order};
	model->held[model->count++] = packet;
	ktsn_txtime_queue_push(&model->queue, packet, model->now_tai_ns);
}

static void pop(struct model *model)
{
	uint32_t first = first_of(model);
	struct ktsn_shaper_packet *expected = model->held[first];

	assert_ptr_equal(ktsn_txtime_queue_first(&model->queue), expected);
	assert_ptr_equal(ktsn_txtime_queue_pop(&model->queue), expected);
	if (expected->txtime_tai_ns > model->now_tai_ns)
		model->now_tai_ns = expected->txtime_tai_ns;
	model->held[first] = model->held[--model->count];
	model->free[model->free_count++] = (uint32_t)(expected - model->packets);
}

/* Times near and far, equal ones, late ones, and the ends of the range. */
static int64_t random_txtime(const struct model *model, struct test_random *random)
{
	int64_t spread_ns = INT64_C(1) << test_random_below(random, 45);
	int64_t txtime_tai_ns;

	if (test_random_below(random, 200) == 0)
		return test_random_below(random, 2) ? 0 : KTSN_TXTIME_MAX_NS;
	txtime_tai_ns = model->now_tai_ns + (int64_t)test_random_below(random, (uint64_t)spread_ns * 2);
	if (test_random_below(random, 4) == 0)
		txtime_tai_ns -= spread_ns;
	if (txtime_tai_ns > KTSN_TXTIME_MAX_NS)
		return KTSN_TXTIME_MAX_NS;
	return txtime_tai_ns < 0 ? 0 : txtime_tai_ns;
}

static void random_operations(const char *test, uint64_t order_noise)
{
	struct test_random random = test_random_seeded(test);
	struct model *model = model_create();

	model->now_tai_ns = 1750000000000000000;
	for (int i = 0; i < OPERATIONS; i++, model->orders++) {
		/* No two are equal. */
		uint64_t order = (model->orders * 1000 + test_random_below(&random, order_noise)) << 24 |
				 model->orders;

		if (model->free_count && (model->count == 0 || test_random_below(&random, 100) < 51))
			push(model, random_txtime(model, &random), order);
		else
			pop(model);
		assert_int_equal(model->queue.count, model->count);
	}
	while (model->count)
		pop(model);
	assert_null(ktsn_txtime_queue_first(&model->queue));
	free(model);
}

TEST(random_operations_match_a_search)
{
	random_operations(__func__, 1);
}

TEST(mixed_orders_match_a_search)
{
	random_operations(__func__, 100000);
}

TEST(equal_times_leave_by_order)
{
	struct model *model = model_create();

	for (uint64_t i = 0; i < PACKETS; i++)
		push(model, 1000000, i * 7 % PACKETS);
	while (model->count)
		pop(model);
	free(model);
}

/* In the middle of a list they form a heap; every fourth leaves in between. */
TEST(times_within_a_slot_leave_by_order)
{
	struct test_random random = test_random_seeded(__func__);
	struct model *model = model_create();

	model->now_tai_ns = 1750000000000000000;
	for (uint64_t i = 0; i < PACKETS; i++) {
		push(model, model->now_tai_ns + 1000000 + (int64_t)test_random_below(&random, 64), i);
		if (i % 4 == 3)
			pop(model);
	}
	while (model->count)
		pop(model);
	free(model);
}

/* The wheel of a page has wrapped to their position. */
TEST(late_packets_leave_before_all_others)
{
	struct model *model = model_create();
	int64_t now_tai_ns = 1750000000000000000;

	model->now_tai_ns = now_tai_ns;
	for (unsigned int bits = 0; bits < 40; bits++)
		push(model, now_tai_ns + (INT64_C(1) << bits), bits);
	pop(model);
	for (unsigned int bits = 0; bits < 40; bits++)
		push(model, now_tai_ns - (INT64_C(1) << bits), 100 + bits);
	while (model->count)
		pop(model);
	free(model);
}

/* A packet that is due in an hour must not make the queue coarse for the others. */
TEST(distant_packet_stays)
{
	struct model *model = model_create();
	int64_t now_tai_ns = 1750000000000000000, hour_ns = INT64_C(3600000000000);

	model->now_tai_ns = now_tai_ns;
	push(model, now_tai_ns + hour_ns, 0);
	for (uint64_t i = 1; i < 4000; i++) {
		model->now_tai_ns = now_tai_ns + (int64_t)i * hour_ns / 4000;
		/* The last precedes those that came in order, and is on a page. */
		push(model, model->now_tai_ns + 800, i);
		push(model, model->now_tai_ns + 1000, i + 4000);
		push(model, model->now_tai_ns + 1100, i + 8000);
		push(model, model->now_tai_ns + 900, i + 12000);
		/* In slots of 64 ns, so that they do not share one. */
		assert_int_equal(model->queue.places_used & 1, 1);
		for (int held = 0; held < 4; held++)
			pop(model);
	}
	pop(model);
	free(model);
}
