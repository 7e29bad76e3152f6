/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notifiers of a flow as a whole. Any thread.
 */
#ifndef KTSN_PRELOAD_NOTIFIERS_H
#define KTSN_PRELOAD_NOTIFIERS_H

#include "flow.h"
#include "session.h"

/* Hands the notifiers that there are to ktsnd: the flow was registered, or registered again. The registration
 * lock and the flow's lock are the caller's. */
void notifiers_register(struct session *session, struct flow *flow);

/* Closes all notifiers and their copies: the last descriptor of the socket is closed, or the process is a
 * child that inherited them. */
void notifiers_close(struct poll_state *state);

#endif
