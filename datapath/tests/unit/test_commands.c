/* SPDX-License-Identifier: Apache-2.0 */
#include "command_queue.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

enum { MANY = 200000 };

static int set_up(void **state)
{
	struct commands *commands = aligned_alloc(KTSN_CACHE_LINE_BYTES, sizeof(*commands));

	*state = commands;
	if (!commands)
		return -1;
	memset(commands, 0, sizeof(*commands));
	return 0;
}

static int tear_down(void **state)
{
	free(*state);
	return 0;
}

static bool push(struct commands *commands, uint32_t number)
{
	return commands_push(commands, &(struct loop_command){.type = COMMAND_FLOW_OPEN,
							      .index = number,
							      .route.payload_max_bytes = number});
}

static bool pop(struct commands *commands, uint32_t *number)
{
	struct loop_command command;

	if (!commands_pop(commands, &command))
		return false;
	assert_int_equal(command.type, COMMAND_FLOW_OPEN);
	assert_int_equal(command.route.payload_max_bytes, command.index);
	*number = command.index;
	return true;
}

TEST_F(commands_come_out_in_order)
{
	uint32_t number;

	assert_false(pop(*state, &number));
	for (uint32_t i = 0; i < 10 * COMMANDS_CAPACITY; i++) {
		assert_true(push(*state, 2 * i));
		assert_true(push(*state, 2 * i + 1));
		assert_true(pop(*state, &number));
		assert_int_equal(number, 2 * i);
		assert_true(pop(*state, &number));
		assert_int_equal(number, 2 * i + 1);
	}
	assert_false(pop(*state, &number));
}

TEST_F(full_queue_refuses)
{
	uint32_t number;

	for (uint32_t i = 0; i < COMMANDS_CAPACITY; i++)
		assert_true(push(*state, i));
	assert_false(push(*state, COMMANDS_CAPACITY));
	for (uint32_t i = 0; i < COMMANDS_CAPACITY; i++) {
		assert_true(pop(*state, &number));
		assert_int_equal(number, i);
		assert_true(push(*state, COMMANDS_CAPACITY + i));
		assert_false(push(*state, 0));
	}
	for (uint32_t i = 0; i < COMMANDS_CAPACITY; i++) {
		assert_true(pop(*state, &number));
		assert_int_equal(number, COMMANDS_CAPACITY + i);
	}
	assert_false(pop(*state, &number));
}

TEST_F(commands_can_be_peeked)
{
	uint32_t number;

	assert_null(commands_peek(*state, 0));
	for (uint32_t i = 0; i < COMMANDS_CAPACITY; i++)
		push(*state, i);
	pop(*state, &number);
	assert_int_equal(commands_peek(*state, 0)->index, 1);
	assert_int_equal(commands_peek(*state, COMMANDS_CAPACITY - 2)->index, COMMANDS_CAPACITY - 1);
	assert_null(commands_peek(*state, COMMANDS_CAPACITY - 1));
	assert_null(commands_peek(*state, UINT32_MAX));
	/* Peeking removes nothing. */
	pop(*state, &number);
	assert_int_equal(number, 1);
}

/* A popped command is not executed yet: a mark is passed only after the reader has reported completion. */
TEST_F(mark_is_passed_after_all_before_it)
{
	uint32_t empty = commands_mark(*state), first, second, number;

	assert_true(commands_passed(*state, empty));
	push(*state, 1);
	first = commands_mark(*state);
	push(*state, 2);
	second = commands_mark(*state);
	assert_true(commands_passed(*state, empty));
	assert_false(commands_passed(*state, first));

	pop(*state, &number);
	assert_false(commands_passed(*state, first));
	commands_complete(*state);
	assert_true(commands_passed(*state, first));
	assert_false(commands_passed(*state, second));
	pop(*state, &number);
	commands_complete(*state);
	assert_true(commands_passed(*state, second));
	assert_true(commands_passed(*state, empty));
}

TEST_F(numbers_wrap_around)
{
	struct commands *commands = *state;
	uint32_t before, number, mark;

	before = UINT32_MAX - 1;
	atomic_store(&commands->head, before);
	atomic_store(&commands->tail, before);
	atomic_store(&commands->completed, before);
	for (uint32_t i = 0; i < COMMANDS_CAPACITY; i++)
		assert_true(push(commands, i));
	assert_false(push(commands, 0));
	mark = commands_mark(commands);
	assert_false(commands_passed(commands, mark));
	for (uint32_t i = 0; i < COMMANDS_CAPACITY; i++) {
		assert_true(pop(commands, &number));
		assert_int_equal(number, i);
	}
	commands_complete(commands);
	assert_true(commands_passed(commands, mark));
}

static void *push_many(void *commands)
{
	for (uint32_t i = 0; i < MANY; i++)
		while (!push(commands, i))
			sched_yield();
	return NULL;
}

TEST_F(each_command_is_popped_once)
{
	uint32_t number;
	pthread_t writer;

	assert_int_equal(pthread_create(&writer, NULL, push_many, *state), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		while (!pop(*state, &number))
			sched_yield();
		assert_int_equal(number, i);
		commands_complete(*state);
	}
	pthread_join(writer, NULL);
	assert_false(pop(*state, &number));
	assert_true(commands_passed(*state, commands_mark(*state)));
}
