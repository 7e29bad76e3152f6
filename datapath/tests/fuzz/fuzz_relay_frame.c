/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes that a tap may give, after a struct virtio_net_hdr: the result lies inside them, and a timed
 * frame has the addresses of its record.
 */
#include "captured_frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void frame_check(const struct captured_frame *frame, const uint8_t *bytes, size_t count)
{
	must(frame->addresses >= bytes && frame->addresses + FRAME_HEADER_BYTES == frame->payload);
	must(frame->payload + frame->payload_bytes == bytes + count);
	/* After a record, which has a time or only a priority. */
	must(frame->addresses != bytes || (!frame->timed && !frame->priority));
	must(frame->clock < KTSN_CLOCKS);
	must(memcmp(frame->addresses, bytes, FRAME_ADDRESSES_BYTES) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct virtio_net_hdr header;
	struct captured_frame frame;
	size_t count;
	uint8_t *bytes; /* of exactly that size, so that reads beyond it are detected */

	if (size < sizeof(header))
		return 0;
	count = size - sizeof(header);
	bytes = malloc(count + 1);
	must(bytes != NULL);
	memcpy(&header, data, sizeof(header));
	memcpy(bytes, data + sizeof(header), count);
	bytes = realloc(bytes, count ? count : 1);
	(void)offload_complete(&header, bytes, count);
	if (captured_frame_parse(bytes, count, &frame) == CAPTURED)
		frame_check(&frame, bytes, count);
	free(bytes);
	return 0;
}
