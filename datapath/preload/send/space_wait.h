/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting of a send for space (space_notifier.h).
 *
 * The thread polls the socket's space notifier, which the pod's thread in ktsnd empties. ktsnd's loop wakes
 * no thread, so that sleeping threads cost it nothing. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_SPACE_WAIT_H
#define KTSN_PRELOAD_SPACE_WAIT_H

#include "flow.h"
#include "session.h"

/* space_try calls `attempt`. While that returns -EAGAIN and the call may block, it waits for space and calls
 * again. Returns the result of the last attempt, or -errno of the socket or the wait. */
long space_try(struct session *session, struct flow *flow, int fd, int flags, long (*attempt)(void *context),
	       void *context);

/* space_wait sleeps once, for slice_ns at most. 0: try again; -ETIMEDOUT: try again, and check that ktsnd is
 * alive; -EINTR. */
long space_wait(struct session *session, struct flow *flow, int64_t slice_ns);

#endif
