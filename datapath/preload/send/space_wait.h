/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wait of a send for space (space_notifier.h).
 *
 * The thread waits as poll() does, on the socket's space notifier, which the pod's own thread in ktsnd
 * empties. ktsnd's loop wakes nobody: however many threads sleep, the cost is theirs. Any thread.
 */
#ifndef KTSN_PRELOAD_SPACE_WAIT_H
#define KTSN_PRELOAD_SPACE_WAIT_H

#include "flow.h"
#include "session.h"

/* Calls `attempt`. While that returns -EAGAIN and the call may block, waits for space and calls again. The
 * result of the last attempt, or -errno of the socket or the wait. */
long space_try(struct session *session, struct flow *flow, int fd, int flags, long (*attempt)(void *context),
	       void *context);

/* Sleeps once, for slice_ns at most. 0: look again; -ETIMEDOUT: look again, and check that ktsnd lives;
 * -EINTR. */
long space_wait(struct session *session, struct flow *flow, int64_t slice_ns);

#endif
