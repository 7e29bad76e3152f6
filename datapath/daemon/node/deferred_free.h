/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deferred free of objects that the loop retired. Commands that were under way when they came back may still
 * name them, so they are kept until the loop has executed those; commands that come later name them no more.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_DEFERRED_FREE_H
#define KTSN_DAEMON_DEFERRED_FREE_H

#include "node_state.h"

/* Takes what the loop has retired. */
void deferred_free_take(struct node *node);
/* Frees what no command names any more. */
void deferred_free_run(struct node *node);
/* Once the loop's thread has ended: nothing is under way any more. */
void deferred_free_all(struct node *node);

#endif
