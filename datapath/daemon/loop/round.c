/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clock offsets of a round, and when it ends.
 */
#include "round.h"

#include "clock.h"
#include "loop_state.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- clock offsets ---- */
enum { TRIES = 4 };

static int64_t realtime_to_tai_ns(void)
{
	int64_t difference_ns = clock_ns(CLOCK_TAI) - clock_ns(CLOCK_REALTIME);

	/* The reads are less than half a second apart. */
	return (difference_ns + NS_PER_SECOND / 2) / NS_PER_SECOND * NS_PER_SECOND;
}

static int64_t monotonic_to_tai_ns(void)
{
	int64_t smallest_ns = INT64_MAX;

	/* The true offset is at most the difference; an interruption between the reads only raises it. */
	for (int i = 0; i < TRIES; i++) {
		int64_t monotonic_ns = clock_ns(CLOCK_MONOTONIC);
		int64_t difference_ns = clock_ns(CLOCK_TAI) - monotonic_ns;

		if (difference_ns < smallest_ns)
			smallest_ns = difference_ns;
	}
	return smallest_ns;
}

void clock_offsets_read(struct clock_offsets *offsets)
{
	offsets->to_tai_ns[KTSN_CLOCK_TAI] = 0;
	offsets->to_tai_ns[KTSN_CLOCK_REALTIME] = realtime_to_tai_ns();
	offsets->to_tai_ns[KTSN_CLOCK_MONOTONIC] = monotonic_to_tai_ns();
}

/* Wakes the control thread, which measures the step and reports it. */
static void step_report(const struct loop *loop, int64_t moved_ns)
{
	if (llabs(moved_ns) >= CLOCK_STEP_NS)
		(void)eventfd_write(loop->retired.fd, 1);
}

const struct clock_offsets *loop_offsets(struct loop *loop)
{
	int64_t age_ns = loop->round.now_tai_ns - loop->clocks.read_tai_ns;

	if (age_ns < 0 || age_ns >= OFFSETS_FRESH_NS) {
		int64_t before_ns = loop->clocks.offsets.to_tai_ns[KTSN_CLOCK_MONOTONIC];

		clock_offsets_read(&loop->clocks.offsets);
		loop->clocks.read_tai_ns = loop->round.now_tai_ns;
		step_report(loop, loop->clocks.offsets.to_tai_ns[KTSN_CLOCK_MONOTONIC] - before_ns);
	}
	return &loop->clocks.offsets;
}

/* ---- departures ---- */

static int64_t departure_next(const struct egress *egress, int64_t now_tai_ns)
{
	int64_t due_tai_ns = ktsn_shaper_next(egress->shaper, now_tai_ns);

	return due_tai_ns > egress->retry_tai_ns ? due_tai_ns : egress->retry_tai_ns;
}

int64_t egress_departure_next(const struct loop *loop, int64_t now_tai_ns)
{
	int64_t uplink_tai_ns = departure_next(&loop->egress[EGRESS_UPLINK], now_tai_ns);
	int64_t bridge_tai_ns = departure_next(&loop->egress[EGRESS_BRIDGE], now_tai_ns);

	return uplink_tai_ns < bridge_tai_ns ? uplink_tai_ns : bridge_tai_ns;
}

/* ---- the end of a round ---- */

enum {
	/* No more messages are taken when a departure is nearer than taking TAKE_AT_ONCE of them lasts, */
	TAKE_SPARE_NS = 8000,
	/* or when a departure is due or commands wait, and taking has lasted this long, */
	TAKE_LONGEST_NS = 100000,
	/* or when a message of another pod came due less than this ago: a message that has waited longer
	   waits for something else. */
	TAKE_FRESH_NS = 50000,
};

/* Whether a packet of another pod is due or nearly due, and waits for nothing else. */
static bool others_due(const struct loop *loop, const struct quota *quota)
{
	for (int i = 0; i < EGRESSES; i++) {
		int64_t due_tai_ns = ktsn_shaper_due_excluding(loop->egress[i].shaper, quota->lanes[i]);

		if (due_tai_ns < loop->round.now_tai_ns + TAKE_SPARE_NS &&
		    due_tai_ns > loop->round.now_tai_ns - TAKE_FRESH_NS)
			return true;
	}
	return false;
}

bool round_must_end(struct loop *loop, const struct quota *quota)
{
	int64_t left_ns;
	bool is_long;

	loop->round.now_tai_ns = clock_tai_ns();
	is_long = loop->round.now_tai_ns - loop->round.began_tai_ns > TAKE_LONGEST_NS;
	left_ns = egress_departure_next(loop, loop->round.now_tai_ns) - loop->round.now_tai_ns;
	if (left_ns > 0)
		return left_ns < TAKE_SPARE_NS || (is_long && commands_peek(&loop->commands, 0));
	return is_long || others_due(loop, quota);
}
