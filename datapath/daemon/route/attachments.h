/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attachments: a pod on a network, however many interfaces it has there. What becomes of its messages while
 * the node's clock is lost to the network is said here to the loop, and to libktsn in the rings of the pod.
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

/* Wanted instead of a number: to have none. */
#define NETWORK_NUMBER_NONE UINT32_MAX

struct attachment {
	struct loop_attachment loop;
	bool known; /* to the loop: it comes back from there */
	uint32_t vni;
	const struct endpoint_set *set; /* of its pod, which may be gone: only to be compared */
	uint32_t number; /* from 1: of its bit in its pod's rings; 0: there are more networks than bits */
	enum loop_clock clock; /* what holds of its network (node/clocks.h) */
	uint32_t users;
	struct attachment *next; /* in routing's list */
};

/* That of the pod on that network, to be put when it is not used any more; NULL when out of memory. A new one
 * has the number that is wanted, if it is free, and the clock is good. */
struct attachment *attachment_get(struct routing *routing, const struct endpoint_set *set, uint32_t vni,
				  uint32_t number_wanted);
/* For a destination, which names it to the loop. */
void attachment_use(struct attachment *attachment);
/* NULL is harmless. */
void attachment_put(struct routing *routing, struct attachment *attachment);

/* In `refused` of a ring's header, and in replies to libktsn. */
uint64_t attachment_bit(const struct attachment *attachment);
/* Of all networks of a pod that refuse messages now. */
uint64_t attachments_refused(const struct endpoint_set *set);

/* Tells the loop of its clock. */
void attachment_clock_tell(const struct routing *routing, struct attachment *attachment);

#endif
