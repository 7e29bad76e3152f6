/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timed datagram's path into the ring. Any thread.
 */
#ifndef KTSN_PRELOAD_SEND_H
#define KTSN_PRELOAD_SEND_H

#include "route.h"

#include <sys/socket.h>

/* Puts the message into the ring. Bytes sent, -errno as sendmsg gives it, or SEND_NOT_TIMED. */
long send_timed(struct flow *flow, int fd, const struct msghdr *message, int flags);

#endif
