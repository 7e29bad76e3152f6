/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Destinations that ktsnd is asked for: once for each key of a flow, unless FLOW_DESTINATIONS newer ones have
 * replaced it. Any thread.
 */
#ifndef KTSN_PRELOAD_DESTINATION_REQUEST_H
#define KTSN_PRELOAD_DESTINATION_REQUEST_H

#include "flow.h"
#include "session.h"

struct ktsn_app_request destination_request(const struct flow *flow, const struct ktsn_app_key *key);

/* The destination of a message: the key's, or the connected one when `key` is NULL. A copy, because
 * another thread may connect the socket anew. 0 or -errno as sendmsg gives it. */
int flow_destination(struct session *session, struct flow *flow, const struct ktsn_app_key *key,
		     struct destination *destination);

#endif
