/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams on their way into the ring, of one call or of several that were joined: opened, filled in the
 * slots that ktsnd sends them from, and then published or dropped as a whole. And timed messages that do not
 * go through ktsnd: the pod's routes send them through another interface, or their socket is in a network
 * namespace without an endpoint.
 *
 * One thread at a time; shared state is under the lock of its owner.
 */
#ifndef KTSN_PRELOAD_OUTGOING_H
#define KTSN_PRELOAD_OUTGOING_H

#include "flow_table.h"
#include "session.h"

#include <sys/socket.h>

/* outgoing_open reads the message except its payload, and finds its route. 0, SEND_NOT_TIMED or -errno as
 * sendmsg returns it. */
long outgoing_open(struct outgoing *outgoing, struct flow *flow, int fd, const struct msghdr *message,
		   int flags);

/* outgoing_route_again finds the route again: the socket may have been connected to another address since. 0
 * or -errno; -EMSGSIZE when a datagram is too long for the route. */
long outgoing_route_again(struct outgoing *outgoing, struct flow *flow, int fd);

/* outgoing_append appends the message's payload. Bytes of the message, -EAGAIN without space for all of it,
 * or -errno. */
long outgoing_append(struct outgoing *outgoing, struct flow *flow, const struct msghdr *message);

/* outgoing_publish hands the datagrams to ktsnd. */
void outgoing_publish(struct outgoing *outgoing, struct flow *flow);

/* kernel_path_send has the kernel send the message now, and counts it. Bytes sent or -errno. */
long kernel_path_send(struct session *session, struct flow *flow, int fd, const struct msghdr *message,
		      int flags);

#endif
