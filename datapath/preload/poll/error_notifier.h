/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error notifier: a unix datagram socket on which the kernel raises EPOLLERR while a report of a dropped
 * message waits to be read (daemon/node/notifiers.c, docs/decisions/0007). poll, select and epoll wait for it
 * beside the application's socket.
 *
 * ktsnd raises the error by a copy of the socket's peer: a connection to it that ends with data unread is
 * ECONNRESET. Any thread.
 */
#ifndef KTSN_PRELOAD_ERROR_NOTIFIER_H
#define KTSN_PRELOAD_ERROR_NOTIFIER_H

#include "flow.h"
#include "session.h"

/* The notifier's descriptor, which is made and handed to ktsnd if there is none; -1 when there can be
 * none. */
int error_notifier_fd(struct flow *flow);

/* The application set SO_SELECT_ERR_QUEUE. */
void error_notifier_set_exceptions(struct flow *flow, bool exceptions);

/* A report was read, or looked for in vain: the error ends, if no report is left. */
void error_notifier_settle(struct session *session, struct flow *flow);

/* Hands an existing notifier to ktsnd. The registration lock, the flow's and the poll state's are the
 * caller's. */
void error_notifier_register(struct session *session, struct flow *flow);

#endif
