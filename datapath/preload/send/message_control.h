/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control messages that override what a socket says: PKTINFO, TTL, TOS, priority. Any thread.
 */
#ifndef KTSN_PRELOAD_MESSAGE_CONTROL_H
#define KTSN_PRELOAD_MESSAGE_CONTROL_H

#include "app_protocol.h"
#include "socket_kind.h"

#include <sys/socket.h>

/* Reads all control messages but SCM_TXTIME (message.h) and those of UDP (segment.h) into *key, whose address
 * is filled in. 0 or -errno as message_destination_read(). */
int message_controls_read(const struct msghdr *message, struct socket_kind kind, int fd,
			  struct ktsn_app_key *key);

#endif
