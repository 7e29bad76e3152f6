/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several calls that send one message: UDP_CORK and MSG_MORE, as the kernel joins them (net/ipv4/udp.c,
 * udp_sendmsg). The first call decides time, address and segments; of the others only the payload counts. A
 * message whose first call went to the kernel, having no time or another route, is joined by the kernel.
 *
 * Any thread. The cork's lock comes before those of session.h; nobody waits for space while holding it.
 */
#ifndef KTSN_PRELOAD_CORK_H
#define KTSN_PRELOAD_CORK_H

#include "flow.h"

#include <sys/socket.h>

/* Whether a call with these flags continues a message, or begins one that others continue. */
bool cork_concerns(const struct flow *flow, int flags);

/* No message is left that the call could continue: send it as any other. Outside the range of errno. */
#define CORK_NOTHING (-0x10002)

/* Sends a call of cork_concerns(), with a time or without. Bytes sent, -errno, or CORK_NOTHING. */
long cork_send(struct flow *flow, int fd, const struct msghdr *message, int flags);

/* UDP_CORK was taken away: the message leaves, if it can. */
void cork_end(struct flow *flow, int fd);

/* Drops the message. Its slots are given back, unless the ring is another process's or of no use any more.
 * The cork's lock is the caller's, or nobody else uses the socket. */
void cork_abandon(struct cork *cork);

#endif
