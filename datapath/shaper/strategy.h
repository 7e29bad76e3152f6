/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the front of the shaper (shaper.c), which holds the packets, and its strategies, which say whose
 * turn it is. Private to this folder.
 *
 * To add a strategy: one file like strict_priority.c with its table, its value in enum ktsn_strategy, and its
 * line in shaper.c.
 */
#ifndef KTSN_SHAPER_STRATEGY_H
#define KTSN_SHAPER_STRATEGY_H

#include "gates.h"
#include "lanes.h"
#include "shaper_config.h"

/* Where the first packet of a class fits, as long as that packet, the gates and the time go on. */
struct fit {
	const struct ktsn_shaper_packet *packet; /* NULL: not known */
	int64_t from_tai_ns;                     /* looked for from here on */
	int64_t start_tai_ns;
	struct ktsn_window window;
};

/* The next event: what becomes of the first packet of a class, and when. */
struct selection {
	int64_t at_tai_ns; /* KTSN_SHAPER_NEVER: nothing */
	unsigned int traffic_class;
	enum ktsn_verdict verdict;
};

/* The first packet of each class. Their transmit times are one cache line: whose turn it is shows without a
 * look at packets. KTSN_SHAPER_NEVER and NULL of an empty class. Of a class that has packets with a time and
 * without, it is known with the selection. */
struct firsts {
	int64_t txtime_tai_ns[KTSN_CLASSES];
	struct ktsn_shaper_packet *packets[KTSN_CLASSES];
};

struct ktsn_shaper {
	struct firsts firsts; /* first: aligned as the memory is, to lines */
	const struct ktsn_shaper_ops *ops;
	struct ktsn_shaper_config config;
	const struct ktsn_gates *gates;
	int64_t link_free_tai_ns; /* when the last frame will have left the link */
	uint32_t link_bytes;      /* what shaper_link_ns() was asked for last, */
	int64_t link_ns;          /* and what it said */
	uint32_t pending;
	uint8_t classes[LANE_KINDS];  /* bit c: lanes of that kind have packets of class c */
	uint64_t turns;               /* services of any sender */
	struct selection selection;   /* the last, for as long as nothing changes */
	int64_t selected_from_tai_ns; /* and the time does not leave from here to it */
	struct fit fits[KTSN_CLASSES];
	struct lanes lanes[LANE_KINDS][KTSN_CLASSES];
	struct ktsn_shaper_lane own; /* of packets without a lane */
};

struct ktsn_shaper_ops {
	bool drops_late; /* what it took, and what cannot leave in time */
	bool classless;  /* takes all classes for one, which is class 0 here */
	/* Whether a packet is taken that was handed over then: 0 or -errno as ktsn_shaper_enqueue(). */
	int (*admit)(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet,
		     int64_t handed_tai_ns, int64_t now_tai_ns);
	/* What comes next, not before `now`. */
	struct selection (*select)(struct ktsn_shaper *shaper, int64_t now_tai_ns);
	/* When the window closes in which a packet that select() chose leaves; NULL: there are no windows. */
	const struct ktsn_window *(*window)(const struct ktsn_shaper *shaper, unsigned int traffic_class);
};

extern const struct ktsn_shaper_ops ktsn_tas_ops;
extern const struct ktsn_shaper_ops ktsn_strict_priority_ops;
extern const struct ktsn_shaper_ops ktsn_etf_ops;
extern const struct ktsn_shaper_ops ktsn_etf_deadline_ops;

/* The classes that have packets, and those that have some with a time and some without. */
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

/* The highest class in a set that is not empty. */
static inline unsigned int highest_class(unsigned int classes)
{
	return 31 - (unsigned int)__builtin_clz(classes);
}

/* When the link is free, `now` or later. */
static inline int64_t link_free(const struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	return shaper->link_free_tai_ns > now_tai_ns ? shaper->link_free_tai_ns : now_tai_ns;
}

/* When the link and its own time let the first packet of a class leave, at the earliest. */
static inline int64_t earliest(const struct ktsn_shaper *shaper, unsigned int class, int64_t free_tai_ns)
{
	int64_t txtime_tai_ns = shaper->firsts.txtime_tai_ns[class];

	return txtime_tai_ns > free_tai_ns ? txtime_tai_ns : free_tai_ns;
}

/* Most frames are as long as the one before, and a division takes longer than the rest of a decision. */
static inline int64_t shaper_link_ns(struct ktsn_shaper *shaper, uint32_t wire_bytes)
{
	if (wire_bytes != shaper->link_bytes) {
		shaper->link_bytes = wire_bytes;
		shaper->link_ns = ktsn_link_ns(shaper->config.link_speed_bps, wire_bytes);
	}
	return shaper->link_ns;
}

/* How late a packet may leave that is dropped for being late. */
static inline int64_t allowance_ns(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet)
{
	return packet->deadline ? shaper->config.tolerance_ns : shaper->config.delta_ns;
}

static inline struct selection selection_none(void)
{
	return (struct selection){.at_tai_ns = KTSN_SHAPER_NEVER};
}

#endif
