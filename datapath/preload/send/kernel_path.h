/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timed messages that do not go through ktsnd: the pod's routes send them through another interface, or their
 * socket is in a network namespace without an endpoint. Any thread.
 */
#ifndef KTSN_PRELOAD_KERNEL_PATH_H
#define KTSN_PRELOAD_KERNEL_PATH_H

#include "flow_table.h"
#include "session.h"

/* The kernel sends it, now, and it is counted. Bytes sent or -errno. */
long kernel_path_send(struct session *session, struct flow *flow, int fd, const struct msghdr *message,
		      int flags);

#endif
