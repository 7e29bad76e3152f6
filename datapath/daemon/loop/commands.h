/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands from the control thread to the loop (struct loop_command in command_queue.h).
 */
#ifndef KTSN_LOOP_COMMANDS_H
#define KTSN_LOOP_COMMANDS_H

#include "command_queue.h"

struct loop;

/* Queues a command. Control thread only. Waits while the queue is full, which is rare. */
void loop_command(struct loop *loop, const struct loop_command *command);

/*
 * Commands in the queue may still name an object that the loop has retired. The control thread takes a mark
 * when the loop returns the object, and frees it when all commands before the mark have been executed.
 */
uint32_t loop_commands_mark(const struct loop *loop);
bool loop_commands_passed(const struct loop *loop, uint32_t mark);

/* Executes some of the queued commands. Once a round, by the loop thread. */
void commands_execute(struct loop *loop);

#endif
