/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of a message's destination: address and control messages of its msghdr, read as the kernel reads
 * them (ip_cmsg_send, ip6_datagram_send_ctl, packet_snd). Any thread.
 */
#ifndef KTSN_PRELOAD_MESSAGE_DESTINATION_H
#define KTSN_PRELOAD_MESSAGE_DESTINATION_H

#include "app_protocol.h"
#include "socket_kind.h"

#include <sys/socket.h>

/* Of a SOCK_RAW message: part of the key, and not of the payload. */
enum { ETHERNET_HEADER_BYTES = 14 };

/*
 * Fills in *key. 1 when the message says something; 0 when it leaves all to the socket; or -errno as sendmsg
 * gives it, -EOPNOTSUPP for what the kernel would do and a slot cannot hold.
 */
int message_destination_read(const struct msghdr *message, struct socket_kind kind, int fd,
			     struct ktsn_app_key *key);

#endif
