/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timed datagram's way into the ring. Any thread.
 */
#ifndef KTSN_PRELOAD_SEND_H
#define KTSN_PRELOAD_SEND_H

#include "flow_table.h"

#include <sys/socket.h>

/* The message carries no transmit time: it is the kernel's. Outside the range of errno. */
#define SEND_NOT_TIMED (-0x10000)

/* Puts the message into the ring. Bytes sent, -errno as sendmsg gives it, or SEND_NOT_TIMED. */
long send_timed(struct flow *flow, int fd, const struct msghdr *message, int flags);

#endif
