/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How ktsnd gets a notifier. Any thread.
 */
#ifndef KTSN_PRELOAD_NOTIFIER_H
#define KTSN_PRELOAD_NOTIFIER_H

#include "flow.h"
#include "session.h"

/* Hands ktsnd a notifier; `why` is KTSN_APP_WAKE_.... The registration lock is the caller's. 0 or -errno: the
 * socket works, and waits in vain. */
int notifier_give(struct session *session, const struct flow *flow, uint16_t why, int fd);

/* Calls `give` with the registration lock, the flow's and the poll state's held, if the flow is
 * registered. */
void notifier_register(struct flow *flow, void (*give)(struct session *session, struct flow *flow));

/* notifier_register(), unless ktsnd has the notifier, as *given says. ktsnd may have been too slow to answer
 * before. */
void notifier_register_again(struct flow *flow, _Atomic bool *given,
			     void (*give)(struct session *session, struct flow *flow));

/* Whether the flow has a number of that session, which may be NULL. */
static inline bool flow_has_number(const struct session *session, const struct flow *flow)
{
	return session && flow->number_session == session->number;
}

#endif
