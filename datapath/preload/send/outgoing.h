/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams on their way into the ring, of one call or of several that were joined: opened, filled in the
 * slots that ktsnd sends them from, and then published or dropped as a whole.
 *
 * One thread at a time; what is shared is under the lock of its owner.
 */
#ifndef KTSN_PRELOAD_OUTGOING_H
#define KTSN_PRELOAD_OUTGOING_H

#include "flow.h"

#include <sys/socket.h>

/* Reads all of the message but its payload, and finds its route. 0, SEND_NOT_TIMED or -errno as
 * sendmsg gives it. */
long outgoing_open(struct outgoing *outgoing, struct flow *flow, int fd, const struct msghdr *message,
		   int flags);

/* Finds the route again: the socket may have been connected to another address since. 0 or -errno; -EMSGSIZE
 * when a datagram is too long for it. */
long outgoing_route_again(struct outgoing *outgoing, struct flow *flow, int fd);

/* Appends the message's payload. The bytes of the message; -EAGAIN without space for all of it; or -errno. */
long outgoing_append(struct outgoing *outgoing, struct flow *flow, const struct msghdr *message);

/* Hands the datagrams to ktsnd. */
void outgoing_publish(struct outgoing *outgoing, struct flow *flow);

#endif
