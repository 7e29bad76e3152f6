/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route of a timed message: through ktsnd, and to which of its destinations, or by the kernel. Asks ktsnd
 * once for each socket and destination, and waits for its answer. Any thread.
 */
#ifndef KTSN_PRELOAD_ROUTE_H
#define KTSN_PRELOAD_ROUTE_H

#include "flow.h"
#include "session.h"

/* The message has no transmit time: it is the kernel's. Outside the range of errno. */
#define SEND_NOT_TIMED (-0x10000)

struct route {
	struct session *session;
	struct destination destination; /* of KTSN_APP_ROUTE_KERNEL only its route is filled in */
};

/* key: NULL for the connected destination. route->session: session_existing() of the caller. 0,
 * SEND_NOT_TIMED or -errno as sendmsg gives it. */
long route_find(struct flow *flow, int fd, const struct ktsn_app_key *key, int flags, struct route *route);

#endif
