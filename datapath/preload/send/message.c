/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include "socket_options.h"

#include <errno.h>
#include <linux/net_tstamp.h>
#include <string.h>
#include <sys/uio.h>

enum { MAX_PIECES = 1024 /* UIO_MAXIOV */, MAX_PAYLOAD_BYTES = 65507 };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "musl's padding follows the length");

static size_t pieces_of(const struct msghdr *message)
{
	return (uint32_t)message->msg_iovlen;
}

int control_at(const struct msghdr *message, size_t offset, struct control *control)
{
	size_t total = message->msg_control ? (uint32_t)message->msg_controllen : 0;
	const uint8_t *base = message->msg_control;
	struct cmsghdr header;

	if (offset + sizeof(header) > total)
		return 0;
	memcpy(&header, base + offset, sizeof(header));
	control->offset = offset;
	control->bytes = (uint32_t)header.cmsg_len;
	control->level = header.cmsg_level;
	control->type = header.cmsg_type;
	control->data = base + offset + CMSG_LEN(0);
	if (control->bytes < sizeof(header) || control->bytes > total - offset)
		return -EINVAL;
	return 1;
}

size_t control_end(const struct control *control)
{
	return control->offset + CMSG_ALIGN(control->bytes);
}

static bool is_txtime(const struct control *control)
{
	return control->level == SOL_SOCKET && control->type == SCM_TXTIME;
}

int message_txtime(const struct msghdr *message, int64_t *txtime_ns)
{
	struct control control;
	int has_txtime = 0, more;

	for (size_t offset = 0; (more = control_at(message, offset, &control)) > 0;
	     offset = control_end(&control)) {
		if (!is_txtime(&control))
			continue;
		if (control.bytes != CMSG_LEN(sizeof(*txtime_ns)))
			return -EINVAL;
		memcpy(txtime_ns, control.data, sizeof(*txtime_ns)); /* may be unaligned */
		has_txtime = 1;
	}
	return more < 0 ? more : has_txtime;
}

bool message_stamping(const struct msghdr *message, uint32_t *flags, uint32_t *number)
{
	struct control control;
	bool numbered = false;
	uint32_t value;

	for (size_t offset = 0; control_at(message, offset, &control) > 0; offset = control_end(&control)) {
		if (control.level != SOL_SOCKET || control.bytes != CMSG_LEN(sizeof(value)))
			continue;
		memcpy(&value, control.data, sizeof(value));
		if (control.type == SO_TIMESTAMPING_OLD || control.type == SO_TIMESTAMPING_NEW)
			*flags = (*flags & ~(uint32_t)SOF_TIMESTAMPING_TX_RECORD_MASK) | value;
		if (control.type == SCM_TS_OPT_ID_TYPE) {
			*number = value;
			numbered = true;
		}
	}
	return numbered;
}

int message_payload_bytes(const struct msghdr *message)
{
	size_t bytes = 0;

	if (pieces_of(message) > MAX_PIECES)
		return -EMSGSIZE;
	for (size_t i = 0; i < pieces_of(message); i++) {
		if (message->msg_iov[i].iov_len > MAX_PAYLOAD_BYTES - bytes)
			return -EMSGSIZE;
		bytes += message->msg_iov[i].iov_len;
	}
	return (int)bytes;
}

bool message_bytes_over(const struct msghdr *message, size_t max_bytes)
{
	for (size_t i = 0; i < pieces_of(message) && i < MAX_PIECES; i++) {
		if (message->msg_iov[i].iov_len > max_bytes)
			return true;
		max_bytes -= message->msg_iov[i].iov_len;
	}
	return false;
}

size_t message_payload_copy_after(const struct msghdr *message, size_t skip_bytes, uint8_t *to,
				  size_t capacity_bytes)
{
	size_t copied = 0;

	for (size_t i = 0; i < pieces_of(message) && copied < capacity_bytes; i++) {
		const uint8_t *base = message->msg_iov[i].iov_base;
		size_t piece = message->msg_iov[i].iov_len;
		size_t skipped = skip_bytes < piece ? skip_bytes : piece;

		skip_bytes -= skipped;
		piece -= skipped;
		if (piece > capacity_bytes - copied)
			piece = capacity_bytes - copied;
		if (piece)
			memcpy(to + copied, base + skipped, piece);
		copied += piece;
	}
	return copied;
}

int message_control_without_txtime(const struct msghdr *message, uint8_t *without, size_t capacity_bytes)
{
	struct control control;
	size_t bytes = 0;

	for (size_t offset = 0; control_at(message, offset, &control) > 0; offset = control_end(&control)) {
		if (is_txtime(&control))
			continue;
		if (CMSG_ALIGN(control.bytes) > capacity_bytes - bytes)
			return -EMSGSIZE;
		memcpy(without + bytes, (const uint8_t *)message->msg_control + offset, control.bytes);
		bytes += CMSG_ALIGN(control.bytes);
	}
	return (int)bytes;
}
