/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the shaper (shaper.c), which holds the packets, and its strategies, which select the
 * next one. Private to this folder.
 *
 * To add a strategy, add a file like strict_priority.c with its ops, a value in enum ktsn_strategy, and a
 * line in shaper.c.
 */
#ifndef KTSN_SHAPER_STRATEGY_H
#define KTSN_SHAPER_STRATEGY_H

#include "gates.h"
#include "lanes.h"
#include "shaper_config.h"

/* The window in which the first packet of a class fits, valid until the packet, the gates or the clock
 * change. */
struct fit {
	const struct ktsn_shaper_packet *packet; /* NULL: not known */
	int64_t from_tai_ns;                     /* beginning of the search */
	int64_t start_tai_ns;                    /* without a window: from_tai_ns */
	struct ktsn_window window;
};

/* The next event: what happens to the first packet of a class, and when. */
struct selection {
	int64_t at_tai_ns; /* KTSN_SHAPER_NEVER: none */
	unsigned int traffic_class;
	enum ktsn_verdict verdict;
};

/* The first packet of each class. The transmit times are in one cache line, so that a strategy does not touch
 * packets. KTSN_SHAPER_NEVER and NULL for an empty class. For a class with timed and untimed packets they are
 * set together with the selection. */
struct firsts {
	int64_t txtime_tai_ns[KTSN_CLASSES];
	struct ktsn_shaper_packet *packets[KTSN_CLASSES];
};

struct ktsn_shaper {
	struct firsts firsts; /* first member: aligned to cache lines like the memory */
	const struct ktsn_shaper_ops *ops;
	struct ktsn_shaper_config config;
	const struct ktsn_gates *gates;
	int64_t link_free_tai_ns; /* when the last frame will have left the link */
	uint32_t link_bytes;      /* last argument of shaper_link_ns() */
	int64_t link_ns;          /* its result */
	uint32_t pending;
	uint8_t classes[LANE_KINDS];  /* bit c: lanes of that kind have packets of class c */
	uint64_t turns;               /* services of any sender */
	struct selection selection;   /* last selection, valid until its inputs change */
	int64_t selected_from_tai_ns; /* it is valid from this time to its own */
	struct fit fits[KTSN_CLASSES];
	struct lanes lanes[LANE_KINDS][KTSN_CLASSES];
	struct ktsn_shaper_lane default_lane; /* of packets without a lane */
};

struct ktsn_shaper_ops {
	bool drops_late; /* packets that cannot leave in time */
	bool classless;  /* ignores classes: all packets are in class 0 */
	/* Checks a packet at enqueue: 0 or -errno as ktsn_shaper_enqueue(). */
	int (*admit)(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet,
		     int64_t handed_tai_ns, int64_t now_tai_ns);
	/* Returns the next event, not before `now`. */
	struct selection (*select)(struct ktsn_shaper *shaper, int64_t now_tai_ns);
	/* Returns the window in which the packet that select() chose leaves; NULL: the strategy has no
	 * windows. */
	const struct ktsn_window *(*window)(const struct ktsn_shaper *shaper, unsigned int traffic_class);
};

extern const struct ktsn_shaper_ops ktsn_tas_ops;
extern const struct ktsn_shaper_ops ktsn_strict_priority_ops;
extern const struct ktsn_shaper_ops ktsn_etf_ops;
extern const struct ktsn_shaper_ops ktsn_etf_deadline_ops;

/* Return the classes that have packets, and those that have both timed and untimed ones. */
static inline unsigned int classes_used(const struct ktsn_shaper *shaper)
{
	return shaper->classes[LANE_TIMED] | shaper->classes[LANE_UNTIMED];
}

static inline unsigned int classes_mixed(const struct ktsn_shaper *shaper)
{
	return shaper->classes[LANE_TIMED] & shaper->classes[LANE_UNTIMED];
}

static inline struct ktsn_shaper_packet *class_first(const struct ktsn_shaper *shaper, unsigned int class)
{
	return shaper->firsts.packets[class];
}

/* Returns the highest class in a set that is not empty. */
static inline unsigned int highest_class(unsigned int classes)
{
	return 31 - (unsigned int)__builtin_clz(classes);
}

/* Returns when the link is free, `now` or later. */
static inline int64_t link_free(const struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	return shaper->link_free_tai_ns > now_tai_ns ? shaper->link_free_tai_ns : now_tai_ns;
}

/* Returns the earliest time at which link and transmit time let the first packet of a class leave. */
static inline int64_t earliest(const struct ktsn_shaper *shaper, unsigned int class, int64_t free_tai_ns)
{
	int64_t txtime_tai_ns = shaper->firsts.txtime_tai_ns[class];

	return txtime_tai_ns > free_tai_ns ? txtime_tai_ns : free_tai_ns;
}

/* Returns the duration of a frame on the link. Caches the last result, because most frames have the same
 * length and a division takes longer than the rest of a decision. */
static inline int64_t shaper_link_ns(struct ktsn_shaper *shaper, uint32_t wire_bytes)
{
	if (wire_bytes != shaper->link_bytes) {
		shaper->link_bytes = wire_bytes;
		shaper->link_ns = ktsn_link_ns(shaper->config.link_speed_bps, wire_bytes);
	}
	return shaper->link_ns;
}

/* Returns how late a packet may leave under a strategy that drops late ones. */
static inline int64_t allowance_ns(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet)
{
	return packet->deadline ? shaper->config.tolerance_ns : shaper->config.delta_ns;
}

static inline struct selection selection_none(void)
{
	return (struct selection){.at_tai_ns = KTSN_SHAPER_NEVER};
}

#endif
