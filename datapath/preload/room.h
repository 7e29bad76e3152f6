/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wait of a send for space in the ring and in the socket's send buffer. Any thread.
 */
#ifndef KTSN_PRELOAD_ROOM_H
#define KTSN_PRELOAD_ROOM_H

#include "session.h"

struct flow;

/* Does what needs room, and while that is -EAGAIN and the call may block, waits and does it again. What it came to, or
 * -errno of the socket or the wait. */
long room_try(struct session *session, struct flow *flow, int fd, int flags, long (*attempt)(void *context),
	      void *context);

#endif
