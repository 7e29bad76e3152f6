/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy `strict-priority` selects the highest class whose first packet is due (IEEE Std 802.1Q-2022
 * clause 8.6.8.1).
 */
#include "strategy.h"

static int strict_priority_admit(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet,
				 int64_t handed_tai_ns, int64_t now_tai_ns)
{
	(void)shaper, (void)packet, (void)handed_tai_ns, (void)now_tai_ns;
	return 0;
}

/* Selects the earliest packet, of equally early ones that of the highest class. No packet leaves before the
 * link is free. There are no branches that depend on times, which are unpredictable. */
static struct selection strict_priority_select(struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	int64_t free_tai_ns = link_free(shaper, now_tai_ns), best_tai_ns = KTSN_SHAPER_NEVER;
	unsigned int best = 0;

#pragma GCC unroll 8
	for (unsigned int class = KTSN_CLASSES; class -- > 0;) {
		int64_t at_tai_ns = earliest(shaper, class, free_tai_ns);
		bool better = at_tai_ns < best_tai_ns;

		best_tai_ns = better ? at_tai_ns : best_tai_ns;
		best = better ? class : best;
	}
	return (struct selection){best_tai_ns, best, KTSN_SEND};
}

const struct ktsn_shaper_ops ktsn_strict_priority_ops = {
	.admit = strict_priority_admit,
	.select = strict_priority_select,
};
