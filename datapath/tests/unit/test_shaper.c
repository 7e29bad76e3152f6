/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In virtual time: no test reads a clock.
 */
#include "shaper.h"
#include "test_random.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CAPACITY = 8 };

static int set_up(void **state)
{
	void *memory = malloc(ktsn_shaper_bytes(CAPACITY));

	if (!memory)
		return -1;
	*state = ktsn_shaper_init(memory, CAPACITY);
	assert_ptr_equal(*state, memory);
	return 0;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

static void enqueue(struct ktsn_shaper *shaper, struct ktsn_shaper_packet *packet, int64_t txtime_tai_ns,
		    uint64_t order)
{
	*packet = (struct ktsn_shaper_packet){.txtime_tai_ns = txtime_tai_ns, .order = order};
	assert_int_equal(ktsn_shaper_enqueue(shaper, packet, 0), 0);
}

static void empty_shaper_has_nothing(void **state)
{
	assert_int_equal(ktsn_shaper_pending(*state), 0);
	assert_true(ktsn_shaper_next(*state, 0) == KTSN_SHAPER_NEVER);
	assert_null(ktsn_shaper_dequeue(*state, INT64_MAX));
	assert_int_equal(ktsn_shaper_pending(*state), 0);
}

static void packets_leave_by_time(void **state)
{
	struct ktsn_shaper_packet packets[4];

	enqueue(*state, &packets[0], 300, 0);
	enqueue(*state, &packets[1], 100, 1);
	enqueue(*state, &packets[2], 400, 2);
	enqueue(*state, &packets[3], 200, 3);
	assert_ptr_equal(ktsn_shaper_dequeue(*state, 1000), &packets[1]);
	assert_ptr_equal(ktsn_shaper_dequeue(*state, 1000), &packets[3]);
	assert_ptr_equal(ktsn_shaper_dequeue(*state, 1000), &packets[0]);
	assert_ptr_equal(ktsn_shaper_dequeue(*state, 1000), &packets[2]);
	assert_null(ktsn_shaper_dequeue(*state, 1000));
}

static void equal_times_leave_by_order(void **state)
{
	static const uint64_t orders[CAPACITY] = {5, 2, 7, 0, UINT64_MAX, 1, 6, 3};
	static const uint64_t sorted[CAPACITY] = {0, 1, 2, 3, 5, 6, 7, UINT64_MAX};
	struct ktsn_shaper_packet packets[CAPACITY];

	for (int i = 0; i < CAPACITY; i++)
		enqueue(*state, &packets[i], 100, orders[i]);
	for (int i = 0; i < CAPACITY; i++)
		assert_true(ktsn_shaper_dequeue(*state, 100)->order == sorted[i]);
}

static void nothing_leaves_before_its_time(void **state)
{
	struct ktsn_shaper_packet packets[2];

	enqueue(*state, &packets[0], 1000, 0);
	enqueue(*state, &packets[1], 1001, 1);
	assert_int_equal(ktsn_shaper_next(*state, 0), 1000);
	assert_null(ktsn_shaper_dequeue(*state, 999));
	assert_int_equal(ktsn_shaper_pending(*state), 2);
	assert_ptr_equal(ktsn_shaper_dequeue(*state, 1000), &packets[0]);
	assert_null(ktsn_shaper_dequeue(*state, 1000));
	assert_int_equal(ktsn_shaper_next(*state, 1000), 1001);
	assert_ptr_equal(ktsn_shaper_dequeue(*state, 1001), &packets[1]);
}

static void late_packet_is_due_at_once(void **state)
{
	struct ktsn_shaper_packet packets[2];

	packets[0] = (struct ktsn_shaper_packet){.txtime_tai_ns = 100};
	assert_int_equal(ktsn_shaper_enqueue(*state, &packets[0], 500), 0);
	assert_int_equal(ktsn_shaper_next(*state, 500), 500);
	assert_ptr_equal(ktsn_shaper_dequeue(*state, 500), &packets[0]);

	/* Between two late ones, still by their times. */
	enqueue(*state, &packets[0], 200, 0);
	enqueue(*state, &packets[1], INT64_MIN, 1);
	assert_ptr_equal(ktsn_shaper_dequeue(*state, 500), &packets[1]);
	assert_ptr_equal(ktsn_shaper_dequeue(*state, 500), &packets[0]);
}

static void full_shaper_refuses_and_loses_nothing(void **state)
{
	struct ktsn_shaper_packet packets[CAPACITY];
	struct ktsn_shaper_packet refused = {.txtime_tai_ns = 1}, copy = refused;

	for (int i = 0; i < CAPACITY; i++)
		enqueue(*state, &packets[i], 100 - i, 0);
	assert_int_equal(ktsn_shaper_enqueue(*state, &refused, 0), -ENOBUFS);
	assert_memory_equal(&refused, &copy, sizeof(copy));
	assert_int_equal(ktsn_shaper_pending(*state), CAPACITY);

	assert_ptr_equal(ktsn_shaper_dequeue(*state, 1000), &packets[CAPACITY - 1]);
	assert_int_equal(ktsn_shaper_enqueue(*state, &refused, 0), 0);
	assert_ptr_equal(ktsn_shaper_dequeue(*state, 1000), &refused);
	for (int i = CAPACITY - 2; i >= 0; i--)
		assert_ptr_equal(ktsn_shaper_dequeue(*state, 1000), &packets[i]);
	assert_int_equal(ktsn_shaper_pending(*state), 0);
}

static void shaper_without_room_refuses_everything(void **state)
{
	void *memory = malloc(ktsn_shaper_bytes(0));
	struct ktsn_shaper *shaper = ktsn_shaper_init(memory, 0);
	struct ktsn_shaper_packet packet = {0};

	(void)state;
	assert_int_equal(ktsn_shaper_enqueue(shaper, &packet, 0), -ENOBUFS);
	assert_null(ktsn_shaper_dequeue(shaper, INT64_MAX));
	free(memory);
}

/* The reference: an array kept sorted, latest first, so that the next to leave is at the end. */
enum {
	MODEL_CAPACITY = 300,
	MODEL_OPERATIONS = 1000000,
};

struct model {
	struct ktsn_shaper_packet packets[MODEL_CAPACITY + 1];
	struct ktsn_shaper_packet *unused[MODEL_CAPACITY + 1];
	struct ktsn_shaper_packet *held[MODEL_CAPACITY];
	uint32_t unused_count;
	uint32_t held_count;
};

static void model_init(struct model *model)
{
	model->held_count = 0;
	model->unused_count = MODEL_CAPACITY + 1;
	for (uint32_t i = 0; i < model->unused_count; i++)
		model->unused[i] = &model->packets[i];
}

static void model_insert(struct model *model, struct ktsn_shaper_packet *packet)
{
	uint32_t at = model->held_count++;

	for (; at > 0; at--) {
		const struct ktsn_shaper_packet *before = model->held[at - 1];

		if (before->txtime_tai_ns > packet->txtime_tai_ns ||
		    (before->txtime_tai_ns == packet->txtime_tai_ns && before->order > packet->order))
			break;
		model->held[at] = model->held[at - 1];
	}
	model->held[at] = packet;
}

static const struct ktsn_shaper_packet *model_next(const struct model *model)
{
	return model->held_count > 0 ? model->held[model->held_count - 1] : NULL;
}

static void check_enqueue(struct ktsn_shaper *shaper, struct model *model, struct test_random *random,
			  int64_t now_tai_ns)
{
	/* There is always one that neither holds: one more than the capacity exists. */
	struct ktsn_shaper_packet *packet = model->unused[model->unused_count - 1];

	/* From a coarse grid around now, for many ties, and a fifth of them late. */
	packet->txtime_tai_ns = now_tai_ns + ((int64_t)test_random_below(random, 50) - 10) * 100;
	packet->order = test_random_next(random);
	if (model->held_count == MODEL_CAPACITY) {
		assert_int_equal(ktsn_shaper_enqueue(shaper, packet, now_tai_ns), -ENOBUFS);
		return;
	}
	assert_int_equal(ktsn_shaper_enqueue(shaper, packet, now_tai_ns), 0);
	model_insert(model, packet);
	model->unused_count--;
}

static void check_dequeue(struct ktsn_shaper *shaper, struct model *model, int64_t now_tai_ns)
{
	const struct ktsn_shaper_packet *expected = model_next(model);
	struct ktsn_shaper_packet *packet = ktsn_shaper_dequeue(shaper, now_tai_ns);

	if (expected && expected->txtime_tai_ns > now_tai_ns)
		expected = NULL;
	assert_ptr_equal(packet, expected);
	if (!packet)
		return;
	model->held_count--;
	model->unused[model->unused_count++] = packet;
}

static void check_next(const struct ktsn_shaper *shaper, const struct model *model, int64_t now_tai_ns)
{
	const struct ktsn_shaper_packet *first = model_next(model);
	int64_t expected_tai_ns = KTSN_SHAPER_NEVER;

	if (first)
		expected_tai_ns = first->txtime_tai_ns > now_tai_ns ? first->txtime_tai_ns : now_tai_ns;
	assert_true(ktsn_shaper_next(shaper, now_tai_ns) == expected_tai_ns);
	assert_int_equal(ktsn_shaper_pending(shaper), model->held_count);
}

/* By turns the shaper fills up while time creeps, and runs empty while it flies. */
static bool is_filling(int operation)
{
	return operation / 5000 % 2 == 0;
}

static void random_operations_match_a_sorted_array(void **state)
{
	static struct model model;
	struct test_random random = test_random_seeded("shaper against a sorted array");
	void *memory = malloc(ktsn_shaper_bytes(MODEL_CAPACITY));
	struct ktsn_shaper *shaper = ktsn_shaper_init(memory, MODEL_CAPACITY);
	int64_t now_tai_ns = 1700000000000000000;
	int full = 0, empty = 0;

	(void)state;
	model_init(&model);
	for (int operation = 0; operation < MODEL_OPERATIONS; operation++) {
		now_tai_ns += (int64_t)test_random_below(&random, is_filling(operation) ? 10 : 2000);
		if (test_random_below(&random, 3) < (is_filling(operation) ? 2 : 1))
			check_enqueue(shaper, &model, &random, now_tai_ns);
		else
			check_dequeue(shaper, &model, now_tai_ns);
		check_next(shaper, &model, now_tai_ns);
		full += model.held_count == MODEL_CAPACITY;
		empty += model.held_count == 0;
	}
	assert_true(full > 1000 && empty > 1000);
	free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(empty_shaper_has_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(packets_leave_by_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(equal_times_leave_by_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nothing_leaves_before_its_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(late_packet_is_due_at_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(full_shaper_refuses_and_loses_nothing, set_up, tear_down),
		cmocka_unit_test(shaper_without_room_refuses_everything),
		cmocka_unit_test(random_operations_match_a_sorted_array),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
