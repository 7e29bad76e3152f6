/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Into which datagrams a message is cut: UDP_SEGMENT, as the kernel cuts (net/ipv4/udp.c, udp_cmsg_send, udp_send_skb).
 * Pure; any thread.
 */
#ifndef KTSN_PRELOAD_SEGMENT_H
#define KTSN_PRELOAD_SEGMENT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { SEGMENTS_MAX = 128 /* UDP_MAX_SEGMENTS since Linux 6.9; 64 before */ };

/* Looks for UDP_SEGMENT. 0, and *segment_bytes is changed if the message says it; -EINVAL for what is malformed and for any
 * other control message of UDP. */
int segment_read(const struct msghdr *message, uint32_t *segment_bytes);

/*
 * How many datagrams there are of payload_bytes, of which one holds datagram_max_bytes; segment_bytes 0: it is not cut. 0;
 * -EMSGSIZE when one is too long; -EINVAL when there are too many.
 */
int segment_count(size_t payload_bytes, uint32_t segment_bytes, uint32_t datagram_max_bytes, uint32_t *count);

#endif
