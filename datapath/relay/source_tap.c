/* SPDX-License-Identifier: Apache-2.0 */
#include "source_tap.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static const enum relay_drop drops[] = {
	[CAPTURED_TRUNCATED] = RELAY_DROP_TRUNCATED,
	[CAPTURED_RECORD_SHORT] = RELAY_DROP_RECORD_SHORT,
	[CAPTURED_RECORD_BITS] = RELAY_DROP_RECORD_BITS,
	[CAPTURED_RECORD_ADDRESSES] = RELAY_DROP_RECORD_ADDRESSES,
};

/* Parses a frame. 0, or the reason to drop it. */
static int frame_take(uint8_t *start, size_t bytes, struct captured_frame *frame)
{
	struct virtio_net_hdr header;
	uint8_t *first = start + sizeof(header);
	size_t count = bytes - sizeof(header);

	*frame = (struct captured_frame){.timed = false};
	if (bytes < sizeof(header) || count > FRAME_BYTES_MAX)
		return RELAY_DROP_TRUNCATED;
	memcpy(&header, start, sizeof(header));
	if (offload_complete(&header, first, count))
		return RELAY_DROP_OFFLOAD;
	return (int)drops[captured_frame_parse(first, count, frame)];
}

static int tap_read(struct source *source, struct relay_counters *counters, struct captured_frame *frame)
{
	struct source_tap *tap = (struct source_tap *)source;
	uint8_t *start = tap->room + SOURCE_ALIGN_BYTES;
	ssize_t bytes = read(source->fd, start, sizeof(tap->room) - SOURCE_ALIGN_BYTES);
	int drop;

	if (bytes < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	if (bytes == 0)
		return -ENODEV;
	drop = frame_take(start, (size_t)bytes, frame);
	relay_count(&counters->read[frame->timed ? RELAY_TIMED : RELAY_UNTIMED], 1);
	if (drop)
		relay_drop(counters, (enum relay_drop)drop);
	return drop ? 0 : 1;
}

void source_tap_init(struct source_tap *tap, int fd)
{
	/* A tap stays readable as long as frames are in it. */
	static const struct source_ops ops = {.read = tap_read};

	tap->source = (struct source){.ops = &ops, .fd = fd, .back_fd = -1};
}
