/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of a connected session when a frame needs them: a flow, a destination. For timed frames a request
 * waits for the reply, for KTSN_APP_TIMEOUT_MS at most; for untimed frames it does not, because timed frames
 * would wait, too. Until a reply has come, no other request is sent; a late reply still counts.
 *
 * The relay's thread.
 */
#ifndef KTSN_RELAY_REQUESTS_H
#define KTSN_RELAY_REQUESTS_H

#include "session.h"

/* request_is_pending returns whether a request has no reply yet, and was sent less than KTSN_APP_TIMEOUT_MS
 * ago. */
bool request_is_pending(const struct session *session, int64_t now_ns);

/* request_flow opens a flow unless it is open. 0; -EINPROGRESS while ktsnd is away, does not answer, or has
 * no endpoint of the pod; the -errno of another refusal. */
int request_flow(struct session *session, uint32_t index, int64_t now_ns);

/* request_destination returns a destination of an open flow. 0; -EINPROGRESS as request_flow(); -EDQUOT when
 * too many new ones were requested lately; -EPERM when ktsnd refuses the source address; the -errno of
 * another refusal. */
int request_destination(struct session *session, const struct destination_key *key, int64_t now_ns,
			struct destination **destination);

/* request_destination_again requests a destination that takes less than a frame has, if the last request was
 * some time ago: its MTU may have grown. As request_destination(). */
int request_destination_again(struct session *session, struct destination **destination, int64_t now_ns);

/* request_reply_take handles a reply that has arrived, or the end of the connection. */
void request_reply_take(struct session *session, int64_t now_ns);

#endif
