/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy `tas`, the Time-Aware Shaper: a frame leaves when the gate of its class is open, and stays
 * open until the whole frame and the guard band have passed. If there are several such frames, the frame of
 * the highest class leaves (IEEE Std 802.1Q-2022 clause 8.6.8.4).
 *
 *   gate      shut |<------------- open ------------------->| shut
 *                  |   | frame |                | frame     |    does not fit: waits for the next window
 *   ---------------+---+-------+----------------+-----------+------> time
 */
#include "strategy.h"

#include <assert.h>
#include <errno.h>

static int tas_admit(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet,
		     int64_t handed_tai_ns, int64_t now_tai_ns)
{
	const struct ktsn_schedule *schedule;
	uint32_t max_bytes;

	(void)handed_tai_ns;
	if (!shaper->gates)
		return 0;
	schedule = ktsn_gates_oper(shaper->gates, now_tai_ns);
	max_bytes = schedule->queue_max_sdu_bytes[packet->traffic_class];
	return max_bytes && packet->sdu_bytes > max_bytes ? -EMSGSIZE : 0;
}

/* Returns the first window with room. If there is none, *start_tai_ns is at_tai_ns. */
static struct ktsn_window room_find(const struct ktsn_shaper *shaper, unsigned int class, int64_t at_tai_ns,
				    int64_t duration_ns, int64_t *start_tai_ns)
{
	struct ktsn_window window = {KTSN_WINDOW_EVER, KTSN_WINDOW_NEVER};

	*start_tai_ns = at_tai_ns;
	if (!shaper->gates)
		return window;
	window = ktsn_gates_fit(shaper->gates, class, at_tai_ns, duration_ns, start_tai_ns);
	if (window.open_tai_ns == KTSN_WINDOW_NEVER)
		*start_tai_ns = at_tai_ns;
	return window;
}

/* Whether an earlier result is still valid: for the same packet, and unless time has passed it or was set
 * back. */
static bool fit_holds(const struct fit *fit, const struct ktsn_shaper_packet *packet, int64_t at_tai_ns)
{
	return fit->packet == packet && at_tai_ns >= fit->from_tai_ns && at_tai_ns <= fit->start_tai_ns;
}

/* Returns how long the gate must be open, at least 1 ns: a frame that takes no time needs an open gate, too.
 */
static int64_t room_needed(struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet)
{
	int64_t room_ns = shaper_link_ns(shaper, packet->wire_bytes) + shaper->config.guard_band_ns;

	return room_ns > 0 ? room_ns : 1;
}

/* Finds where the first packet of a class fits, not before at_tai_ns. */
static const struct fit *fit_find(struct ktsn_shaper *shaper, unsigned int class,
				  const struct ktsn_shaper_packet *packet, int64_t at_tai_ns)
{
	struct fit *fit = &shaper->fits[class];
	int64_t duration_ns;

	if (fit_holds(fit, packet, at_tai_ns))
		return fit;
	fit->packet = packet;
	duration_ns = room_needed(shaper, packet);
	/* Usually the packet fits into the window of the previous one. */
	if (at_tai_ns >= fit->window.open_tai_ns && at_tai_ns <= fit->window.close_tai_ns - duration_ns &&
	    fit->from_tai_ns <= at_tai_ns)
		fit->start_tai_ns = at_tai_ns;
	else
		fit->window = room_find(shaper, class, at_tai_ns, duration_ns, &fit->start_tai_ns);
	fit->from_tai_ns = at_tai_ns;
	return fit;
}

/* Selects the first packet of a class; link and transmit time let it leave at at_tai_ns. */
static struct selection class_select(struct ktsn_shaper *shaper, unsigned int class, int64_t at_tai_ns)
{
	const struct fit *fit = fit_find(shaper, class, class_first(shaper, class), at_tai_ns);
	bool fits = fit->window.open_tai_ns != KTSN_WINDOW_NEVER;

	return (struct selection){fit->start_tai_ns, class, fits ? KTSN_SEND : KTSN_DROP_NO_WINDOW};
}

/* Returns a time before which the first packet of a class is not selected: the start of its fit if that is
 * known, otherwise when link and transmit time let it leave. */
static int64_t lower_bound(const struct ktsn_shaper *shaper, unsigned int class, int64_t free_tai_ns)
{
	const struct fit *fit = &shaper->fits[class];
	int64_t at_tai_ns = earliest(shaper, class, free_tai_ns);
	int64_t start_tai_ns = fit->start_tai_ns > at_tai_ns ? fit->start_tai_ns : at_tai_ns;
	bool known = (fit->packet == class_first(shaper, class)) & (at_tai_ns >= fit->from_tai_ns);

	return known ? start_tai_ns : at_tai_ns;
}

struct bound {
	int64_t at_tai_ns;
	unsigned int class;
};

static struct bound bound_of(const int64_t bounds_tai_ns[KTSN_CLASSES], unsigned int class)
{
	return (struct bound){bounds_tai_ns[class], class};
}

static struct bound lower(struct bound higher_class, struct bound lower_class)
{
	bool less = lower_class.at_tai_ns < higher_class.at_tai_ns;

	return (struct bound){less ? lower_class.at_tai_ns : higher_class.at_tai_ns,
			      less ? lower_class.class : higher_class.class};
}

/* Returns the lowest bound, of equal ones that of the highest class. A tree, because each comparison waits
 * for the results of those before it. */
static struct bound lowest(const int64_t bounds_tai_ns[KTSN_CLASSES])
{
	static_assert(KTSN_CLASSES == 8, "a class is not compared");

	return lower(lower(lower(bound_of(bounds_tai_ns, 7), bound_of(bounds_tai_ns, 6)),
			   lower(bound_of(bounds_tai_ns, 5), bound_of(bounds_tai_ns, 4))),
		     lower(lower(bound_of(bounds_tai_ns, 3), bound_of(bounds_tai_ns, 2)),
			   lower(bound_of(bounds_tai_ns, 1), bound_of(bounds_tai_ns, 0))));
}

/*
 * Selects the packet that may leave first; if several are equally early, that of the highest class. Gates only
 * delay packets: the one with the lowest bound is selected if it leaves then. Usually only its fit is searched.
 *
 * The bounds are computed without branches on times. Branches would be mispredicted more or less often, by the
 * addresses of the code: with them a packet costs up to a fifth more in one build than in another.
 */
static struct selection tas_select(struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	int64_t free_tai_ns = link_free(shaper, now_tai_ns), bounds_tai_ns[KTSN_CLASSES];

#pragma GCC unroll 8
	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		bounds_tai_ns[class] = lower_bound(shaper, class, free_tai_ns);
	for (;;) {
		struct bound bound = lowest(bounds_tai_ns);
		struct selection selection;

		if (bound.at_tai_ns == KTSN_SHAPER_NEVER)
			return selection_none();
		selection = class_select(shaper, bound.class, earliest(shaper, bound.class, free_tai_ns));
		if (selection.at_tai_ns == bound.at_tai_ns)
			return selection;
		bounds_tai_ns[bound.class] = selection.at_tai_ns;
	}
}

static const struct ktsn_window *tas_window(const struct ktsn_shaper *shaper, unsigned int traffic_class)
{
	return &shaper->fits[traffic_class].window;
}

const struct ktsn_shaper_ops ktsn_tas_ops = {
	.admit = tas_admit,
	.select = tas_select,
	.window = tas_window,
};
