/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to ktsnd, one at a time, each with its reply.
 *
 * A request whose reply does not come in time stays noted in the session, and the next one waits for that
 * reply first. So a ktsnd that stands still finds one request of each kind when it goes on, and not hundreds.
 * Any thread.
 */
#ifndef KTSN_PRELOAD_REQUEST_H
#define KTSN_PRELOAD_REQUEST_H

#include "session.h"

#include <errno.h>

/* Sends a request, with a descriptor if fd_to_pass is not -1, and waits for its reply. 0 (the reply's own
 * status may still be an error), or -ETIMEDOUT when ktsnd did not answer, or is away. */
int session_request(struct session *session, const struct ktsn_app_request *request, int fd_to_pass,
		    struct ktsn_app_reply *reply);

/* The same for a reply with descriptors, of which received_fds has room for HANDSHAKE_FDS (handshake.h): -1
 * where none came. */
int session_request_fds(struct session *session, const struct ktsn_app_request *request, int fd_to_pass,
			struct ktsn_app_reply *reply, int *received_fds);

/* Whether the outcome of a request may change by itself: ktsnd does not answer, or does not know the pod's
 * network yet. */
static inline bool request_premature(int err)
{
	return err == -ETIMEDOUT || err == -ENETDOWN;
}

#endif
