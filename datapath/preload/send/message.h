/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a msghdr as the kernel does: SCM_TXTIME, length and payload; address and control messages, which are
 * the key of its destination (ip_cmsg_send, ip6_datagram_send_ctl, packet_snd).
 *
 * musl declares the lengths of msghdr and cmsghdr as 32-bit numbers with padding where glibc (and the kernel)
 * have size_t, and leaves the padding undefined. No valid length needs more than 32 bits, so only those are
 * read. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_MESSAGE_H
#define KTSN_PRELOAD_MESSAGE_H

#include "app_protocol.h"
#include "socket_kind.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { SCM_TS_OPT_ID_TYPE = 81 /* SCM_TS_OPT_ID, since Linux 6.13 */ };

/* A control message, with its header read once. */
struct control {
	size_t offset;
	size_t bytes; /* header included, unaligned */
	int level;
	int type;
	const uint8_t *data;
};

/* control_at returns the control message at `offset`. 1, 0 at the end, -EINVAL where CMSG_OK() of the kernel
 * fails. */
int control_at(const struct msghdr *message, size_t offset, struct control *control);

/* control_end returns the offset of the next control message. */
size_t control_end(const struct control *control);

/*
 * message_txtime looks for SCM_TXTIME. 1 with *txtime_ns when there is one; 0 when there is none; -EINVAL for
 * control messages that the kernel refuses as malformed (net/core/sock.c, sock_cmsg_send).
 */
int message_txtime(const struct msghdr *message, int64_t *txtime_ns);

/* message_stamping reads the time stamps that a valid message asks for: *flags, of the socket's
 * SO_TIMESTAMPING, and *number where the message has one (SCM_TS_OPT_ID). Returns whether it has. */
bool message_stamping(const struct msghdr *message, uint32_t *flags, uint32_t *number);

/* message_payload_bytes returns the bytes of the iovec; -EMSGSIZE for more than UIO_MAXIOV pieces or 64 KiB.
 */
int message_payload_bytes(const struct msghdr *message);

/* message_bytes_over returns whether the payload is longer than max_bytes. */
bool message_bytes_over(const struct msghdr *message, size_t max_bytes);

/* message_payload_copy_after copies the payload after its first `skip_bytes` to `to`, at most
 * `capacity_bytes`, because another thread may change the iovec. Returns the number of bytes copied. */
size_t message_payload_copy_after(const struct msghdr *message, size_t skip_bytes, uint8_t *to,
				  size_t capacity_bytes);

static inline size_t message_payload_copy(const struct msghdr *message, uint8_t *to, size_t capacity_bytes)
{
	return message_payload_copy_after(message, 0, to, capacity_bytes);
}

/* message_control_without_txtime copies the control messages except SCM_TXTIME to `without`, of
 * capacity_bytes. Returns their length, or -EMSGSIZE when they do not fit. */
int message_control_without_txtime(const struct msghdr *message, uint8_t *without, size_t capacity_bytes);

/* The Ethernet header of a SOCK_RAW message: part of the key, not of the payload. */
enum { ETHERNET_HEADER_BYTES = 14 };

/*
 * message_destination_read fills in the key of the message's destination. 1 when the message has one; 0 when
 * it leaves everything to the socket; -errno as sendmsg returns it, -EOPNOTSUPP for what the kernel does and
 * a slot cannot hold.
 */
int message_destination_read(const struct msghdr *message, struct socket_kind kind, int fd,
			     struct ktsn_app_key *key);

#endif
