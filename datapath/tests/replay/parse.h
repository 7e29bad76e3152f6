/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines that ktsn-shaper-replay reads. Times are CLOCK_TAI nanoseconds, events are in the order of their
 * times, and what is not an event comes before the first one, a schedule's entries and limits behind it:
 *
 *   strategy NAME
 *   link-speed-bps N
 *   guard-band-ns N
 *   delta-ns N
 *   tolerance-ns N
 *   schedule AT ADMIN-GATE-STATES BASE-TIME CYCLE-TIME CYCLE-TIME-EXTENSION
 *     entry TIME-INTERVAL-VALUE GATE-STATES-VALUE
 *     max-sdu CLASS QUEUE-MAX-SDU
 *   message AT ID TXTIME CLASS WIRE-BYTES SDU-BYTES DEADLINE
 *   until AT
 */
#ifndef KTSN_REPLAY_PARSE_H
#define KTSN_REPLAY_PARSE_H

#include "replay.h"

#include <stdbool.h>

struct replay_parser {
	struct replay replay;
	bool schedule_open; /* its entries are being read */
	int64_t schedule_at_tai_ns;
	struct ktsn_schedule schedule;
};

/* Reads one line and does what it says. 0, -EBADMSG for a line that is none of these, or an error of what it
 * asks for. */
int replay_line(struct replay_parser *parser, const char *line);

#endif
