/* SPDX-License-Identifier: Apache-2.0 */
#include "journal.h"

#include <string.h>

/* The oldest record that the writer cannot be overwriting while `last` is the newest. */
static uint64_t oldest_kept(uint64_t last, uint32_t kept)
{
	return last < kept ? 1 : last - kept + 2;
}

static void record_copy(struct journal journal, uint64_t sequence, uint64_t *record)
{
	_Atomic uint64_t *from = journal_record_at(journal, sequence);

	/* Acquire: what the writer overtook shows in the load of `last` that follows. */
	for (uint32_t i = 0; i < journal.record_words; i++)
		record[i] = atomic_load_explicit(&from[i], memory_order_acquire);
}

uint32_t journal_read(struct journal journal, uint64_t after, uint32_t limit, uint64_t *records,
		      uint64_t *first, uint64_t *overwritten)
{
	uint64_t last = atomic_load_explicit(journal.last, memory_order_acquire);
	uint64_t kept = oldest_kept(last, journal.kept);
	uint64_t begin = after + 1 > kept ? after + 1 : kept;
	uint32_t count = 0, stale = 0;

	for (uint64_t sequence = begin; sequence <= last && count < limit; sequence++, count++)
		record_copy(journal, sequence, records + (size_t)count * journal.record_words);
	/* What the writer overtook while we copied is not to be trusted. */
	kept = oldest_kept(atomic_load_explicit(journal.last, memory_order_relaxed), journal.kept);
	while (stale < count && begin + stale < kept)
		stale++;
	memmove(records, records + (size_t)stale * journal.record_words,
		(size_t)(count - stale) * journal.record_words * sizeof(*records));
	*first = begin + stale;
	*overwritten = last > after ? begin + stale - after - 1 : 0;
	return count - stale;
}
