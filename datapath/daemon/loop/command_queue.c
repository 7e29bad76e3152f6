/* SPDX-License-Identifier: Apache-2.0 */
#include "command_queue.h"

bool commands_push(struct commands *commands, const struct loop_command *command)
{
	uint32_t tail = atomic_load_explicit(&commands->tail, memory_order_relaxed);

	/* Acquire pairs with the release in commands_pop(): the entry has been read. */
	if (tail - atomic_load_explicit(&commands->head, memory_order_acquire) == COMMANDS_CAPACITY)
		return false;
	commands->queue[tail % COMMANDS_CAPACITY] = *command;
	/* Release pairs with the acquire in commands_pop(). */
	atomic_store_explicit(&commands->tail, tail + 1, memory_order_release);
	return true;
}

bool commands_pop(struct commands *commands, struct loop_command *command)
{
	uint32_t head = atomic_load_explicit(&commands->head, memory_order_relaxed);

	if (head == atomic_load_explicit(&commands->tail, memory_order_acquire))
		return false;
	*command = commands->queue[head % COMMANDS_CAPACITY];
	atomic_store_explicit(&commands->head, head + 1, memory_order_release);
	return true;
}

const struct loop_command *commands_peek(const struct commands *commands, uint32_t ahead)
{
	uint32_t head = atomic_load_explicit(&commands->head, memory_order_relaxed);
	/* Acquire pairs with the release in commands_push(). */
	uint32_t tail = atomic_load_explicit(&commands->tail, memory_order_acquire);

	return ahead < tail - head ? &commands->queue[(head + ahead) % COMMANDS_CAPACITY] : NULL;
}

void commands_complete(struct commands *commands)
{
	/* Release pairs with the acquire in commands_passed(). */
	atomic_store_explicit(&commands->completed,
			      atomic_load_explicit(&commands->head, memory_order_relaxed),
			      memory_order_release);
}

uint32_t commands_mark(const struct commands *commands)
{
	return atomic_load_explicit(&commands->tail, memory_order_relaxed);
}

bool commands_passed(const struct commands *commands, uint32_t mark)
{
	uint32_t completed = atomic_load_explicit(&commands->completed, memory_order_acquire);

	return (int32_t)(completed - mark) >= 0;
}
