/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a message goes and what it carries beside payload and time, read from its msghdr as the kernel reads it
 * (ip_cmsg_send, ip6_datagram_send_ctl, packet_snd). Any thread.
 */
#ifndef KTSN_PRELOAD_AIM_H
#define KTSN_PRELOAD_AIM_H

#include "app_protocol.h"

#include <stdbool.h>
#include <sys/socket.h>

enum { AIM_ETHERNET_HEADER_BYTES = 14 };

/* What kind of socket it is; the last two are of AF_PACKET only. */
struct socket_kind {
	uint16_t domain; /* AF_INET, AF_INET6 or AF_PACKET */
	bool raw;        /* SOCK_RAW: the message begins with its Ethernet header */
};

/* Whether ktsnd sends for it, and of which kind it is then. */
bool socket_kind_read(int fd, struct socket_kind *kind);

/*
 * Fills in *key. 1 when the message says something; 0 when it leaves all to the socket; or -errno as sendmsg gives
 * it, -EOPNOTSUPP for what the kernel would do and a slot cannot hold.
 */
int aim_read(const struct msghdr *message, struct socket_kind kind, int fd, struct ktsn_app_key *key);

#endif
