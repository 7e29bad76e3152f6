/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UDP_SEGMENT: cutting a message into datagrams as the kernel does (net/ipv4/udp.c, udp_cmsg_send,
 * udp_send_skb). Pure.
 */
#ifndef KTSN_PRELOAD_SEGMENT_H
#define KTSN_PRELOAD_SEGMENT_H

#include "cork_state.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* segment_read looks for UDP_SEGMENT. 0, with *segment_bytes changed if the message has it; -EINVAL when it
 * is malformed, and for other control messages of UDP. */
int segment_read(const struct msghdr *message, uint32_t *segment_bytes);

/*
 * segment_count returns the number of datagrams for payload_bytes, of datagram_max_bytes each; segment_bytes
 * 0: the message is not cut. 0; -EMSGSIZE when a datagram is too long; -EINVAL for more than SEGMENTS_MAX.
 */
int segment_count(size_t payload_bytes, uint32_t segment_bytes, uint32_t datagram_max_bytes, uint32_t *count);

#endif
