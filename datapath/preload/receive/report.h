/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports of dropped messages, read from the ring as from the socket's error queue. Any thread.
 */
#ifndef KTSN_PRELOAD_REPORT_H
#define KTSN_PRELOAD_REPORT_H

#include "flow.h"
#include "session.h"

/* Takes the oldest report of the flow into the application's msghdr. Bytes copied, or -EAGAIN when there is
 * none. */
ssize_t report_receive(struct session *session, struct flow *flow, int fd, struct msghdr *message, int flags);

#endif
