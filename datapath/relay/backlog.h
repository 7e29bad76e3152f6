/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that wait in the relay, first in, first out. They are stored without gaps, and from the start again
 * when none waits, so that no more pages are used than the largest backlog needed. Pure.
 */
#ifndef KTSN_RELAY_BACKLOG_H
#define KTSN_RELAY_BACKLOG_H

#include "captured_frame.h"

/* The number of frames of the usual length; fewer longer ones fit. */
enum { BACKLOG_MAX = 256, BACKLOG_BYTES = BACKLOG_MAX * 2048 };

/* Zero at first. */
struct backlog {
	uint32_t first, count;
	uint32_t end; /* after the bytes of the last frame */
	struct captured_frame frames[BACKLOG_MAX];
	uint8_t bytes[BACKLOG_BYTES];
};

/* backlog_push stores a copy of the frame. Returns false when there is no room. */
bool backlog_push(struct backlog *backlog, const struct captured_frame *frame);

/* backlog_first returns the oldest frame; NULL when none waits. */
const struct captured_frame *backlog_first(const struct backlog *backlog);

/* backlog_pop removes the oldest frame. */
void backlog_pop(struct backlog *backlog);

#endif
