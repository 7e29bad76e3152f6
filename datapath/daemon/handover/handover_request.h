/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a successor asks for the hand-over: the only part of it in JSON (docs/control-protocol.md). Control
 * thread.
 */
#ifndef KTSN_DAEMON_HANDOVER_REQUEST_H
#define KTSN_DAEMON_HANDOVER_REQUEST_H

#include "instance.h"

/* For each of them. */
enum { HANDOVER_ANSWER_TIMEOUT_S = 10 };

/*
 * Asks, and waits until the predecessor begins to hand over or refuses. One of the release before this
 * request, which knows no age, is asked as it understands. 0: records follow; -EALREADY: it is younger than
 * `instance`; else -errno, -EAGAIN when no answer came. From now on nothing is waited for longer either.
 */
int handover_request(int fd, const struct instance *instance);

#endif
