/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Journals: one thread writes and never waits, the other reads.
 */
#include "journal.h"

#include "realtime.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Returns the oldest record that the writer cannot be overwriting while `last` is the newest. */
static uint64_t oldest_kept(uint64_t last, uint32_t kept)
{
	return last < kept ? 1 : last - kept + 2;
}

static void record_copy(struct journal journal, uint64_t sequence, uint64_t *record)
{
	_Atomic uint64_t *from = journal_record_at(journal, sequence);

	/* Acquire: records that the writer has overwritten show in the following load of `last`. */
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
	/* Discard records that the writer may have overwritten during the copy. */
	kept = oldest_kept(atomic_load_explicit(journal.last, memory_order_relaxed), journal.kept);
	while (stale < count && begin + stale < kept)
		stale++;
	memmove(records, records + (size_t)stale * journal.record_words,
		(size_t)(count - stale) * journal.record_words * sizeof(*records));
	*first = begin + stale;
	*overwritten = last > after ? begin + stale - after - 1 : 0;
	return count - stale;
}

/* ---- departures ---- */
int departures_init(struct departures *departures, uint32_t kept)
{
	/* A journal needs a power of two. */
	departures->kept = DEPARTURES_KEPT_MIN;
	while (departures->kept < (kept ? kept : DEPARTURES_KEPT_DEFAULT))
		departures->kept *= 2;
	departures->words =
		realtime_alloc((size_t)departures->kept * DEPARTURE_WORDS * sizeof(*departures->words));
	return departures->words ? 0 : -ENOMEM;
}

void departures_fini(struct departures *departures)
{
	free((void *)departures->words);
}

uint32_t departures_read(struct departures *departures, uint64_t after, uint32_t limit,
			 struct departure *records, uint64_t *overwritten)
{
	uint64_t words[DEPARTURES_READ_MAX][DEPARTURE_WORDS], first;
	uint32_t count = journal_read(departures_journal(departures), after,
				      limit < DEPARTURES_READ_MAX ? limit : DEPARTURES_READ_MAX, words[0],
				      &first, overwritten);

	for (uint32_t i = 0; i < count; i++)
		records[i] = (struct departure){.sequence = first + i,
						.flow = words[i][0] >> 1,
						.overrun = words[i][0] & 1,
						.requested_tai_ns = (int64_t)words[i][1],
						.departed_tai_ns = (int64_t)words[i][2]};
	return count;
}

/* ---- traces ---- */
/* Bits of the last word of a record. */
enum { CLASS_SHIFT = 32, OUTCOME_SHIFT = 40 };

static struct journal journal_of(struct trace *trace)
{
	return (struct journal){&trace->last, trace->words, TRACE_KEPT, TRACE_WORDS};
}

void trace_number_set(struct trace *trace, uint32_t number)
{
	atomic_store_explicit(&trace->number, number, memory_order_relaxed);
}

void trace_add(struct trace *trace, const struct trace_record *record)
{
	const uint64_t words[TRACE_WORDS] = {
		record->flow,
		(uint64_t)record->called_tai_ns,
		(uint64_t)record->taken_tai_ns,
		(uint64_t)record->due_tai_ns,
		(uint64_t)record->ended_tai_ns,
		record->payload_bytes | (uint64_t)record->traffic_class << CLASS_SHIFT |
			(uint64_t)record->outcome << OUTCOME_SHIFT,
	};

	journal_add(journal_of(trace), words);
}

static struct trace_record record_of(uint64_t sequence, const uint64_t words[TRACE_WORDS])
{
	return (struct trace_record){
		.sequence = sequence,
		.flow = words[0],
		.called_tai_ns = (int64_t)words[1],
		.taken_tai_ns = (int64_t)words[2],
		.due_tai_ns = (int64_t)words[3],
		.ended_tai_ns = (int64_t)words[4],
		.payload_bytes = (uint32_t)words[5],
		.traffic_class = (uint8_t)(words[5] >> CLASS_SHIFT),
		.outcome = (uint8_t)(words[5] >> OUTCOME_SHIFT),
	};
}

uint32_t trace_read(struct trace *trace, uint64_t after, uint32_t limit, struct trace_record *records,
		    uint64_t *overwritten)
{
	uint64_t words[TRACE_READ_MAX][TRACE_WORDS], first;
	uint32_t count =
		journal_read(journal_of(trace), after, limit < TRACE_READ_MAX ? limit : TRACE_READ_MAX,
			     words[0], &first, overwritten);

	for (uint32_t i = 0; i < count; i++)
		records[i] = record_of(first + i, words[i]);
	return count;
}

uint64_t trace_last(const struct trace *trace)
{
	return atomic_load_explicit(&trace->last, memory_order_acquire);
}
