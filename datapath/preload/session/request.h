/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to ktsnd, one at a time, each with its reply.
 *
 * If a reply does not arrive in time, the session remembers the request, and the next request waits for that
 * reply first. So a ktsnd that was stopped finds one request of each kind when it continues, not hundreds.
 * Callable from any thread.
 */
#ifndef KTSN_PRELOAD_REQUEST_H
#define KTSN_PRELOAD_REQUEST_H

#include "session.h"

#include <errno.h>

/* session_request sends a request, with a descriptor unless fd_to_pass is -1, and waits for its reply. 0,
 * when the reply's status may still be an error; -ETIMEDOUT when ktsnd did not answer or is away. */
int session_request(struct session *session, const struct ktsn_app_request *request, int fd_to_pass,
		    struct ktsn_app_reply *reply);

/* session_request_fds also receives the descriptors of the reply: received_fds has room for KTSN_CLIENT_FDS
 * (client.h), and is -1 where none came. */
int session_request_fds(struct session *session, const struct ktsn_app_request *request, int fd_to_pass,
			struct ktsn_app_reply *reply, int *received_fds);

/* request_premature returns whether the request may succeed later: ktsnd does not answer, or does not know
 * the pod's network yet. */
static inline bool request_premature(int err)
{
	return err == -ETIMEDOUT || err == -ENETDOWN;
}

#endif
