/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy `tas`: the Time-Aware Shaper. A frame leaves when its class's gate is open and stays open
 * until all of it has left, the guard band included; of several that may, the one of the highest class (IEEE
 * Std 802.1Q-2022 clause 8.6.8.4).
 *
 *   gate      shut |<------------- open ------------------->| shut
 *                  |   | frame |                | frame     |    does not fit: waits for the next window
 *   ---------------+---+-------+----------------+-----------+------> time
 */
#include "strategy.h"

#include <errno.h>

static int tas_admit(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet,
		     int64_t handed_tai_ns, int64_t now_tai_ns)
{
	const struct ktsn_schedule *schedule;
	uint32_t most_bytes;

	(void)handed_tai_ns;
	if (!shaper->gates)
		return 0;
	schedule = ktsn_gates_oper(shaper->gates, now_tai_ns);
	most_bytes = schedule->queue_max_sdu_bytes[packet->traffic_class];
	return most_bytes && packet->sdu_bytes > most_bytes ? -EMSGSIZE : 0;
}

static struct ktsn_window room_find(const struct ktsn_shaper *shaper, unsigned int class, int64_t at_tai_ns,
				    int64_t duration_ns, int64_t *start_tai_ns)
{
	if (shaper->gates)
		return ktsn_gates_fit(shaper->gates, class, at_tai_ns, duration_ns, start_tai_ns);
	*start_tai_ns = at_tai_ns;
	return (struct ktsn_window){KTSN_WINDOW_EVER, KTSN_WINDOW_NEVER};
}

/* What was found earlier for the same packet still holds, unless time went past it or back. */
static bool fit_holds(const struct fit *fit, const struct ktsn_shaper_packet *packet, int64_t at_tai_ns)
{
	return fit->packet == packet && at_tai_ns >= fit->from_tai_ns && at_tai_ns <= fit->start_tai_ns;
}

/* For so long the gate must be open. A frame that takes no time needs an open gate all the same. */
static int64_t room_needed(struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet)
{
	int64_t room_ns = shaper_link_ns(shaper, packet->wire_bytes) + shaper->config.guard_band_ns;

	return room_ns > 0 ? room_ns : 1;
}

/* Where the first packet of a class fits, not before at_tai_ns. */
static const struct fit *fit_find(struct ktsn_shaper *shaper, unsigned int class,
				  const struct ktsn_shaper_packet *packet, int64_t at_tai_ns)
{
	struct fit *fit = &shaper->fits[class];
	int64_t duration_ns;

	if (fit_holds(fit, packet, at_tai_ns))
		return fit;
	fit->packet = packet;
	duration_ns = room_needed(shaper, packet);
	/* Mostly it is the window of the packet before. */
	if (at_tai_ns >= fit->window.open_tai_ns && at_tai_ns <= fit->window.close_tai_ns - duration_ns &&
	    fit->from_tai_ns <= at_tai_ns)
		fit->start_tai_ns = at_tai_ns;
	else
		fit->window = room_find(shaper, class, at_tai_ns, duration_ns, &fit->start_tai_ns);
	fit->from_tai_ns = at_tai_ns;
	return fit;
}

/* at_tai_ns: when link and transmit time let it leave. */
static struct selection class_select(struct ktsn_shaper *shaper, unsigned int class, int64_t at_tai_ns)
{
	const struct fit *fit = fit_find(shaper, class, class_first(shaper, class), at_tai_ns);

	if (fit->start_tai_ns == KTSN_WINDOW_NEVER)
		return (struct selection){at_tai_ns, class, KTSN_DROP_NO_WINDOW};
	return (struct selection){fit->start_tai_ns, class, KTSN_SEND};
}

/* The highest class of those that may leave first. A gate is only looked at where it may matter: never does
 * it let a packet leave earlier than link and transmit time do. */
static struct selection tas_select(struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	int64_t free_tai_ns = link_free(shaper, now_tai_ns);
	struct selection best = selection_none();

	for (unsigned int class = KTSN_CLASSES; class -- > 0;) {
		int64_t at_tai_ns = earliest(shaper, class, free_tai_ns);
		struct selection of_class;

		if (at_tai_ns >= best.at_tai_ns)
			continue;
		of_class = class_select(shaper, class, at_tai_ns);
		if (of_class.at_tai_ns < best.at_tai_ns)
			best = of_class;
	}
	return best;
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
