/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table of entries that are embedded in what they stand for. It grows with them and keeps no copy of a
 * key: whoever looks one up compares the entries of its hash.
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
	uint64_t compared; /* entries that look-ups have looked at: what they cost, for tests and benches */
};

/* 0 or -ENOMEM. */
int hash_table_create(struct hash_table **table);
/* Its entries are left alone. NULL is harmless. */
void hash_table_destroy(struct hash_table *table);

/* Of entries of one hash the youngest is found first. */
void hash_table_insert(struct hash_table *table, struct hash_entry *entry, uint32_t hash);
void hash_table_remove(struct hash_table *table, struct hash_entry *entry);

/* The entries of a hash, one after the other; NULL after the last. */
struct hash_entry *hash_table_first(struct hash_table *table, uint32_t hash);
struct hash_entry *hash_table_next(struct hash_table *table, const struct hash_entry *entry);

/* Goes on from `hash`, which is 0 for the first part of a key. */
uint32_t hash_of(const void *bytes, size_t count, uint32_t hash);

#endif
