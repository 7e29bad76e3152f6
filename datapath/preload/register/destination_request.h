/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for destinations: one for each key of a flow, until FLOW_DESTINATIONS newer ones have replaced it.
 * Callable from any thread.
 */
#ifndef KTSN_PRELOAD_DESTINATION_REQUEST_H
#define KTSN_PRELOAD_DESTINATION_REQUEST_H

#include "flow.h"
#include "session.h"

struct ktsn_app_request destination_request(const struct flow *flow, const struct ktsn_app_key *key);

/* flow_destination returns the destination of a key, or the connected one when `key` is NULL. It is a copy,
 * because another thread may connect the socket again. 0 or -errno as sendmsg returns it. */
int flow_destination(struct session *session, struct flow *flow, const struct ktsn_app_key *key,
		     struct destination *destination);

/* flow_destination_again requests the destination of a key although the flow has one. As flow_destination();
 * the other destinations of the flow stay. */
int flow_destination_again(struct session *session, struct flow *flow, const struct ktsn_app_key *key,
			   struct destination *destination);

#endif
