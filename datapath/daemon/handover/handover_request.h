/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a successor asks for the hand-over: the only part of it in JSON (docs/control-protocol.md). Control
 * thread.
 */
#ifndef KTSN_DAEMON_HANDOVER_REQUEST_H
#define KTSN_DAEMON_HANDOVER_REQUEST_H

#include "instance.h"

/*
 * Asks, and waits until the predecessor begins to hand over or refuses. One of the release before this
 * request, which knows no age, is asked as it understands. 0: records follow; -EALREADY: it is younger than
 * `instance`; else -errno.
 */
int handover_request(int fd, const struct instance *instance);

#endif
