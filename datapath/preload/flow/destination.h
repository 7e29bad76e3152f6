/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The destinations of a flow, as ktsnd answered them: the connected one, and the last few others.
 *
 * Any thread reads, also in a signal handler, without a lock. Writers hold the flow's lock; a version number
 * tells readers to read again (a sequence lock).
 */
#ifndef KTSN_PRELOAD_DESTINATION_H
#define KTSN_PRELOAD_DESTINATION_H

#include "app_protocol.h"

#include <stdatomic.h>

enum { FLOW_DESTINATIONS = 8 };

/* Whole words of 64 bits: compared and copied as such. */
struct destination {
	struct ktsn_app_key key; /* all 0 of the connected destination */
	uint32_t number;
	uint32_t route; /* enum ktsn_app_route; 0: empty entry */
	uint32_t payload_max_bytes;
	uint32_t lost;        /* 1: a restarted ktsnd refused it */
	uint64_t network_bit; /* in `refused` of the ring */
};

struct destinations {
	struct destination connected; /* route 0: the socket is not connected */
	struct destination others[FLOW_DESTINATIONS];
	_Atomic uint32_t version; /* odd while the two above change */
	uint32_t others_next;     /* the next entry to replace */
};

/* The destination in ktsnd's reply; its key is not filled in. */
struct destination destination_of_reply(const struct ktsn_app_reply *reply);

/* Replaces an entry of `destinations`. The flow's lock is the caller's. */
void destination_write(struct destinations *destinations, struct destination *entry,
		       struct destination value);

/* Copies the destination of that key, or the connected one when `key` is NULL; the key is not copied. 0;
 * -EDESTADDRREQ when the socket is not connected; -ENOENT when there is none of that key. */
int destination_find(const struct destinations *destinations, const struct ktsn_app_key *key,
		     struct destination *found);

#endif
