/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams on their way into the ring, of one call or of several that were joined: opened, filled where they will be
 * sent from, and then published or dropped as a whole.
 *
 * One thread at a time; what is shared is under the lock of its owner.
 */
#ifndef KTSN_PRELOAD_OUTGOING_H
#define KTSN_PRELOAD_OUTGOING_H

#include "app_protocol.h"
#include "slots.h"

#include <stdbool.h>

struct outgoing {
	struct session *session;
	uint32_t route; /* enum ktsn_app_route; of KTSN_APP_ROUTE_KERNEL nothing else is filled in */
	struct ktsn_ring_message described; /* of each, but for its length */
	struct ktsn_app_key key; /* where it goes, if `aimed`; else where the socket is connected */
	bool aimed;
	uint32_t datagram_max_bytes;
	uint32_t segment_bytes; /* of all but the last; 0: there is one */
	uint32_t bytes;         /* filled */
	struct slots slots;
};

/* Reads all that the message says beside its payload, and finds its way. 0, SEND_NOT_TIMED or -errno as sendmsg gives
 * it. */
long outgoing_open(struct outgoing *outgoing, struct flow *flow, int fd, const struct msghdr *message,
		   int flags);

/* Looks the way up again: the socket may have been connected to another address since. 0 or -errno. */
long outgoing_find_again(struct outgoing *outgoing, struct flow *flow, int fd);

/* Appends the message's payload. The bytes of the message; -EAGAIN without space for all of it; or -errno. */
long outgoing_append(struct outgoing *outgoing, struct flow *flow, const struct msghdr *message);

/* Hands it to ktsnd. */
void outgoing_publish(struct outgoing *outgoing, struct flow *flow);

#endif
