/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread's commands. Loop thread only.
 */
#ifndef KTSN_LOOP_RUN_COMMANDS_H
#define KTSN_LOOP_RUN_COMMANDS_H

struct loop;

/* Executes some of the commands, in each round. */
void loop_commands(struct loop *loop);

#endif
