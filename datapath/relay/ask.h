/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a connected session asks ktsnd when a frame needs it: a flow, a destination. For timed frames each
 * waits for the reply, for KTSN_APP_TIMEOUT_MS at most; for untimed ones none waits, as timed ones would,
 * too. While a reply is still to come nothing else is asked; it counts whenever it comes.
 */
#ifndef KTSN_RELAY_ASK_H
#define KTSN_RELAY_ASK_H

#include "session.h"

/* Whether a reply is still to come, and has not been for KTSN_APP_TIMEOUT_MS. */
bool ask_is_answered_soon(const struct session *session, int64_t now_ns);

/* 0 when the flow is open; -EINPROGRESS while ktsnd is away, does not answer, or has no endpoint of the pod;
 * other refusals as they are. */
int ask_flow(struct session *session, uint32_t index, int64_t now_ns);

/* 0 with the destination of an open flow; -EINPROGRESS as above; -EDQUOT when too many were asked for lately;
 * -EPERM when ktsnd refuses the source; other refusals as they are. */
int ask_destination(struct session *session, const struct destination_key *key, int64_t now_ns,
		    struct destination **destination);

/* Asks anew about a destination that takes less than a frame has, if that was long ago: ktsnd may know of a
 * larger MTU. As ask_destination(). */
int ask_destination_again(struct session *session, struct destination **destination, int64_t now_ns);

/* A reply is there, or the connection is at its end. */
void ask_reply_take(struct session *session, int64_t now_ns);

#endif
