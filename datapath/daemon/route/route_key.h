/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what an application asks for to what the pod's routing table is asked: the ends of a datagram, by the
 * key that the library sends and by the socket. Control thread.
 */
#ifndef KTSN_DAEMON_ROUTE_KEY_H
#define KTSN_DAEMON_ROUTE_KEY_H

#include "app_protocol.h"
#include "namespace.h"
#include "socket_identity.h"

/* A datagram's ends, and where it must leave. */
struct route_key {
	struct ktsn_address destination;
	struct ktsn_address source; /* any: the routes decide */
	uint16_t port_be;
	uint32_t interface; /* 0: the routes decide */
	bool group;         /* multicast */
};

/* Of a message of a socket in `ns`. 0, or -errno as sendmsg gives it. */
int route_key_make(const struct ktsn_app_key *asked, const struct socket_attributes *attributes,
		   const struct namespace *ns, struct route_key *key);

#endif
