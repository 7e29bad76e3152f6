/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines that ktsn-shaper-replay reads. Times are CLOCK_TAI nanoseconds; events are in the order of their
 * times. All other lines precede the first event, except a schedule's entries and limits, which follow it:
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

/* Reads and executes one line. Returns 0, -EBADMSG for an invalid line, or the error of the action. */
int replay_line(struct replay_parser *parser, const char *line);

#endif
