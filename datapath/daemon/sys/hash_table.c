/* SPDX-License-Identifier: Apache-2.0 */
#include "hash_table.h"

#include <errno.h>
#include <stdlib.h>

enum { BUCKETS_MIN = 16 };

int hash_table_create(struct hash_table **created)
{
	struct hash_table *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	table->buckets = calloc(BUCKETS_MIN, sizeof(struct hash_entry *));
	if (!table->buckets) {
		free(table);
		return -ENOMEM;
	}
	table->bucket_count = BUCKETS_MIN;
	*created = table;
	return 0;
}

void hash_table_destroy(struct hash_table *table)
{
	if (table)
		free(table->buckets);
	free(table);
}

static struct hash_entry **bucket_of(const struct hash_table *table, uint32_t hash)
{
	return &table->buckets[hash & (table->bucket_count - 1)];
}

/* Splits a bucket into two, and keeps the order in each. */
static void bucket_split(const struct hash_table *table, struct hash_entry *entry)
{
	struct hash_entry **low = NULL, **high = NULL;
	const uint32_t bit = table->bucket_count / 2;

	for (struct hash_entry *next; entry; entry = next) {
		struct hash_entry ***end = entry->hash & bit ? &high : &low;

		next = entry->next;
		if (!*end)
			*end = bucket_of(table, entry->hash);
		**end = entry;
		*end = &entry->next;
		entry->next = NULL;
	}
}

/* Doubles the buckets. Without memory the chains become longer. */
static void grow(struct hash_table *table)
{
	struct hash_entry **previous = table->buckets;
	uint32_t count = table->bucket_count;
	struct hash_entry **buckets = calloc((size_t)2 * count, sizeof(struct hash_entry *));

	if (!buckets)
		return;
	table->buckets = buckets;
	table->bucket_count = 2 * count;
	for (uint32_t i = 0; i < count; i++)
		bucket_split(table, previous[i]);
	free(previous);
}

void hash_table_insert(struct hash_table *table, struct hash_entry *entry, uint32_t hash)
{
	struct hash_entry **bucket;

	if (table->count == table->bucket_count)
		grow(table);
	bucket = bucket_of(table, hash);
	*entry = (struct hash_entry){.next = *bucket, .hash = hash};
	*bucket = entry;
	table->count++;
}

void hash_table_remove(struct hash_table *table, struct hash_entry *entry)
{
	struct hash_entry **at = bucket_of(table, entry->hash);

	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	table->count--;
}

/* Returns the first entry with that hash, from an entry on. */
static struct hash_entry *find_from(struct hash_table *table, struct hash_entry *entry, uint32_t hash)
{
	while (entry) {
		table->compared++;
		if (entry->hash == hash)
			break;
		entry = entry->next;
	}
	return entry;
}

struct hash_entry *hash_table_first(struct hash_table *table, uint32_t hash)
{
	return find_from(table, *bucket_of(table, hash), hash);
}

struct hash_entry *hash_table_next(struct hash_table *table, const struct hash_entry *entry)
{
	return find_from(table, entry->next, entry->hash);
}

/* FNV-1a, with a last step that mixes the high bits into the low ones, which select the bucket. */
uint32_t hash_of(const void *bytes, size_t count, uint32_t hash)
{
	const uint8_t *byte = bytes;

	hash ^= 2166136261u;
	for (size_t i = 0; i < count; i++)
		hash = (hash ^ byte[i]) * 16777619u;
	return hash ^ hash >> 15;
}
