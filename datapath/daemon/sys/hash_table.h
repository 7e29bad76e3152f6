/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of embedded entries. It grows with them and has no copies of keys: the caller compares the
 * keys of entries with the same hash.
 *
 * One thread. Part of sys: below all other modules.
 */
#ifndef KTSN_SYS_HASH_TABLE_H
#define KTSN_SYS_HASH_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct hash_entry {
	struct hash_entry *next;
	uint32_t hash;
};

struct hash_table {
	struct hash_entry **buckets;
	uint32_t bucket_count; /* a power of two */
	uint32_t count;
	uint64_t compared; /* entries visited by look-ups, for tests and benchmarks */
};

/* 0 or -ENOMEM. */
int hash_table_create(struct hash_table **table);
/* Does not free the entries. NULL is harmless. */
void hash_table_destroy(struct hash_table *table);

/* Inserts an entry before others with the same hash. */
void hash_table_insert(struct hash_table *table, struct hash_entry *entry, uint32_t hash);
void hash_table_remove(struct hash_table *table, struct hash_entry *entry);

/* Iterate over the entries with a hash; NULL after the last. */
struct hash_entry *hash_table_first(struct hash_table *table, uint32_t hash);
struct hash_entry *hash_table_next(struct hash_table *table, const struct hash_entry *entry);

/* Hashes a part of a key, beginning with the hash of the previous parts; 0 for the first part. */
uint32_t hash_of(const void *bytes, size_t count, uint32_t hash);

#endif
