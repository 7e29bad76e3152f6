/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a datagram of the ring into an application's msghdr, as the kernel's udp_recvmsg() and
 * udpv6_recvmsg() do (net/ipv4/udp.c, net/ipv6/udp.c): the same control messages, in the same order. Pure;
 * any thread.
 */
#ifndef KTSN_PRELOAD_INBOX_MESSAGE_H
#define KTSN_PRELOAD_INBOX_MESSAGE_H

#include "receive_layout.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

struct inbox_message {
	const struct ktsn_receive_header *header;
	int family;            /* of the socket */
	uint32_t wants;        /* INBOX_WANTS_... */
	uint32_t dropped;      /* datagrams for which there was no space */
	struct timespec stamp; /* CLOCK_REALTIME when the datagram came, where the socket asked for it */
};

/* inbox_payload_copy copies the payload to the iovec. Returns the number of bytes that fit. */
size_t inbox_payload_copy(const struct msghdr *message, const uint8_t *payload, size_t bytes);

/* inbox_message_fill fills in address, control messages and flags. `copied` is the result of
 * inbox_payload_copy(). Returns as recvmsg(). */
size_t inbox_message_fill(const struct inbox_message *datagram, size_t copied, struct msghdr *message,
			  int flags);

#endif
