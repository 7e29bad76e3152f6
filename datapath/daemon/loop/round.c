/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a round of taking ends because something else is due.
 */
#include "round.h"

#include "clock.h"
#include "egress.h"
#include "loop_state.h"

enum {
	/* No more are taken when a departure is nearer than TAKE_AT_ONCE of them take, */
	TAKE_SPARE_NS = 8000,
	/* or when one is due, or commands wait, and taking has gone on for so long, */
	TAKE_LONGEST_NS = 100000,
	/* or when the message of another pod came due less than this ago: one that has waited for longer
	   waits for something else. */
	TAKE_FRESH_NS = 50000,
};

/* Whether something of another pod is due, or nearly, and cannot be waiting for anything else. */
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
