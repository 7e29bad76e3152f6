/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last departures, each with the time asked for, the time at which ktsnd released it, and whether it was
 * on the link when its gate shut.
 *
 * The loop thread writes, the control thread reads; neither waits for the other.
 */
#ifndef KTSN_LOOP_DEPARTURES_H
#define KTSN_LOOP_DEPARTURES_H

#include "journal.h"

#include <stdbool.h>

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
	bool overrun; /* of a message that went to several: of one of its copies */
};

/* For at least so many, at most DEPARTURES_KEPT_MAX; 0: DEPARTURES_KEPT_DEFAULT. 0 or -ENOMEM. */
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

/* At most so many are read at once. */
enum { DEPARTURES_READ_MAX = 1000 };

/*
 * Copies at most `limit` records with a sequence number above `after`, oldest first. Returns how many;
 * *overwritten is the number of records above `after` that are no longer kept. Control thread.
 */
uint32_t departures_read(struct departures *departures, uint64_t after, uint32_t limit,
			 struct departure *records, uint64_t *overwritten);

#endif
