/* SPDX-License-Identifier: Apache-2.0 */
#include "frame_class.h"

/* In the upper three bits of the tag's first byte (IEEE Std 802.1Q clause 9.6). */
static uint8_t pcp(const struct captured_frame *frame)
{
	return captured_frame_is_tagged(frame) && frame->payload_bytes ? frame->payload[0] >> 5 : 0;
}

uint8_t class_priority(enum class_by by, const struct captured_frame *frame, int pair)
{
	switch (by) {
	case CLASS_BY_PCP:
		return pcp(frame);
	case CLASS_BY_QUEUE:
		return (uint8_t)pair;
	default:
		return frame->priority; /* 0 without a record */
	}
}
