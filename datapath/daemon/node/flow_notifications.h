/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifying applications that wait for a socket. `why` is NOTIFY_... of the loop. Control thread.
 */
#ifndef KTSN_DAEMON_FLOW_NOTIFICATIONS_H
#define KTSN_DAEMON_FLOW_NOTIFICATIONS_H

#include "flow.h"
#include "notifiers.h"

void flow_notify(struct flow *flow, uint32_t why);
/* The notifier becomes the flow's. */
void flow_notifier_set(struct flow *flow, struct notifier *notifier);
void flow_notifiers_close(struct flow *flow);
/* Notifies all flows that the loop wants to be notified. */
void notifications_serve(struct node *node);

#endif
