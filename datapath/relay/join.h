/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a session comes to ktsnd. Without a ring it asks for one (HELLO). A ring that outlived the ktsnd before
 * is handed back, and ktsnd learns all that the frames in it refer to, under the numbers that its predecessor
 * gave: flows, destinations, RESUME. Each reply leads to the next request; nothing waits, so that one session
 * can join while the other's frames go on.
 */
#ifndef KTSN_RELAY_JOIN_H
#define KTSN_RELAY_JOIN_H

#include "session.h"

/* Connects as joining.fd and asks the first. 0, or -errno. */
int join_begin(struct session *session, int64_t now_ns);

/* With the reply that is there. 0 when ktsnd knows all; -EINPROGRESS; -EAGAIN when ktsnd does not know its
 * endpoints yet and is to be asked again, over a new connection; or -errno. What ktsnd refuses for long is
 * forgotten, and it drops the frames. */
int join_go_on(struct session *session, int64_t now_ns);

#endif
