/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers sockets with ktsnd. It takes a round trip, and is therefore done once: when a socket is bound or
 * connected, or at its first timed message.
 *
 * Callable from any thread; the flow's lock serialises registrations of a socket.
 */
#ifndef KTSN_PRELOAD_REGISTRATION_H
#define KTSN_PRELOAD_REGISTRATION_H

#include "flow.h"
#include "session.h"

/* The result for a socket in a network namespace in which the pod has no endpoint. Outside the range of
 * errno. */
#define FLOW_WITHOUT_ENDPOINT (-0x10003)

/* flow_register registers the flow's socket, and binds it first if it is not bound, because sends through the
 * ring never do. 0, FLOW_WITHOUT_ENDPOINT or -errno. */
int flow_register(struct session *session, struct flow *flow, int fd);

/* flow_register_again registers the flow, again if need be. As flow_register(); after an error the flow is
 * unregistered, and the next timed send tries again. */
int flow_register_again(struct session *session, struct flow *flow, int fd);

/* flow_forget makes the next timed send register the flow again. */
void flow_forget(struct flow *flow);

/* flow_adopt registers a socket that came from another process, which set SO_TXTIME. 0, -ENOENT when ktsnd
 * does not know the socket, FLOW_WITHOUT_ENDPOINT or -errno. */
int flow_adopt(struct session *session, struct flow *flow, int fd);

/* flow_unregister reports to ktsnd that the socket is closed. */
void flow_unregister(struct flow *flow);

/* flow_open sends FLOW_OPEN or FLOW_ADOPT and takes the flow's number, connected destination and options from
 * the reply. The caller holds the registration lock and the flow's. 0, FLOW_WITHOUT_ENDPOINT or -errno. */
int flow_open(struct session *session, struct flow *flow, int fd, struct ktsn_app_request *request);

#endif
