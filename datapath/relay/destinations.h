/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The destinations that ktsnd gave numbers: pairs of hardware addresses of a flow. The table is bounded; who
 * adds to a full one removes the destination that was not used for the longest time. Pure.
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
	uint16_t next; /* in the bucket; of a free one: among the free */
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

/* And marks it as used; NULL when there is none. */
struct destination *destinations_find(struct destinations *table, const struct destination_key *key);

/* A new one as the newest. NULL when the table is full. */
struct destination *destinations_add(struct destinations *table, const struct destination_key *key);

/* The one in that place of the table, below DESTINATIONS_MAX; NULL: none. It stays there. */
struct destination *destinations_at(struct destinations *table, uint32_t place);

/* Of two the one that was used before; NULL stands for before the first. NULL behind the last. */
struct destination *destinations_next_used(struct destinations *table, const struct destination *after);

void destinations_remove(struct destinations *table, struct destination *destination);

uint64_t destination_hash(const struct destination_key *key, uint64_t seed);

#endif
