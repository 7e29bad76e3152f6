/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SO_TXTIME of setsockopt() and getsockopt(): how a socket becomes a flow. Any thread.
 */
#ifndef KTSN_PRELOAD_TXTIME_H
#define KTSN_PRELOAD_TXTIME_H

#include "flow.h"

#include <sys/socket.h>

/* setsockopt(SO_TXTIME). 0 or -errno for the application. */
int txtime_set(int fd, const void *value, socklen_t bytes);

/* getsockopt(SO_TXTIME). False when the kernel's own answer is the right one. */
bool txtime_get(int fd, void *value, socklen_t *bytes);

/* Registers the flow anew, and waits for a ktsnd that does not answer as a blocking call on the socket
 * would. */
void flow_refresh_await(struct flow *flow, int fd);

#endif
