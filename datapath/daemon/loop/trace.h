/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of single messages, while somebody traces: when the application sent each, when ktsnd took it,
 * when it was due, when and how it ended.
 *
 * The loop thread writes, the control thread reads; neither waits for the other. Which sockets are traced
 * stands in their flows (loop_objects.h); a message is recorded if its socket was traced when it was taken,
 * by the trace that still runs when it ends.
 */
#ifndef KTSN_LOOP_TRACE_H
#define KTSN_LOOP_TRACE_H

#include "journal.h"

enum { TRACE_KEPT = 16384, TRACE_WORDS = 6, TRACE_READ_MAX = 1000 };

struct trace {
	_Atomic uint32_t number; /* of the trace that runs, 0: none does; the control thread's */
	_Atomic uint64_t last;
	_Atomic uint64_t words[TRACE_KEPT * TRACE_WORDS];
};

struct trace_record {
	uint64_t sequence;
	uint64_t flow;
	int64_t called_tai_ns; /* the application's word; 0: its library did not say */
	int64_t taken_tai_ns;
	int64_t due_tai_ns;
	int64_t ended_tai_ns; /* left or was dropped */
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

/* Loop thread; `sequence` is given here. */
void trace_add(struct trace *trace, const struct trace_record *record);

/* As departures_read(). Control thread. */
uint32_t trace_read(struct trace *trace, uint64_t after, uint32_t limit, struct trace_record *records,
		    uint64_t *overwritten);
/* The number of the newest record. Any thread. */
uint64_t trace_last(const struct trace *trace);

#endif
