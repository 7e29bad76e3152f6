/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Into which datagrams a message is cut: UDP_SEGMENT, as the kernel cuts (net/ipv4/udp.c, udp_cmsg_send,
 * udp_send_skb). Pure; any thread.
 */
#ifndef KTSN_PRELOAD_SEGMENT_H
#define KTSN_PRELOAD_SEGMENT_H

#include "cork_state.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Looks for UDP_SEGMENT. 0, and *segment_bytes is changed if the message has it; -EINVAL when it is
 * malformed, and for any other control message of UDP. */
int segment_read(const struct msghdr *message, uint32_t *segment_bytes);

/*
 * The number of datagrams of payload_bytes, of which each holds datagram_max_bytes; segment_bytes 0: the
 * message is not cut. 0; -EMSGSIZE when one is too long; -EINVAL when there are more than SEGMENTS_MAX.
 */
int segment_count(size_t payload_bytes, uint32_t segment_bytes, uint32_t datagram_max_bytes, uint32_t *count);

#endif
