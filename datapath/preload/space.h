/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping until ktsnd gives a slot back, or room in the socket's send buffer.
 *
 * The thread waits as poll() does, on the socket's eventfd of waiting.h, which ktsnd empties in the pod's own thread. There is
 * nothing that ktsnd's sending thread would wake: however many threads sleep, it costs them and not others. Any thread.
 */
#ifndef KTSN_PRELOAD_SPACE_H
#define KTSN_PRELOAD_SPACE_H

#include "session.h"

struct flow;

/* Once, for slice_ns at most, of a socket that is registered. 0: look again; -ETIMEDOUT: likewise, and see whether ktsnd lives;
 * -EINTR. */
long space_wait(struct session *session, struct flow *flow, int64_t slice_ns);

#endif
