/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a msghdr as the kernel reads it: SCM_TXTIME, length and payload.
 *
 * musl declares the lengths of msghdr and cmsghdr as 32-bit numbers with padding where glibc (and the
 * kernel) have size_t, and leaves the padding undefined; no valid length needs more than 32 bits, so only
 * those are read. Pure; any thread.
 */
#ifndef KTSN_PRELOAD_MESSAGE_H
#define KTSN_PRELOAD_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* One control message, with its header read once. */
struct control {
	size_t offset;
	size_t bytes; /* header included, unaligned */
	int level;
	int type;
	const uint8_t *data;
};

/* The control message at `offset`. 1, 0 at the end, -EINVAL where CMSG_OK() of the kernel fails. */
int control_at(const struct msghdr *message, size_t offset, struct control *control);

/* Where the next one begins. */
size_t control_end(const struct control *control);

/*
 * Looks for SCM_TXTIME. 1 with *txtime_ns when there is one; 0 when there is none; -EINVAL for control
 * messages that the kernel refuses as malformed (net/core/sock.c, sock_cmsg_send).
 */
int message_txtime(const struct msghdr *message, int64_t *txtime_ns);

/* Bytes of payload, all of the iovec; -EMSGSIZE for more than UIO_MAXIOV pieces or 64 KiB. */
int message_payload_bytes(const struct msghdr *message);

/* Whether the payload is longer than most_bytes. */
bool message_bytes_over(const struct msghdr *message, size_t most_bytes);

/* Copies the payload behind its first `skip_bytes` to `to`, at most `capacity_bytes` (another thread may
 * change the iovec meanwhile). Returns the number of bytes copied. */
size_t message_payload_copy_behind(const struct msghdr *message, size_t skip_bytes, uint8_t *to,
				   size_t capacity_bytes);

static inline size_t message_payload_copy(const struct msghdr *message, uint8_t *to, size_t capacity_bytes)
{
	return message_payload_copy_behind(message, 0, to, capacity_bytes);
}

/* A copy of `control` without SCM_TXTIME, in `without` (of capacity_bytes). Returns its length, or
 * -EMSGSIZE when it does not fit. */
int message_control_without_txtime(const struct msghdr *message, uint8_t *without, size_t capacity_bytes);

#endif
