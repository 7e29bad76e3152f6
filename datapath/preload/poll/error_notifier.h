/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error notifier: a unix datagram socket on which the kernel raises EPOLLERR while a report of a dropped
 * message waits to be read (daemon/node/notifiers.c, docs/internals/decisions/0007). poll, select and epoll
 * wait for it together with the application's socket.
 *
 * ktsnd raises the error with a copy of the socket's peer: a connection to it that ends with unread data
 * returns ECONNRESET. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_ERROR_NOTIFIER_H
#define KTSN_PRELOAD_ERROR_NOTIFIER_H

#include "flow.h"
#include "session.h"

/* error_notifier_fd returns the notifier's descriptor. A new one is created and passed to ktsnd; -1 if that
 * fails. */
int error_notifier_fd(struct flow *flow);

/* error_notifier_set_exceptions follows SO_SELECT_ERR_QUEUE. */
void error_notifier_set_exceptions(struct flow *flow, bool exceptions);

/* error_notifier_settle ends the error if no report is left. */
void error_notifier_settle(struct session *session, struct flow *flow);

/* error_notifier_register passes an existing notifier to ktsnd. The caller holds the registration lock, the
 * flow's and the poll state's. */
void error_notifier_register(struct session *session, struct flow *flow);

#endif
