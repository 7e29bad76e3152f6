/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes sockets known to ktsnd. Slow (a round trip each), and therefore done once: when a socket is bound or
 * connected, or at its first timed message.
 *
 * Any thread; the flow's lock serialises registrations of one socket.
 */
#ifndef KTSN_PRELOAD_REGISTRATION_H
#define KTSN_PRELOAD_REGISTRATION_H

#include "flow.h"
#include "session.h"

/* ktsnd's answer for a socket in a network namespace in which the pod has no endpoint. Outside the range of
 * errno. */
#define FLOW_WITHOUT_ENDPOINT (-0x10003)

/* Registers the flow's socket, binding it first if it is not bound: captured sends never autobind.
 * 0, FLOW_WITHOUT_ENDPOINT or -errno. */
int flow_register(struct session *session, struct flow *flow, int fd);

/* Registers, or registers anew. 0 or as above: then the flow counts as unregistered, and the next timed send
 * tries again. */
int flow_register_anew(struct session *session, struct flow *flow, int fd);

/* The next timed send registers the flow anew. */
void flow_forget(struct flow *flow);

/* Makes known a socket that came from another process, which asked for SO_TXTIME on it. 0, -ENOENT when
 * ktsnd knows no such socket, FLOW_WITHOUT_ENDPOINT or -errno. */
int flow_adopt(struct session *session, struct flow *flow, int fd);

/* Tells ktsnd that the socket is closed. */
void flow_unregister(struct flow *flow);

/* Sends FLOW_OPEN or FLOW_ADOPT and takes the flow's number, its connected destination and its options from
 * the reply. The registration lock and the flow's are the caller's. 0, FLOW_WITHOUT_ENDPOINT or -errno. */
int flow_open(struct session *session, struct flow *flow, int fd, struct ktsn_app_request *request);

#endif
