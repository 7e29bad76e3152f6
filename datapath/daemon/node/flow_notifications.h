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
/* Notifies the flows that the loop wants to be notified, each once a millisecond at most, and those of a pod
 * as often as its quota allows; the others are due later. */
void notifications_serve(struct node *node);
/* Notifies flows that were left out before and are due. Returns ms until the next one is due, -1: none. */
int notifications_tick(struct node *node);
/* Removes a flow that will be freed from the flows that are due later. */
void notifications_forget(struct node *node, const struct flow *flow);

#endif
