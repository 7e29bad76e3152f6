/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending a timed datagram through the ring, and joining several calls to one datagram: UDP_CORK and
 * MSG_MORE, as the kernel does it (net/ipv4/udp.c, udp_sendmsg). The first call decides time, address and
 * segments; of the others only the payload counts. A message whose first call went to the kernel, because it
 * had no time or another route, is joined by the kernel.
 *
 * Callable from any thread. The cork's lock comes before those of session.h; nobody waits for space while
 * holding it.
 */
#ifndef KTSN_PRELOAD_SEND_H
#define KTSN_PRELOAD_SEND_H

#include "route.h"

#include <sys/socket.h>

/* send_timed puts the message into the ring. Bytes sent, -errno as sendmsg returns it, or SEND_NOT_TIMED. */
long send_timed(struct flow *flow, int fd, const struct msghdr *message, int flags);

/* cork_concerns returns whether a call with these flags continues a message, or begins one that others
 * continue. */
bool cork_concerns(const struct flow *flow, int flags);

/* There is no message that the call could continue: send it as any other. Outside the range of errno. */
#define CORK_NOTHING (-0x10002)

/* cork_send sends a call of cork_concerns(), with a time or without. Bytes sent, -errno, or CORK_NOTHING. */
long cork_send(struct flow *flow, int fd, const struct msghdr *message, int flags);

/* cork_end sends the message, if it can, after UDP_CORK was cleared. */
void cork_end(struct flow *flow, int fd);

/* cork_abandon drops the message. Its slots are given back, unless the ring is another process's or of no use
 * any more. The caller holds the cork's lock, or nobody else uses the socket. */
void cork_abandon(struct cork *cork);

#endif
