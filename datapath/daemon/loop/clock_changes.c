/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks that are set while messages wait. A message keeps its time on its own clock. When CLOCK_TAI moves
 * against that clock, because its offset or the time of day was set, all waiting messages get new times.
 * Messages on CLOCK_TAI itself keep theirs.
 */
#include "clock_changes.h"

#include "held_packets.h"
#include "loop_state.h"
#include "quotas.h"

#include <stdlib.h>
#include <unistd.h>

/* Less is the measurement's doing (clock.h), and what adjtimex slews moves all clocks alike. */
enum { STEP_NS = 100000 };

/* The control thread looks how far it was, and reports it. */
static void step_tell(const struct loop *loop, int64_t moved_ns)
{
	uint64_t one = 1;

	if (llabs(moved_ns) >= STEP_NS)
		(void)!write(loop->retired.fd, &one, sizeof(one));
}

const struct clock_offsets *loop_offsets(struct loop *loop)
{
	int64_t age_ns = loop->round.now_tai_ns - loop->clocks.read_tai_ns;

	if (age_ns < 0 || age_ns >= OFFSETS_FRESH_NS) {
		int64_t before_ns = loop->clocks.offsets.to_tai_ns[KTSN_CLOCK_MONOTONIC];

		clock_offsets_read(&loop->clocks.offsets);
		loop->clocks.read_tai_ns = loop->round.now_tai_ns;
		step_tell(loop, loop->clocks.offsets.to_tai_ns[KTSN_CLOCK_MONOTONIC] - before_ns);
	}
	return &loop->clocks.offsets;
}

/* Takes everything out of the shapers, as a list. */
static struct packet *all_take(struct loop *loop)
{
	struct packet *taken = NULL, *packet;

	for (int i = 0; i < EGRESSES; i++) {
		struct ktsn_shaper_packet *shaped;

		while ((shaped = ktsn_shaper_take(loop->egress[i].shaper))) {
			packet = (struct packet *)shaped;
			packet->next = taken;
			taken = packet;
		}
	}
	/* Those whose time is still past are held again when they come out of the shaper. */
	while (held_any(loop) && (packet = held_take(loop))) {
		packet->next = taken;
		taken = packet;
	}
	return taken;
}

static void packet_move(struct packet *packet, const int64_t moved_ns[KTSN_CLOCKS])
{
	int64_t moved = packet->shaper.txtime_tai_ns + moved_ns[packet->message->flow->clock];

	if (moved < 0)
		moved = 0;
	packet->shaper.txtime_tai_ns = moved > KTSN_TXTIME_MAX_NS ? KTSN_TXTIME_MAX_NS : moved;
	/* The time that was asked for; the copies of a message have the same. */
	packet->message->requested_tai_ns = packet->shaper.txtime_tai_ns;
}

/* Those that wait for an address, too. These keep their order: those of one destination are of one flow, and
 * so of one clock. */
static void all_move(struct loop *loop, const int64_t moved_ns[KTSN_CLOCKS])
{
	struct packet *taken = all_take(loop);

	for (uint32_t i = 0; i < loop->config.packets; i++)
		if (loop->pool.packets[i].held)
			packet_move(&loop->pool.packets[i], moved_ns);
	while (taken) {
		struct packet *next = taken->next;

		ktsn_shaper_restore(loop->egress[taken->egress].shaper, quota_lane(taken), &taken->shaper,
				    loop->round.now_tai_ns);
		taken = next;
	}
}

void clocks_watch(struct loop *loop)
{
	struct clock_offsets before = loop->clocks.held_offsets;
	int64_t moved_ns[KTSN_CLOCKS];
	bool stepped = false;

	if (!loop->clocks.foreign_packets)
		return;
	(void)loop_offsets(loop);
	for (int clock = 0; clock < KTSN_CLOCKS; clock++) {
		moved_ns[clock] = loop->clocks.offsets.to_tai_ns[clock] - before.to_tai_ns[clock];
		stepped |= llabs(moved_ns[clock]) >= STEP_NS;
	}
	if (!stepped)
		return;
	loop->clocks.held_offsets = loop->clocks.offsets;
	all_move(loop, moved_ns);
}

void clocks_packet_held(struct loop *loop, struct packet *packet)
{
	packet->held = true;
	if (packet->message->flow->clock == KTSN_CLOCK_TAI)
		return;
	/* The first that waits for another clock: from now on that is watched. Those that wait already had
	 * the same offsets, or they would have been moved when this round began. */
	if (!loop->clocks.foreign_packets)
		loop->clocks.held_offsets = loop->clocks.offsets;
	loop->clocks.foreign_packets++;
}

void clocks_packet_done(struct loop *loop, struct packet *packet)
{
	packet->held = false;
	loop->clocks.foreign_packets -= packet->message->flow->clock != KTSN_CLOCK_TAI;
}
