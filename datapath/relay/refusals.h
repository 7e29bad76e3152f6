/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What keeps a flood of new addresses from becoming a flood of requests: refused destinations are remembered
 * for a while, and new ones asked for at a limited rate. Pure.
 */
#ifndef KTSN_RELAY_REFUSALS_H
#define KTSN_RELAY_REFUSALS_H

#include "destinations.h"

enum {
	REFUSALS_MAX = 256,
	/* Until a refused destination is asked for again: ktsnd may have been told of it meanwhile. */
	REFUSAL_NS = 1000000000,
	NEW_DESTINATIONS_BURST = 64,
	NEW_DESTINATION_INTERVAL_NS = 1000000,
};

struct refusal {
	struct destination_key key;
	int64_t until_ns;
	int reason; /* -errno */
};

/* All 0 at first, but for the seed. */
struct refusals {
	uint64_t seed;
	int64_t bucket_empty_until_ns; /* the bucket of requests fills from here on */
	struct refusal entries[REFUSALS_MAX];
};

/* 0, or the -errno with which that destination was refused a while ago. */
int refusals_find(const struct refusals *refusals, const struct destination_key *key, int64_t now_ns);

/* In the place of another of the same bucket. */
void refusals_add(struct refusals *refusals, const struct destination_key *key, int reason, int64_t now_ns);

void refusals_forget(struct refusals *refusals);

/* Whether another destination may be asked for now. */
bool refusals_request_take(struct refusals *refusals, int64_t now_ns);

#endif
