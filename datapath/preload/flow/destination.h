/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Destinations of a flow, as ktsnd returned them: the connected one, and the last few others.
 *
 * Any thread reads without a lock, also in a signal handler. Writers hold the flow's lock; readers read again
 * when the version number has changed (a sequence lock).
 */
#ifndef KTSN_PRELOAD_DESTINATION_H
#define KTSN_PRELOAD_DESTINATION_H

#include "app_protocol.h"

#include <stdatomic.h>

enum { FLOW_DESTINATIONS = 8 };

/* Compared and copied in words of 64 bits. */
struct destination {
	struct ktsn_app_key key; /* all 0 of the connected destination */
	uint32_t number;
	uint32_t route; /* enum ktsn_app_route; 0: empty entry */
	uint32_t payload_max_bytes;
	uint16_t lost;        /* 1: a restarted ktsnd refused it */
	uint16_t off_network; /* 1: KTSN_APP_OFF_NETWORK */
	uint64_t network_bit; /* in `refused` of the ring */
};

struct destinations {
	struct destination connected; /* route 0: the socket is not connected */
	struct destination others[FLOW_DESTINATIONS];
	_Atomic uint32_t version; /* odd while the two above change */
	uint32_t others_next;     /* the next entry to replace */
};

/* destination_of_reply returns the destination of a reply, without its key. */
struct destination destination_of_reply(const struct ktsn_app_reply *reply);

/* destination_write replaces an entry of `destinations`. The caller holds the flow's lock. */
void destination_write(struct destinations *destinations, struct destination *entry,
		       struct destination value);

/* destination_find copies the destination of a key, or the connected one when `key` is NULL; the key is not
 * copied. 0; -EDESTADDRREQ when the socket is not connected; -ENOENT when no destination has the key. */
int destination_find(const struct destinations *destinations, const struct ktsn_app_key *key,
		     struct destination *destination);

#endif
