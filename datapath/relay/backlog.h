/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that wait in the relay, first in, first out. They lie packed, and from the start again once none
 * waits, so that pages are used for as much as ever waited at a time. Pure.
 */
#ifndef KTSN_RELAY_BACKLOG_H
#define KTSN_RELAY_BACKLOG_H

#include "captured_frame.h"

/* As many of the usual length; fewer if they are longer. */
enum { BACKLOG_MAX = 256, BACKLOG_BYTES = BACKLOG_MAX * 2048 };

/* All 0 at first. */
struct backlog {
	uint32_t first, count;
	uint32_t end; /* behind the bytes of the last */
	struct captured_frame frames[BACKLOG_MAX];
	uint8_t bytes[BACKLOG_BYTES];
};

/* Keeps a copy. False when there is no room. */
bool backlog_push(struct backlog *backlog, const struct captured_frame *frame);

/* NULL when none waits. */
const struct captured_frame *backlog_first(const struct backlog *backlog);

/* Of one that waits. */
void backlog_pop(struct backlog *backlog);

#endif
