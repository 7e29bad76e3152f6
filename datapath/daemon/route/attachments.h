/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attachments: a pod on a network, however many interfaces it has there. While the network has lost the
 * node's clock, the loop and libktsn (in the rings of the pod) learn from here what to do with its messages.
 *
 * Control thread. An attachment lives as long as an endpoint or a destination has it.
 */
#ifndef KTSN_DAEMON_ATTACHMENTS_H
#define KTSN_DAEMON_ATTACHMENTS_H

#include "endpoint.h"
#include "loop_objects.h"
#include "routing_state.h"

/* Bits of `refused` in a ring's header. */
enum { ATTACHMENT_NUMBERS = 64 };

/* A wanted number that asks for no number. */
#define NETWORK_NUMBER_NONE UINT32_MAX

struct attachment {
	struct loop_attachment loop;
	bool known; /* to the loop, which retires it */
	uint32_t vni;
	const struct endpoint_set *set; /* the pod's; it may be freed: only compared */
	uint32_t number;       /* number of its bit in its pod's rings, from 1; 0: more networks than bits */
	enum loop_clock clock; /* state of the clock for its network (node/clocks.h) */
	uint32_t users;
	struct attachment *next; /* in routing's list */
};

/* Returns the attachment of the pod to the network, to be released after use; NULL when there is no memory. A
 * new one has the wanted number, if it is free, and a good clock. */
struct attachment *attachment_get(struct routing *routing, const struct endpoint_set *set, uint32_t vni,
				  uint32_t number_wanted);
/* Adds a destination as a user, which passes the attachment to the loop. */
void attachment_use(struct attachment *attachment);
/* NULL is harmless. */
void attachment_put(struct routing *routing, struct attachment *attachment);

/* Returns its bit in `refused` of a ring's header and in replies to libktsn. */
uint64_t attachment_bit(const struct attachment *attachment);
/* Returns the bits of all networks of a pod that refuse messages now. */
uint64_t attachments_refused(const struct endpoint_set *set);

/* Sends the state of its clock to the loop. */
void attachment_clock_send(const struct routing *routing, struct attachment *attachment);

#endif
