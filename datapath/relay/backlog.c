/* SPDX-License-Identifier: Apache-2.0 */
#include "backlog.h"

#include <string.h>

enum { NO_ROOM = BACKLOG_BYTES };

static uint32_t frame_bytes(const struct captured_frame *frame)
{
	return FRAME_ADDRESSES_BYTES + frame->payload_bytes;
}

/* Returns a position with this many free bytes without a gap. The end equals the begin only when the
 * buffer is full. */
static uint32_t room_find(const struct backlog *backlog, uint32_t bytes)
{
	const struct captured_frame *first = backlog_first(backlog);
	uint32_t begin = first ? (uint32_t)(first->addresses - backlog->bytes) : 0;
	uint32_t end = first ? backlog->end : 0;

	if (first && end <= begin)
		return begin - end >= bytes ? end : NO_ROOM;
	if (BACKLOG_BYTES - end >= bytes)
		return end;
	return begin >= bytes ? 0 : NO_ROOM;
}

bool backlog_push(struct backlog *backlog, const struct captured_frame *frame)
{
	struct captured_frame *copy = &backlog->frames[(backlog->first + backlog->count) % BACKLOG_MAX];
	uint32_t at = room_find(backlog, frame_bytes(frame));
	uint8_t *bytes = backlog->bytes + at;

	if (backlog->count == BACKLOG_MAX || at == NO_ROOM)
		return false;
	*copy = *frame;
	copy->addresses = memcpy(bytes, frame->addresses, FRAME_ADDRESSES_BYTES);
	copy->payload = memcpy(bytes + FRAME_ADDRESSES_BYTES, frame->payload, frame->payload_bytes);
	backlog->end = at + frame_bytes(frame);
	backlog->count++;
	return true;
}

const struct captured_frame *backlog_first(const struct backlog *backlog)
{
	return backlog->count ? &backlog->frames[backlog->first] : NULL;
}

void backlog_pop(struct backlog *backlog)
{
	backlog->first = (backlog->first + 1) % BACKLOG_MAX;
	backlog->count--;
}
