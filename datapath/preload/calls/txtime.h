/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SO_TXTIME of setsockopt() and getsockopt(), which makes a socket a flow. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_TXTIME_H
#define KTSN_PRELOAD_TXTIME_H

#include "flow.h"

#include <sys/socket.h>

/* txtime_set implements setsockopt(SO_TXTIME). 0 or -errno for the application. */
int txtime_set(int fd, const void *value, socklen_t bytes);

/* txtime_get implements getsockopt(SO_TXTIME). Returns false when the kernel is to answer. */
bool txtime_get(int fd, void *value, socklen_t *bytes);

/* flow_refresh_await registers the flow again. If ktsnd does not answer, it waits as a blocking call on the
 * socket does. */
void flow_refresh_await(struct flow *flow, int fd);

#endif
