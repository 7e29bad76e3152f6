/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passes notifiers to ktsnd. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_NOTIFIER_H
#define KTSN_PRELOAD_NOTIFIER_H

#include "flow.h"
#include "session.h"

/* notifier_give passes a notifier to ktsnd; `why` is KTSN_APP_WAKE_.... The caller holds the registration
 * lock. 0; -errno: the socket works, but is not woken. */
int notifier_give(struct session *session, const struct flow *flow, uint16_t why, int fd);

/* notifier_register calls `give`, with the registration lock, the flow's and the poll state's held, if the
 * flow is registered. */
void notifier_register(struct flow *flow, void (*give)(struct session *session, struct flow *flow));

/* notifier_register_again calls notifier_register() unless *given: ktsnd has the notifier. It may not have
 * answered in time before. */
void notifier_register_again(struct flow *flow, _Atomic bool *given,
			     void (*give)(struct session *session, struct flow *flow));

/* flow_has_number returns whether the flow has a number of that session, which may be NULL. */
static inline bool flow_has_number(const struct session *session, const struct flow *flow)
{
	return session && flow->number_session == session->number;
}

#endif
