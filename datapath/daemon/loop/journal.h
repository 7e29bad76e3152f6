/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last records of something, numbered from 1. One thread writes and never waits; one reads, and is told
 * what was overwritten before it came.
 *
 * A record is a number of 64-bit words; `kept` records are in `words`, one after the other.
 */
#ifndef KTSN_LOOP_JOURNAL_H
#define KTSN_LOOP_JOURNAL_H

#include <stdatomic.h>
#include <stdint.h>

struct journal {
	_Atomic uint64_t *last; /* number of the newest complete record; 0: none yet */
	_Atomic uint64_t *words;
	uint32_t kept; /* a power of two: the writer must not divide */
	uint32_t record_words;
};

static inline _Atomic uint64_t *journal_record_at(struct journal journal, uint64_t sequence)
{
	return journal.words + (sequence & (journal.kept - 1)) * journal.record_words;
}

/* Writer. */
static inline void journal_add(struct journal journal, const uint64_t *record)
{
	uint64_t sequence = atomic_load_explicit(journal.last, memory_order_relaxed) + 1;
	_Atomic uint64_t *to = journal_record_at(journal, sequence);

	/* Release pairs with the acquire load that ends the copy in journal_read(): who sees a word of this
	 * record sees the number of the one before as well, and so that the place is being written. */
	for (uint32_t i = 0; i < journal.record_words; i++)
		atomic_store_explicit(&to[i], record[i], memory_order_release);
	/* Release pairs with the acquire of the first load in journal_read(). */
	atomic_store_explicit(journal.last, sequence, memory_order_release);
}

/*
 * Reader. Copies at most `limit` records with a number above `after`, oldest first. Returns how many; *first
 * is the number of the first, *overwritten how many above `after` are no longer kept.
 */
uint32_t journal_read(struct journal journal, uint64_t after, uint32_t limit, uint64_t *records,
		      uint64_t *first, uint64_t *overwritten);

#endif
