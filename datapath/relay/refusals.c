/* SPDX-License-Identifier: Apache-2.0 */
#include "refusals.h"

#include <string.h>

static uint64_t bucket_of(const struct refusals *refusals, const struct destination_key *key)
{
	return destination_hash(key, refusals->seed) % REFUSALS_MAX;
}

int refusals_find(const struct refusals *refusals, const struct destination_key *key, int64_t now_ns)
{
	const struct refusal *refusal = &refusals->entries[bucket_of(refusals, key)];

	return now_ns < refusal->until_ns && memcmp(&refusal->key, key, sizeof(*key)) == 0 ? refusal->reason
											   : 0;
}

void refusals_add(struct refusals *refusals, const struct destination_key *key, int reason, int64_t now_ns)
{
	refusals->entries[bucket_of(refusals, key)] =
		(struct refusal){.key = *key, .until_ns = now_ns + REFUSAL_NS, .reason = reason};
}

void refusals_forget(struct refusals *refusals)
{
	memset(refusals->entries, 0, sizeof(refusals->entries));
}

bool refusals_request_take(struct refusals *refusals, int64_t now_ns)
{
	const int64_t full_ns = (int64_t)NEW_DESTINATIONS_BURST * NEW_DESTINATION_INTERVAL_NS;

	if (refusals->bucket_empty_until_ns < now_ns - full_ns)
		refusals->bucket_empty_until_ns = now_ns - full_ns;
	if (refusals->bucket_empty_until_ns > now_ns - NEW_DESTINATION_INTERVAL_NS)
		return false;
	refusals->bucket_empty_until_ns += NEW_DESTINATION_INTERVAL_NS;
	return true;
}
