/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications of applications that wait for a socket. `why` is NOTIFY_... of the loop. Control thread.
 */
#ifndef KTSN_DAEMON_FLOW_NOTIFICATIONS_H
#define KTSN_DAEMON_FLOW_NOTIFICATIONS_H

#include "flow.h"
#include "notifiers.h"

void flow_notify(struct flow *flow, uint32_t why);
/* The notifier becomes the flow's. */
void flow_notifier_set(struct flow *flow, struct notifier *notifier);
void flow_notifiers_close(struct flow *flow);
/* Notifies flows at the request of the loop: each at most once a millisecond, and those of a pod as often as
 * its quota allows. The others are deferred. */
void notifications_serve(struct node *node);
/* Notifies deferred flows that are due. Returns ms until the next one is due, or -1. */
int notifications_tick(struct node *node);
/* Removes a flow from the deferred ones before it is freed. */
void notifications_forget(struct node *node, const struct flow *flow);

#endif
