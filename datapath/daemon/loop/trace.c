/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

/* The last word of a record. */
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
