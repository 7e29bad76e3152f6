/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of destinations that have a number of ktsnd: pairs of hardware addresses of a flow. It is
 * bounded; before adding to a full table the caller removes the least recently used destination. Pure.
 */
#ifndef KTSN_RELAY_DESTINATIONS_H
#define KTSN_RELAY_DESTINATIONS_H

#include "captured_frame.h"

enum { DESTINATIONS_MAX = 1024, DESTINATION_BUCKETS = 2048 };

/* Compared as bytes. */
struct destination_key {
	uint8_t addresses[FRAME_ADDRESSES_BYTES];
	uint32_t flow; /* index in the session */
};
static_assert(sizeof(struct destination_key) == 16, "compared as bytes");

struct destination {
	struct destination_key key;
	uint32_t number;
	uint32_t payload_max_bytes;
	uint64_t network_bit; /* in `refused` of the ring */
	int64_t requested_ns; /* CLOCK_MONOTONIC: the last request */
	bool used;
	/* Places in the table. */
	uint16_t next; /* in the bucket, or in the list of free entries */
	uint16_t newer, older;
};

struct destinations {
	uint64_t seed; /* so that a sender cannot choose a bucket */
	uint32_t count;
	uint16_t newest, oldest, free;
	uint16_t buckets[DESTINATION_BUCKETS];
	struct destination entries[DESTINATIONS_MAX];
};

void destinations_init(struct destinations *table, uint64_t seed);

/* destinations_find returns a destination and marks it as used; NULL when there is none. */
struct destination *destinations_find(struct destinations *table, const struct destination_key *key);

/* destinations_add adds a destination as the last used one. NULL when the table is full. */
struct destination *destinations_add(struct destinations *table, const struct destination_key *key);

/* destinations_at returns the destination at a place below DESTINATIONS_MAX, which does not change; NULL:
 * none. */
struct destination *destinations_at(struct destinations *table, uint32_t place);

/* destinations_next_used returns the destination that was used next after another one; after NULL the least
 * recently used one. NULL after the last one. */
struct destination *destinations_next_used(struct destinations *table, const struct destination *after);

void destinations_remove(struct destinations *table, struct destination *destination);

uint64_t destination_hash(const struct destination_key *key, uint64_t seed);

#endif
