/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records that the loop thread writes and the control thread reads: departures and traced messages. Neither
 * thread waits for the other.
 *
 * Records are numbered from 1. The newest overwrite the oldest, and the reader learns how many it has missed.
 */
#ifndef KTSN_LOOP_JOURNAL_H
#define KTSN_LOOP_JOURNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A record is a number of 64-bit words; `kept` records are in `words`, one after the other. */

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

	/* Release pairs with the acquire load that ends the copy in journal_read(): a reader that sees a word
	 * of this record also sees the number of the previous record, and so that this one is being written.
	 */
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

/* ---- departures ----
 *
 * Each has the requested time, the time at which ktsnd sent it, and whether it was still on the link when its
 * gate shut. */

enum {
	DEPARTURES_KEPT_MIN = 1024,
	DEPARTURES_KEPT_DEFAULT = 65536,
	DEPARTURES_KEPT_MAX = 16777216,
	DEPARTURE_WORDS = 3,
};

struct departures {
	_Atomic uint64_t last;
	_Atomic uint64_t *words;
	uint32_t kept;
};

struct departure {
	uint64_t sequence;
	uint64_t flow;
	int64_t requested_tai_ns;
	int64_t departed_tai_ns;
	bool overrun; /* of a message to several receivers: of one of its copies */
};

/* Keeps at least `kept` departures, at most DEPARTURES_KEPT_MAX; 0: DEPARTURES_KEPT_DEFAULT. 0 or -ENOMEM. */
int departures_init(struct departures *departures, uint32_t kept);
void departures_fini(struct departures *departures);

static inline struct journal departures_journal(struct departures *departures)
{
	return (struct journal){&departures->last, departures->words, departures->kept, DEPARTURE_WORDS};
}

/* Loop thread. */
static inline void departures_add(struct departures *departures, uint64_t flow, int64_t requested_tai_ns,
				  int64_t departed_tai_ns, bool overrun)
{
	/* Numbers of flows are far below 2^63. */
	const uint64_t record[DEPARTURE_WORDS] = {flow << 1 | overrun, (uint64_t)requested_tai_ns,
						  (uint64_t)departed_tai_ns};

	journal_add(departures_journal(departures), record);
}

/* Departures that can be read at once. */
enum { DEPARTURES_READ_MAX = 1000 };

/*
 * Copies at most `limit` records with a sequence number above `after`, oldest first. Returns how many;
 * *overwritten is the number of records above `after` that are no longer kept. Control thread.
 */
uint32_t departures_read(struct departures *departures, uint64_t after, uint32_t limit,
			 struct departure *records, uint64_t *overwritten);

/* ---- traces ----
 *
 * When the application sent a message, when ktsnd took it, when it was due, and when and how it ended. A flow
 * (loop_objects.h) says whether its messages are traced. A message is recorded if its flow was traced when it
 * was taken, and only by the trace that still runs when it ends. */

enum { TRACE_KEPT = 16384, TRACE_WORDS = 6, TRACE_READ_MAX = 1000 };

struct trace {
	_Atomic uint32_t number; /* of the running trace; 0: none. Written by the control thread */
	_Atomic uint64_t last;
	_Atomic uint64_t words[TRACE_KEPT * TRACE_WORDS];
};

struct trace_record {
	uint64_t sequence;
	uint64_t flow;
	int64_t called_tai_ns; /* as written by the application; 0: not written */
	int64_t taken_tai_ns;
	int64_t due_tai_ns;
	int64_t ended_tai_ns; /* when it left or was dropped */
	uint32_t payload_bytes;
	uint8_t traffic_class;
	uint8_t outcome; /* which of KTSN_COUNTERS counted it, from 0 */
};

/* Control thread. */
void trace_number_set(struct trace *trace, uint32_t number);
/* Any thread. */
static inline uint32_t trace_number(const struct trace *trace)
{
	return atomic_load_explicit(&trace->number, memory_order_relaxed);
}

/* Adds a record and numbers it. Loop thread. */
void trace_add(struct trace *trace, const struct trace_record *record);

/* As departures_read(). Control thread. */
uint32_t trace_read(struct trace *trace, uint64_t after, uint32_t limit, struct trace_record *records,
		    uint64_t *overwritten);
/* Returns the number of the newest record. Any thread. */
uint64_t trace_last(const struct trace *trace);

#endif
