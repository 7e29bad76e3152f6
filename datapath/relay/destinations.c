/* SPDX-License-Identifier: Apache-2.0 */
#include "destinations.h"

#include <string.h>

enum { NONE = UINT16_MAX };

/* Multiplication spreads each bit upwards, the shift brings it back down. */
static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

uint64_t destination_hash(const struct destination_key *key, uint64_t seed)
{
	uint64_t words[2];

	memcpy(words, key, sizeof(words));
	return mix(mix(mix(seed, words[0]), words[1]), seed);
}

static uint16_t *bucket_of(struct destinations *table, const struct destination_key *key)
{
	return &table->buckets[destination_hash(key, table->seed) % DESTINATION_BUCKETS];
}

static uint16_t place_of(const struct destinations *table, const struct destination *destination)
{
	return (uint16_t)(destination - table->entries);
}

void destinations_init(struct destinations *table, uint64_t seed)
{
	*table = (struct destinations){.seed = seed, .newest = NONE, .oldest = NONE};
	for (int i = 0; i < DESTINATION_BUCKETS; i++)
		table->buckets[i] = NONE;
	for (int i = 0; i < DESTINATIONS_MAX; i++)
		table->entries[i].next = i + 1 < DESTINATIONS_MAX ? (uint16_t)(i + 1) : NONE;
}

/* ---- the order of use ---- */

static void use_remove(struct destinations *table, const struct destination *destination)
{
	if (destination->newer == NONE)
		table->newest = destination->older;
	else
		table->entries[destination->newer].older = destination->older;
	if (destination->older == NONE)
		table->oldest = destination->newer;
	else
		table->entries[destination->older].newer = destination->newer;
}

static void use_add(struct destinations *table, struct destination *destination)
{
	uint16_t place = place_of(table, destination);

	destination->newer = NONE;
	destination->older = table->newest;
	if (table->newest == NONE)
		table->oldest = place;
	else
		table->entries[table->newest].newer = place;
	table->newest = place;
}

static void use(struct destinations *table, struct destination *destination)
{
	if (table->newest == place_of(table, destination))
		return;
	use_remove(table, destination);
	use_add(table, destination);
}

struct destination *destinations_next_used(struct destinations *table, const struct destination *after)
{
	uint16_t place = after ? after->newer : table->oldest;

	return place == NONE ? NULL : &table->entries[place];
}

/* ---- the table ---- */

struct destination *destinations_at(struct destinations *table, uint32_t place)
{
	return table->entries[place].used ? &table->entries[place] : NULL;
}

struct destination *destinations_find(struct destinations *table, const struct destination_key *key)
{
	for (uint16_t place = *bucket_of(table, key); place != NONE; place = table->entries[place].next) {
		struct destination *destination = &table->entries[place];

		if (memcmp(&destination->key, key, sizeof(*key)) == 0) {
			use(table, destination);
			return destination;
		}
	}
	return NULL;
}

struct destination *destinations_add(struct destinations *table, const struct destination_key *key)
{
	uint16_t *bucket = bucket_of(table, key), place = table->free;
	struct destination *destination;

	if (place == NONE)
		return NULL;
	destination = &table->entries[place];
	table->free = destination->next;
	*destination = (struct destination){.key = *key, .next = *bucket, .used = true};
	*bucket = place;
	use_add(table, destination);
	table->count++;
	return destination;
}

void destinations_remove(struct destinations *table, struct destination *destination)
{
	uint16_t *place = bucket_of(table, &destination->key), own = place_of(table, destination);

	while (*place != own)
		place = &table->entries[*place].next;
	*place = destination->next;
	use_remove(table, destination);
	destination->used = false;
	destination->next = table->free;
	table->free = own;
	table->count--;
}
