/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategies `etf` and `etf-deadline`: earliest transmit time first, over all classes, as the kernel's
 * qdisc of that name in its two modes (tc-etf(8)). A packet that cannot leave at its time is dropped.
 *
 * The qdisc begins to send `delta` before the transmit time and drops packets after it, so a wake-up that is
 * late by less than `delta` costs nothing. Here no packet leaves before its time, and may leave until `delta`
 * after it:
 *
 *                    transmit time
 *   ------|<----- delta ----->|<----- delta ----->|-----> time
 *               tc-etf(8)             here
 *
 * Deadlines mean the same in both. Frames without a time leave as soon as the link is free, in turn with the
 * others.
 */
#include "strategy.h"

#include <errno.h>

static int etf_admit(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet,
		     int64_t handed_tai_ns, int64_t now_tai_ns)
{
	(void)now_tai_ns;
	if (packet->untimed)
		return 0;
	if (packet->deadline != (shaper->config.strategy == KTSN_STRATEGY_ETF_DEADLINE))
		return -EINVAL;
	return packet->txtime_tai_ns < handed_tai_ns ? -ETIME : 0;
}

static struct selection etf_select(struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	const struct ktsn_shaper_packet *packet;
	struct selection selection = {.verdict = KTSN_SEND};

	if (!classes_used(shaper))
		return selection_none();
	packet = class_first(shaper, 0);
	selection.at_tai_ns = earliest(shaper, 0, link_free(shaper, now_tai_ns));
	if (!packet->patient && selection.at_tai_ns - packet->txtime_tai_ns > allowance_ns(shaper, packet)) {
		selection.verdict = KTSN_DROP_MISSED;
		selection.at_tai_ns = now_tai_ns > packet->txtime_tai_ns ? now_tai_ns : packet->txtime_tai_ns;
	}
	return selection;
}

/* Selects the packet as soon as the link is free. A packet without a deadline, which was enqueued under
 * another strategy, still waits for its time. */
static struct selection etf_deadline_select(struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	struct selection selection = etf_select(shaper, now_tai_ns);
	int64_t free_tai_ns = link_free(shaper, now_tai_ns);

	if (selection.at_tai_ns != KTSN_SHAPER_NEVER && selection.verdict == KTSN_SEND &&
	    class_first(shaper, 0)->deadline)
		selection.at_tai_ns = free_tai_ns;
	return selection;
}

const struct ktsn_shaper_ops ktsn_etf_ops = {
	.drops_late = true,
	.classless = true,
	.admit = etf_admit,
	.select = etf_select,
};

const struct ktsn_shaper_ops ktsn_etf_deadline_ops = {
	.drops_late = true,
	.classless = true,
	.admit = etf_admit,
	.select = etf_deadline_select,
};
