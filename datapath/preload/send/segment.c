/* SPDX-License-Identifier: Apache-2.0 */
#include "segment.h"

#include "message.h"
#include "socket_options.h"

#include <errno.h>
#include <string.h>

enum { PAYLOAD_MAX_BYTES = 65507 /* of one call, or of those that are joined */ };

/* The last control message counts, as in the kernel. */
static int control_read(const struct control *control, uint32_t *segment_bytes)
{
	uint16_t bytes;

	if (control->type != UDP_SEGMENT || control->bytes != CMSG_LEN(sizeof(bytes)))
		return -EINVAL;
	memcpy(&bytes, control->data, sizeof(bytes));
	*segment_bytes = bytes;
	return 0;
}

int segment_read(const struct msghdr *message, uint32_t *segment_bytes)
{
	struct control control;
	int more, err = 0;

	for (size_t offset = 0; (more = control_at(message, offset, &control)) > 0 && !err;
	     offset = control_end(&control))
		if (control.level == SOL_UDP)
			err = control_read(&control, segment_bytes);
	return err ? err : more;
}

int segment_count(size_t payload_bytes, uint32_t segment_bytes, uint32_t datagram_max_bytes, uint32_t *count)
{
	size_t longest = segment_bytes && segment_bytes < payload_bytes ? segment_bytes : payload_bytes;
	size_t segments = longest ? (payload_bytes + longest - 1) / longest : 1;

	if (longest > datagram_max_bytes || payload_bytes > PAYLOAD_MAX_BYTES)
		return -EMSGSIZE;
	if (segments > SEGMENTS_MAX)
		return -EINVAL;
	*count = (uint32_t)segments;
	return 0;
}
