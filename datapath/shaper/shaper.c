/* SPDX-License-Identifier: Apache-2.0 */
#include "shaper.h"

#include "strategy.h"

#include <assert.h>
#include <errno.h>
#include <stdalign.h>
#include <string.h>

/* How much of its window a packet must have left after yielding. */
enum { YIELD_ROOM_NS = 100000 };

static const struct {
	const char *name;
	const struct ktsn_shaper_ops *ops;
} strategies[KTSN_STRATEGIES] = {
	[KTSN_STRATEGY_TAS] = {"tas", &ktsn_tas_ops},
	[KTSN_STRATEGY_STRICT_PRIORITY] = {"strict-priority", &ktsn_strict_priority_ops},
	[KTSN_STRATEGY_ETF] = {"etf", &ktsn_etf_ops},
	[KTSN_STRATEGY_ETF_DEADLINE] = {"etf-deadline", &ktsn_etf_deadline_ops},
};

const char *ktsn_strategy_name(enum ktsn_strategy strategy)
{
	return strategies[strategy].name;
}

int ktsn_strategy_parse(const char *name, enum ktsn_strategy *strategy)
{
	for (unsigned int i = 0; i < KTSN_STRATEGIES; i++) {
		if (strcmp(strategies[i].name, name) == 0) {
			*strategy = (enum ktsn_strategy)i;
			return 0;
		}
	}
	return -EINVAL;
}

size_t ktsn_shaper_lane_bytes(void)
{
	return sizeof(struct ktsn_shaper_lane);
}

size_t ktsn_shaper_bytes(void)
{
	return sizeof(struct ktsn_shaper);
}

/* Discards the selection, after a change of its inputs. */
static void selection_forget(struct ktsn_shaper *shaper)
{
	shaper->selected_from_tai_ns = KTSN_SHAPER_NEVER;
	shaper->selection.at_tai_ns = 0;
}

/* Returns the first lane of a kind in a class, or NULL. */
static const struct lane *lane_first(const struct ktsn_shaper *shaper, enum lane_kind kind,
				     unsigned int class)
{
	return shaper->classes[kind] >> class & 1 ? shaper->lanes[kind][class].heap[0] : NULL;
}

static inline void first_set(struct ktsn_shaper *shaper, unsigned int class, const struct lane *lane)
{
	shaper->firsts.packets[class] = lane ? lane->first : NULL;
	shaper->firsts.txtime_tai_ns[class] = lane ? lane->first->txtime_tai_ns : KTSN_SHAPER_NEVER;
}

/* Whether a packet may leave at a time: not before its transmit time, unless that is a deadline. */
static bool time_has_come(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet,
			  int64_t at_tai_ns)
{
	return packet->txtime_tai_ns <= at_tai_ns ||
	       (packet->deadline && ktsn_strategy_sends_at_once(shaper->config.strategy));
}

/* Whether the first timed packet leaves before the first untimed one at that time. A late packet whose sender
 * has had a turn takes turns with the untimed lanes, so that a flood does not starve them. */
static bool timed_before(const struct ktsn_shaper *shaper, const struct lane *timed,
			 const struct lane *untimed, int64_t at_tai_ns)
{
	if (!time_has_come(shaper, timed->first, at_tai_ns))
		return false;
	return !timed->rank_turn ||
	       ktsn_packet_in_time(timed->first, at_tai_ns - shaper->config.tolerance_ns) ||
	       ktsn_lane_before(timed, untimed);
}

/* Updates the first packet of a class with both kinds of lanes. Returns whether it has changed. */
static bool first_update(struct ktsn_shaper *shaper, unsigned int class, int64_t at_tai_ns)
{
	const struct ktsn_shaper_packet *before = class_first(shaper, class);
	const struct lane *timed = lane_first(shaper, LANE_TIMED, class);
	const struct lane *untimed = lane_first(shaper, LANE_UNTIMED, class);

	first_set(shaper, class, timed_before(shaper, timed, untimed, at_tai_ns) ? timed : untimed);
	return class_first(shaper, class) != before;
}

/* Not inlined, so that untimed packets do not slow down timed ones. */
__attribute__((noinline, cold)) static void select_mixed(struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	struct selection *selection = &shaper->selection;

	for (unsigned int classes = classes_mixed(shaper); classes; classes &= classes - 1)
		(void)first_update(shaper, (unsigned int)__builtin_ctz(classes),
				   link_free(shaper, now_tai_ns));
	*selection = shaper->ops->select(shaper, now_tai_ns);
	/* A timed packet may become due before the gate opens. */
	if (classes_mixed(shaper) >> selection->traffic_class & 1 &&
	    first_update(shaper, selection->traffic_class, selection->at_tai_ns))
		*selection = shaper->ops->select(shaper, now_tai_ns);
}

/* Returns the next selection, which is valid until its time unless its inputs change. */
static inline const struct selection *selection_find(struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	if (now_tai_ns >= shaper->selected_from_tai_ns && now_tai_ns <= shaper->selection.at_tai_ns)
		return &shaper->selection;
	if (classes_mixed(shaper))
		select_mixed(shaper, now_tai_ns);
	else
		shaper->selection = shaper->ops->select(shaper, now_tai_ns);
	shaper->selected_from_tai_ns = now_tai_ns;
	return &shaper->selection;
}

static void fits_forget(struct ktsn_shaper *shaper)
{
	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		shaper->fits[class] = (struct fit){.window = {KTSN_WINDOW_NEVER, KTSN_WINDOW_NEVER}};
}

void ktsn_shaper_gates_set(struct ktsn_shaper *shaper, const struct ktsn_gates *gates)
{
	shaper->gates = gates;
	selection_forget(shaper);
	fits_forget(shaper);
}

/* Updates the first packet of a class after its lanes `changed`. In a class with both kinds of lanes
 * select_mixed() chooses between them. */
static inline void first_find(struct ktsn_shaper *shaper, unsigned int class, const struct lanes *changed)
{
	const struct lane *first = changed->count ? changed->heap[0] : NULL;

	if (!first && classes_used(shaper) >> class & 1)
		first = shaper->lanes[shaper->classes[LANE_TIMED] >> class & 1 ? LANE_TIMED : LANE_UNTIMED]
				     [class]
					     .heap[0];
	first_set(shaper, class, first);
	selection_forget(shaper);
}

/* Forgets the services of all senders. */
static void services_forget(struct ktsn_shaper *shaper)
{
	for (unsigned int class = 0; class < KTSN_CLASSES; class ++) {
		for (int kind = 0; kind < LANE_KINDS; kind++)
			ktsn_lanes_forget(&shaper->lanes[kind][class], shaper->turns);
		first_find(shaper, class, &shaper->lanes[LANE_TIMED][class]);
	}
}

void ktsn_shaper_clock_set_back(struct ktsn_shaper *shaper)
{
	shaper->link_free_tai_ns = 0;
	services_forget(shaper);
	fits_forget(shaper);
}

struct ktsn_shaper *ktsn_shaper_init(void *memory, const struct ktsn_shaper_config *config)
{
	struct ktsn_shaper *shaper = memory;

	assert((uintptr_t)memory % alignof(max_align_t) == 0);
	shaper->config = *config;
	shaper->link_free_tai_ns = shaper->link_ns = 0;
	shaper->link_bytes = 0;
	shaper->pending = 0;
	memset(shaper->classes, 0, sizeof(shaper->classes));
	shaper->turns = 0;
	memset(&shaper->default_lane, 0, sizeof(shaper->default_lane));
	for (int kind = 0; kind < LANE_KINDS; kind++) {
		for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
			shaper->lanes[kind][class].count = 0;
	}
	shaper->ops = strategies[config->strategy].ops;
	ktsn_shaper_gates_set(shaper, NULL);
	services_forget(shaper);
	return shaper;
}

/* Returns the class of the lanes in which a packet waits. */
static unsigned int class_of(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet)
{
	return shaper->ops->classless ? 0 : packet->traffic_class;
}

static enum lane_kind kind_of(const struct ktsn_shaper_packet *packet)
{
	return packet->untimed ? LANE_UNTIMED : LANE_TIMED;
}

static void packet_push(struct ktsn_shaper *shaper, struct ktsn_shaper_lane *sender,
			struct ktsn_shaper_packet *packet, int64_t now_tai_ns)
{
	unsigned int class = class_of(shaper, packet);
	enum lane_kind kind = kind_of(packet);
	struct lanes *lanes = &shaper->lanes[kind][class];

	ktsn_lanes_push(lanes, sender, class, packet, now_tai_ns);
	shaper->classes[kind] |= (uint8_t)(1U << class);
	shaper->pending++;
	if (class_first(shaper, class) != lanes->heap[0]->first)
		first_find(shaper, class, lanes);
}

/* Removes the first packet of a class. The caller must update the first packet of the class. */
static struct ktsn_shaper_packet *class_pop(struct ktsn_shaper *shaper, struct lanes *lanes,
					    enum lane_kind kind, unsigned int class)
{
	struct ktsn_shaper_packet *packet = ktsn_lanes_pop(lanes);

	if (!lanes->count)
		shaper->classes[kind] &= (uint8_t) ~(1U << class);
	/* The memory of this packet may be used for the next one, which needs a fit of its own. */
	shaper->fits[class].packet = NULL;
	shaper->pending--;
	return packet;
}

/* Removes all packets, with their senders, class by class and in the order of their times; untimed packets
 * last. */
static struct ktsn_shaper_packet *packets_take(struct ktsn_shaper *shaper)
{
	struct ktsn_shaper_packet *packets = NULL, **end = &packets;

	while (classes_used(shaper)) {
		enum lane_kind kind = shaper->classes[LANE_TIMED] ? LANE_TIMED : LANE_UNTIMED;
		unsigned int class = highest_class(shaper->classes[kind]);
		struct lanes *lanes = &shaper->lanes[kind][class];
		struct ktsn_shaper_lane *sender = lanes->heap[0]->sender;
		struct ktsn_shaper_packet *packet = class_pop(shaper, lanes, kind, class);

		packet->sender = sender;
		packet->after = NULL;
		*end = packet;
		end = &packet->after;
	}
	return packets;
}

/* Sets the strategy. Packets move to other queues if only one of the two strategies is classless. */
static void ops_set(struct ktsn_shaper *shaper, const struct ktsn_shaper_ops *ops)
{
	bool moves = ops->classless != shaper->ops->classless;
	struct ktsn_shaper_packet *packet = moves ? packets_take(shaper) : NULL, *next;

	shaper->ops = ops;
	services_forget(shaper);
	for (; packet; packet = next) {
		next = packet->after;
		packet_push(shaper, packet->sender, packet, packet->txtime_tai_ns);
	}
}

void ktsn_shaper_strategy_set(struct ktsn_shaper *shaper, enum ktsn_strategy strategy)
{
	shaper->config.strategy = strategy;
	ops_set(shaper, strategies[strategy].ops);
}

/* Records the service of a sender in a class, by a packet. */
static void sender_serve(struct ktsn_shaper *shaper, struct lanes *lanes, struct ktsn_shaper_lane *sender,
			 unsigned int class, struct ktsn_shaper_packet *packet, int64_t now_tai_ns)
{
	struct lane *lane = &sender->classes[class];
	struct service *service = &sender->services[class];

	packet->turn = ++shaper->turns;
	packet->turn_before = service->turn;
	packet->end_before_tai_ns = service->end_tai_ns;
	*service = (struct service){.end_tai_ns = link_free(shaper, now_tai_ns), .turn = packet->turn};
	if (lane->first)
		ktsn_lanes_served(lanes, lane);
	/* Even if the sender has no more packets there. */
	first_find(shaper, class, lanes);
}

/* Revokes the service of a sender: the previous one counts again, unless the sender has been served since. */
static void sender_unserve(struct ktsn_shaper *shaper, struct ktsn_shaper_lane *sender, unsigned int class,
			   uint64_t turn, struct service before)
{
	struct service *service = &sender->services[class];
	struct lane *lane = &sender->classes[class];
	struct lanes *lanes;

	if (!turn || service->turn != turn)
		return;
	*service = before;
	if (!lane->first)
		return;
	lanes = &shaper->lanes[kind_of(lane->first)][class];
	ktsn_lanes_unserved(lanes, lane);
	first_find(shaper, class, lanes);
}

void ktsn_shaper_requeue(struct ktsn_shaper *shaper, struct ktsn_shaper_lane *lane,
			 struct ktsn_shaper_packet *packet, int64_t now_tai_ns)
{
	struct ktsn_shaper_lane *sender = lane ? lane : &shaper->default_lane;
	struct service before = {.end_tai_ns = packet->end_before_tai_ns, .turn = packet->turn_before};
	uint64_t turn = packet->turn;

	packet_push(shaper, sender, packet, now_tai_ns);
	/* Otherwise a packet that is refused at each of its turns would always come last. */
	sender_unserve(shaper, sender, class_of(shaper, packet), turn, before);
}

int ktsn_shaper_enqueue_handed(struct ktsn_shaper *shaper, struct ktsn_shaper_lane *lane,
			       struct ktsn_shaper_packet *packet, int64_t handed_tai_ns, int64_t now_tai_ns)
{
	int error = shaper->ops->admit(shaper, packet, handed_tai_ns, now_tai_ns);

	packet->patient = !shaper->ops->drops_late || packet->untimed;
	if (!error)
		packet_push(shaper, lane ? lane : &shaper->default_lane, packet, now_tai_ns);
	return error;
}

int ktsn_shaper_enqueue(struct ktsn_shaper *shaper, struct ktsn_shaper_lane *lane,
			struct ktsn_shaper_packet *packet, int64_t now_tai_ns)
{
	return ktsn_shaper_enqueue_handed(shaper, lane, packet, now_tai_ns, now_tai_ns);
}

bool ktsn_strategy_checks_handover(enum ktsn_strategy strategy)
{
	return strategy == KTSN_STRATEGY_ETF || strategy == KTSN_STRATEGY_ETF_DEADLINE;
}

bool ktsn_strategy_sends_at_once(enum ktsn_strategy strategy)
{
	return strategy == KTSN_STRATEGY_ETF_DEADLINE;
}

int64_t ktsn_shaper_next(struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	return selection_find(shaper, now_tai_ns)->at_tai_ns;
}

static bool gate_open(const struct ktsn_shaper *shaper, unsigned int class, int64_t at_tai_ns)
{
	return !shaper->ops->window || !shaper->gates ||
	       ktsn_gates_window(shaper->gates, class, at_tai_ns).open_tai_ns <= at_tai_ns;
}

int64_t ktsn_shaper_due_excluding(const struct ktsn_shaper *shaper, const struct ktsn_shaper_lane *lane)
{
	int64_t due_tai_ns = KTSN_SHAPER_NEVER;

	for (unsigned int classes = shaper->classes[LANE_TIMED]; classes; classes &= classes - 1) {
		int64_t of_class_tai_ns =
			ktsn_lanes_due_excluding(&shaper->lanes[LANE_TIMED][__builtin_ctz(classes)],
						 lane ? lane : &shaper->default_lane);

		if (of_class_tai_ns < due_tai_ns)
			due_tai_ns = of_class_tai_ns;
	}
	return due_tai_ns;
}

/* Whether the selected packet could leave at `now` if the link were free. */
static bool only_link_holds(const struct ktsn_shaper *shaper, const struct selection *selection,
			    int64_t now_tai_ns)
{
	const struct ktsn_shaper_packet *packet = class_first(shaper, selection->traffic_class);

	if (selection->verdict != KTSN_SEND || !time_has_come(shaper, packet, now_tai_ns))
		return false;
	return !shaper->ops->window ||
	       shaper->ops->window(shaper, selection->traffic_class)->open_tai_ns <= now_tai_ns;
}

/* Returns the selection that leaves at `now`, or after the frames on the link, at `until` at the latest; or
 * NULL. */
static const struct selection *selection_behind(struct ktsn_shaper *shaper, int64_t now_tai_ns,
						int64_t until_tai_ns)
{
	const struct selection *selection = selection_find(shaper, now_tai_ns);

	if (selection->at_tai_ns <= now_tai_ns)
		return selection;
	if (selection->at_tai_ns > until_tai_ns || !only_link_holds(shaper, selection, now_tai_ns))
		return NULL;
	return selection;
}

const struct ktsn_shaper_packet *ktsn_shaper_peek_behind(struct ktsn_shaper *shaper, int64_t now_tai_ns,
							 int64_t until_tai_ns)
{
	const struct selection *selection = selection_behind(shaper, now_tai_ns, until_tai_ns);

	return selection ? class_first(shaper, selection->traffic_class) : NULL;
}

const struct ktsn_shaper_packet *ktsn_shaper_peek(struct ktsn_shaper *shaper, int64_t now_tai_ns)
{
	return ktsn_shaper_peek_behind(shaper, now_tai_ns, now_tai_ns);
}

struct ktsn_shaper_packet *ktsn_shaper_peek_next(struct ktsn_shaper *shaper, int64_t now_tai_ns,
						 int64_t until_tai_ns)
{
	const struct selection *selection = selection_find(shaper, now_tai_ns);

	if (selection->at_tai_ns > until_tai_ns || selection->verdict != KTSN_SEND)
		return NULL;
	return class_first(shaper, selection->traffic_class);
}

int64_t ktsn_shaper_due_after(const struct ktsn_shaper *shaper, unsigned int lowest_class, int64_t now_tai_ns)
{
	int64_t due_tai_ns = KTSN_SHAPER_NEVER;

	if (shaper->ops->drops_late)
		return KTSN_SHAPER_NEVER;
	for (unsigned int classes = (unsigned int)shaper->classes[LANE_TIMED] >> lowest_class << lowest_class;
	     classes; classes &= classes - 1) {
		unsigned int class = (unsigned int)__builtin_ctz(classes);
		int64_t of_class_tai_ns = ktsn_lanes_due_after(&shaper->lanes[LANE_TIMED][class], now_tai_ns);

		if (of_class_tai_ns < due_tai_ns && gate_open(shaper, class, of_class_tai_ns))
			due_tai_ns = of_class_tai_ns;
	}
	return due_tai_ns;
}

bool ktsn_shaper_may_yield(struct ktsn_shaper *shaper, int64_t now_tai_ns, int64_t until_tai_ns)
{
	const struct selection *selection = selection_find(shaper, now_tai_ns);

	/* A packet that misses its window loses a whole cycle. */
	return selection->at_tai_ns > now_tai_ns || !shaper->ops->window ||
	       shaper->ops->window(shaper, selection->traffic_class)->close_tai_ns - YIELD_ROOM_NS >
		       until_tai_ns;
}

void ktsn_shaper_yield(struct ktsn_shaper *shaper, int64_t now_tai_ns, int64_t late_tai_ns,
		       int64_t until_tai_ns)
{
	const struct selection *selection = selection_find(shaper, now_tai_ns);
	unsigned int class = selection->traffic_class;
	struct lanes *lanes = &shaper->lanes[LANE_TIMED][class];

	if (selection->at_tai_ns > now_tai_ns || !lanes->count)
		return;
	for (uint32_t i = 0;
	     i < KTSN_LANES_OVERDUE_MAX && !ktsn_packet_in_time(lanes->heap[0]->first, late_tai_ns) &&
	     lanes->heap[0]->rank_tai_ns <= now_tai_ns;
	     i++) {
		struct ktsn_shaper_lane *sender = lanes->heap[0]->sender;

		sender->services[class] =
			(struct service){.end_tai_ns = until_tai_ns, .turn = ++shaper->turns};
		ktsn_lanes_served(lanes, &sender->classes[class]);
	}
	first_find(shaper, class, lanes);
}

struct ktsn_shaper_packet *ktsn_shaper_take(struct ktsn_shaper *shaper)
{
	enum lane_kind kind = shaper->classes[LANE_TIMED] ? LANE_TIMED : LANE_UNTIMED;
	struct ktsn_shaper_packet *packet;
	struct lanes *lanes;
	unsigned int class;

	if (!classes_used(shaper))
		return NULL;
	class = highest_class(shaper->classes[kind]);
	lanes = &shaper->lanes[kind][class];
	packet = class_pop(shaper, lanes, kind, class);
	first_find(shaper, class, lanes);
	packet->turn = 0;
	return packet;
}

/* Fills in the results for the caller of a packet that is given to the port at `now`, and updates when the
 * link is free. */
static void packet_leave(struct ktsn_shaper *shaper, struct ktsn_shaper_packet *packet, int64_t now_tai_ns,
			 const struct ktsn_window *window)
{
	int64_t start_tai_ns = link_free(shaper, now_tai_ns);

	packet->waited = KTSN_WAIT_NONE;
	if (window && window->open_tai_ns > packet->txtime_tai_ns)
		packet->waited = KTSN_WAIT_GATE;
	else if (shaper->link_free_tai_ns > packet->txtime_tai_ns)
		packet->waited = KTSN_WAIT_LINK;
	packet->close_tai_ns = window ? window->close_tai_ns : KTSN_WINDOW_NEVER;
	if (packet->close_tai_ns != KTSN_WINDOW_NEVER)
		packet->close_tai_ns -= start_tai_ns - now_tai_ns;
	if (shaper->config.link_speed_bps)
		shaper->link_free_tai_ns = start_tai_ns + shaper_link_ns(shaper, packet->wire_bytes);
}

struct ktsn_shaper_packet *ktsn_shaper_dequeue_behind(struct ktsn_shaper *shaper, int64_t now_tai_ns,
						      int64_t until_tai_ns, enum ktsn_verdict *verdict)
{
	const struct selection *selected = selection_behind(shaper, now_tai_ns, until_tai_ns);
	struct selection selection;
	struct ktsn_window window;
	bool windowed = shaper->ops->window != NULL;
	struct ktsn_shaper_packet *packet;
	struct ktsn_shaper_lane *sender;
	struct lanes *lanes;
	enum lane_kind kind;

	if (!selected)
		return NULL;
	selection = *selected;
	*verdict = selection.verdict;
	kind = kind_of(class_first(shaper, selection.traffic_class));
	lanes = &shaper->lanes[kind][selection.traffic_class];
	sender = lanes->heap[0]->sender;
	if (windowed)
		window = *shaper->ops->window(shaper, selection.traffic_class);
	packet = class_pop(shaper, lanes, kind, selection.traffic_class);
	if (selection.verdict == KTSN_SEND)
		packet_leave(shaper, packet, now_tai_ns, windowed ? &window : NULL);
	sender_serve(shaper, lanes, sender, selection.traffic_class, packet, now_tai_ns);
	return packet;
}

struct ktsn_shaper_packet *ktsn_shaper_dequeue(struct ktsn_shaper *shaper, int64_t now_tai_ns,
					       enum ktsn_verdict *verdict)
{
	return ktsn_shaper_dequeue_behind(shaper, now_tai_ns, now_tai_ns, verdict);
}

struct ktsn_shaper_packet *ktsn_shaper_withdraw(struct ktsn_shaper *shaper, int64_t now_tai_ns,
						int64_t until_tai_ns)
{
	const struct selection *selected = selection_behind(shaper, now_tai_ns, until_tai_ns);
	struct ktsn_shaper_packet *packet;
	struct lanes *lanes;
	struct lane *lane;
	enum lane_kind kind;
	unsigned int class;

	if (!selected)
		return NULL;
	class = selected->traffic_class;
	kind = kind_of(class_first(shaper, class));
	lanes = &shaper->lanes[kind][class];
	lane = lanes->heap[0];
	packet = class_pop(shaper, lanes, kind, class);
	if (lane->first)
		ktsn_lanes_served(lanes, lane);
	first_find(shaper, class, lanes);
	return packet;
}

void ktsn_shaper_restore(struct ktsn_shaper *shaper, struct ktsn_shaper_lane *lane,
			 struct ktsn_shaper_packet *packet, int64_t now_tai_ns)
{
	packet_push(shaper, lane ? lane : &shaper->default_lane, packet, now_tai_ns);
}

int64_t ktsn_shaper_lateness_max(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet)
{
	return packet->patient ? INT64_MAX : allowance_ns(shaper, packet);
}

bool ktsn_shaper_overrun(const struct ktsn_shaper *shaper, const struct ktsn_shaper_packet *packet,
			 int64_t sent_tai_ns)
{
	return sent_tai_ns >
	       packet->close_tai_ns - ktsn_link_ns(shaper->config.link_speed_bps, packet->wire_bytes);
}

uint32_t ktsn_shaper_pending(const struct ktsn_shaper *shaper)
{
	return shaper->pending;
}
