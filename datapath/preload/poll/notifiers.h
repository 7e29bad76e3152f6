/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All notifiers of a flow. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_NOTIFIERS_H
#define KTSN_PRELOAD_NOTIFIERS_H

#include "flow.h"
#include "session.h"

/* notifiers_register passes the existing notifiers to ktsnd after the flow was registered. The caller holds
 * the registration lock and the flow's lock. */
void notifiers_register(struct session *session, struct flow *flow);

/* notifiers_close closes all notifiers and their copies, when the last descriptor of the socket is closed,
 * and in a child that inherited them. */
void notifiers_close(struct poll_state *state);

#endif
