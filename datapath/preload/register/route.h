/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route of a timed message: to a destination of ktsnd, or by the kernel. It is requested from ktsnd once
 * for each socket and destination. Callable from any thread.
 */
#ifndef KTSN_PRELOAD_ROUTE_H
#define KTSN_PRELOAD_ROUTE_H

#include "flow.h"
#include "session.h"

/* The message has no transmit time: the kernel sends it. Outside the range of errno. */
#define SEND_NOT_TIMED (-0x10000)

struct route {
	struct session *session;
	struct destination destination; /* with KTSN_APP_ROUTE_KERNEL only its route is filled in */
};

/* route_find finds the route for a key; NULL: for the connected destination. The caller sets route->session
 * to session_existing(). 0, SEND_NOT_TIMED or -errno as sendmsg returns it. */
long route_find(struct flow *flow, int fd, const struct ktsn_app_key *key, int flags, struct route *route);

#endif
