/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last departures, each with the time asked for and the time at which ktsnd released it.
 *
 * The loop thread writes, the control thread reads; neither waits for the other.
 */
#ifndef KTSN_DAEMON_DEPARTURES_H
#define KTSN_DAEMON_DEPARTURES_H

#include <stdatomic.h>
#include <stdint.h>

enum { DEPARTURES_KEPT = 65536 };

struct departure_slot {
	_Atomic uint64_t flow;
	_Atomic int64_t requested_tai_ns;
	_Atomic int64_t departed_tai_ns;
};

struct departures {
	_Atomic uint64_t last; /* sequence number of the newest complete record; 0: none yet */
	struct departure_slot slots[DEPARTURES_KEPT];
};

struct departure {
	uint64_t sequence;
	uint64_t flow;
	int64_t requested_tai_ns;
	int64_t departed_tai_ns;
};

/* Loop thread. */
void departures_add(struct departures *departures, uint64_t flow, int64_t requested_tai_ns,
		    int64_t departed_tai_ns);

/*
 * Copies at most `limit` records with a sequence number above `after`, oldest first. Returns how many;
 * *overwritten is the number of records above `after` that are no longer kept. Control thread.
 */
uint32_t departures_read(struct departures *departures, uint64_t after, uint32_t limit,
			 struct departure *records, uint64_t *overwritten);

#endif
