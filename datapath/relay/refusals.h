/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of requests, so that a flood of new addresses does not become a flood of requests: refused
 * destinations are remembered for some time, and new ones requested at a limited rate. Pure.
 */
#ifndef KTSN_RELAY_REFUSALS_H
#define KTSN_RELAY_REFUSALS_H

#include "destinations.h"

enum {
	REFUSALS_MAX = 256,
	/* After this time a refused destination is requested again: ktsnd may know it by then. */
	REFUSAL_NS = 1000000000,
	NEW_DESTINATIONS_BURST = 64,
	NEW_DESTINATION_INTERVAL_NS = 1000000,
};

struct refusal {
	struct destination_key key;
	int64_t until_ns;
	int reason; /* -errno */
};

/* Zero except the seed at first. */
struct refusals {
	uint64_t seed;
	int64_t bucket_empty_until_ns; /* the bucket of requests fills from here on */
	struct refusal entries[REFUSALS_MAX];
};

/* refusals_find returns the -errno with which the destination was refused lately, or 0. */
int refusals_find(const struct refusals *refusals, const struct destination_key *key, int64_t now_ns);

/* refusals_add remembers a refusal, in place of another one of the same bucket. */
void refusals_add(struct refusals *refusals, const struct destination_key *key, int reason, int64_t now_ns);

void refusals_forget(struct refusals *refusals);

/* refusals_request_take returns whether another destination may be requested now, and counts it. */
bool refusals_request_take(struct refusals *refusals, int64_t now_ns);

#endif
