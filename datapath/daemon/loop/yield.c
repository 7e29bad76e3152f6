/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame takes the port longer than the link: with a packet socket the sender does the kernel's work. So a
 * late frame is not begun when another comes due before it would be over.
 *
 *               |<-- it would be at the port -->|
 *   ------------+------------------+------------+--> time
 *              now                due
 *               |<--- it waits --->|<- the other is sent ->|<- it is sent ->|
 *
 * A late frame waits once, then it is sent: a sender that always has something due must not keep others out.
 * So does one without a time.
 */
#include "yield.h"

#include "clock.h"
#include "loop_state.h"

enum {
	/* One that takes longer was interrupted: what a receiver of this node costs is not in it
	 * (port/delivery.h). Where the uplink is a veth it may be the other end's work, for which no
	 * departure should wait. */
	FRAME_LONGEST_NS = 20000,
	/* A frame may take so many times its average. */
	FRAME_SPARE = 2,
	/* Parts of a new measurement in the average: what was longer counts more. */
	LEARN_LONGER = 4,
	LEARN_SHORTER = 32,
};

void yield_learn(struct loop *loop, int64_t took_ns, uint32_t frames)
{
	int64_t frame_ns = took_ns / frames;

	if (frame_ns < 0)
		return;
	if (frame_ns > FRAME_LONGEST_NS)
		frame_ns = FRAME_LONGEST_NS;
	frame_ns -= loop->yield.frame_ns;
	loop->yield.frame_ns += frame_ns / (frame_ns > 0 ? LEARN_LONGER : LEARN_SHORTER);
}

/* The next packet of each egress, if it may leave now. */
struct leaving {
	const struct ktsn_shaper_packet *packets[EGRESSES];
};

static struct leaving leaving_find(struct loop *loop, int64_t now_tai_ns)
{
	struct leaving leaving;

	for (int i = 0; i < EGRESSES; i++)
		leaving.packets[i] = ktsn_shaper_peek(loop->egress[i].shaper, now_tai_ns);
	return leaving;
}

static unsigned int lowest_class(const struct leaving *leaving)
{
	unsigned int lowest = KTSN_CLASSES;

	for (int i = 0; i < EGRESSES; i++)
		if (leaving->packets[i] && leaving->packets[i]->traffic_class < lowest)
			lowest = leaving->packets[i]->traffic_class;
	return lowest;
}

static int64_t due_find(const struct loop *loop, unsigned int class, int64_t now_tai_ns)
{
	int64_t next_tai_ns = KTSN_SHAPER_NEVER;

	for (int i = 0; i < EGRESSES; i++) {
		int64_t due_tai_ns = ktsn_shaper_due_after(loop->egress[i].shaper, class, now_tai_ns);

		if (due_tai_ns < next_tai_ns)
			next_tai_ns = due_tai_ns;
	}
	return next_tai_ns;
}

/* When the next of a class that is not lower comes due. Looked for once while nothing is taken, mostly. */
static int64_t due_next(struct loop *loop, const struct leaving *leaving, int64_t now_tai_ns)
{
	unsigned int class = lowest_class(leaving);

	if (class == KTSN_CLASSES)
		return KTSN_SHAPER_NEVER;
	if (class < loop->yield.traffic_class || now_tai_ns >= loop->yield.due_tai_ns) {
		loop->yield.traffic_class = class;
		loop->yield.due_tai_ns = due_find(loop, class, now_tai_ns);
	}
	return loop->yield.due_tai_ns;
}

static bool any_in_time(const struct leaving *leaving, int64_t late_tai_ns)
{
	for (int i = 0; i < EGRESSES; i++)
		if (leaving->packets[i] && ktsn_packet_in_time(leaving->packets[i], late_tai_ns))
			return true;
	return false;
}

static bool all_may_yield(struct loop *loop, int64_t now_tai_ns, int64_t until_tai_ns)
{
	for (int i = 0; i < EGRESSES; i++)
		if (!ktsn_shaper_may_yield(loop->egress[i].shaper, now_tai_ns, until_tai_ns))
			return false;
	return true;
}

/* Stays on the clock until then, unless something is left that is not late. Returns the time. */
static int64_t yield(struct loop *loop, int64_t now_tai_ns, int64_t late_tai_ns, int64_t until_tai_ns)
{
	struct leaving left;

	for (int i = 0; i < EGRESSES; i++)
		ktsn_shaper_yield(loop->egress[i].shaper, now_tai_ns, late_tai_ns, until_tai_ns);
	left = leaving_find(loop, now_tai_ns);
	return any_in_time(&left, late_tai_ns) ? now_tai_ns : clock_tai_spin(now_tai_ns, until_tai_ns);
}

void yield_begin(struct loop *loop)
{
	loop->yield.traffic_class = KTSN_CLASSES;
}

uint32_t yield_to_due(struct loop *loop, int64_t *now_tai_ns)
{
	int64_t frame_ns = FRAME_SPARE * loop->yield.frame_ns,
		late_tai_ns = *now_tai_ns - loop->config.late_after_ns;
	struct leaving leaving;
	int64_t due_tai_ns, left_ns;

	if (frame_ns <= 0)
		return KTSN_PORT_BURST;
	leaving = leaving_find(loop, *now_tai_ns);
	due_tai_ns = due_next(loop, &leaving, *now_tai_ns);
	left_ns = due_tai_ns - *now_tai_ns;
	if (!any_in_time(&leaving, late_tai_ns)) {
		loop->yield.yielded = !loop->yield.yielded && left_ns < frame_ns &&
				      all_may_yield(loop, *now_tai_ns, due_tai_ns);
		if (loop->yield.yielded)
			*now_tai_ns = yield(loop, *now_tai_ns, late_tai_ns, due_tai_ns);
	}
	if (left_ns >= KTSN_PORT_BURST * frame_ns)
		return KTSN_PORT_BURST;
	/* After what has come due now, the next may be due soon. */
	return left_ns > frame_ns ? (uint32_t)(left_ns / frame_ns) : 1;
}
