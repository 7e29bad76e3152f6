/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shaper in random worlds, compared with a simple shaper that knows the gate states of every nanosecond
 * (from the standard's state machines, gate_machines.h) and checks at each tick whether a packet may leave.
 * Both must agree on every event: which packet, when to the nanosecond, sent or dropped. So no packet is
 * early, none is outside its window, and none waits longer than it must. Invariants that hold independent of
 * the model are checked for each departure: among them, that no sender is served twice while a packet of
 * another waits.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gate_machines.h"
#include "shaper.h"
#include "test_random.h"

#include "unit_test.h"

enum {
	TICKS = 600,    /* the ticks in which events happen */
	HORIZON = 1400, /* the ticks that are computed ahead: beyond any change, and three cycles */
	PACKETS = 96,
	LATE_MAX = 40,
	SENDERS_MAX = 4,
	BURST_MAX = 6,
};

enum place { UNUSED, HELD, GONE };

/* A sender's last turn. */
struct served {
	int64_t end; /* tick at which its frame had left */
	uint64_t turn;
};

/* Packets for which the port had no room. */
struct refused {
	struct ktsn_shaper_packet *packet;
	struct served *served, before;
	uint64_t turn;
};

struct world {
	struct test_random *random;
	uint64_t number;
	int64_t epoch_tai_ns; /* of tick 0 */
	int64_t tick;

	struct ktsn_shaper *shaper;
	struct ktsn_shaper_config config;
	struct ktsn_gates *gates, *gates_spare;
	bool gated; /* gates were set */

	/* The simple shaper. */
	struct gate_simulation simulation;
	uint32_t max_sdu_bytes[KTSN_CLASSES];
	uint8_t states[HORIZON];
	uint16_t run[KTSN_CLASSES]
		    [HORIZON]; /* the number of ticks from here on, including this one, in which it is open */
	uint16_t longest[KTSN_CLASSES][HORIZON]; /* the longest of all runs from here on */
	bool settled;                            /* everything that will ever happen is within the horizon */
	struct ktsn_shaper_packet packets[PACKETS];
	enum place places[PACKETS];
	const struct ktsn_shaper_packet *heads[KTSN_CLASSES];
	uint32_t used, held;
	uint32_t gone[PACKETS]; /* their memory is reused last in first out, as in the loop */
	uint32_t gone_count;
	uint64_t orders;
	int64_t link_free; /* tick */

	uint32_t senders; /* the first has no lane */
	struct ktsn_shaper_lane *lanes[SENDERS_MAX];
	uint8_t sender_of[PACKETS];
	struct served served[SENDERS_MAX]
			    [KTSN_CLASSES]; /* per class; for strategies without classes, in the first */
	uint64_t turns;
	struct refused refused[BURST_MAX];
	uint32_t refused_count;
};

struct totals {
	uint64_t packets, sent, missed, no_window, refused, requests, requeued;
};

#define world_assert(world, condition)                                                                       \
	do {                                                                                                 \
		if (!(condition))                                                                            \
			fail_msg("world %llu, tick %lld: %s", (unsigned long long)(world)->number,           \
				 (long long)(world)->tick, #condition);                                      \
	} while (0)

static uint64_t below(struct world *world, uint64_t limit)
{
	return test_random_below(world->random, limit);
}

/* ---- the simple shaper ---- */

static void predict(struct world *world)
{
	uint32_t from = (uint32_t)world->tick;
	const struct gate_machines *machines = &world->simulation.machines;

	gate_simulation_foretell(&world->simulation, world->states + from, HORIZON - from);
	for (unsigned int class = 0; class < KTSN_CLASSES; class ++) {
		uint16_t run = 0, longest = 0;

		for (uint32_t tick = HORIZON; tick-- > from;) {
			run = world->states[tick] >> class & 1 ? run + 1 : 0;
			longest = run > longest ? run : longest;
			world->run[class][tick] = run;
			world->longest[class][tick] = longest;
		}
	}
	world->settled = !machines->config_pending ||
			 machines->config_change_time < world->epoch_tai_ns + HORIZON - 3 * GATE_CYCLE_MAX_NS;
}

static uint32_t sender_of(const struct world *world, const struct ktsn_shaper_packet *packet)
{
	return world->sender_of[packet - world->packets];
}

/* The time since when a packet waits for its sender's turn, and the order among equals. */
struct rank {
	int64_t tick;
	uint64_t turn;
};

static unsigned int service_of(const struct world *world, const struct ktsn_shaper_packet *packet)
{
	bool classless = world->config.strategy == KTSN_STRATEGY_ETF ||
			 world->config.strategy == KTSN_STRATEGY_ETF_DEADLINE;

	return classless ? 0 : packet->traffic_class;
}

static struct rank rank_of(const struct world *world, const struct ktsn_shaper_packet *packet)
{
	uint32_t sender = sender_of(world, packet);
	unsigned int service = service_of(world, packet);
	int64_t txtime = packet->txtime_tai_ns - world->epoch_tai_ns;

	if (world->served[sender][service].turn && world->served[sender][service].end >= txtime)
		return (struct rank){world->served[sender][service].end, world->served[sender][service].turn};
	return (struct rank){txtime, 0};
}

/* By time for packets of one sender, by turns for several senders. */
static bool naive_before(const struct world *world, const struct ktsn_shaper_packet *a,
			 const struct ktsn_shaper_packet *b)
{
	struct rank rank_a = rank_of(world, a), rank_b = rank_of(world, b);

	if (sender_of(world, a) == sender_of(world, b))
		return ktsn_packet_before(a, b);
	if (rank_a.tick != rank_b.tick)
		return rank_a.tick < rank_b.tick;
	return rank_a.turn != rank_b.turn ? rank_a.turn < rank_b.turn : ktsn_packet_before(a, b);
}

static void heads_find(struct world *world)
{
	memset(world->heads, 0, sizeof(world->heads));
	for (uint32_t i = 0; i < world->used; i++) {
		const struct ktsn_shaper_packet *packet = &world->packets[i];
		const struct ktsn_shaper_packet **head = &world->heads[packet->traffic_class];

		if (world->places[i] == HELD && (!*head || naive_before(world, packet, *head)))
			*head = packet;
	}
}

static int64_t duration_of(const struct world *world, const struct ktsn_shaper_packet *packet)
{
	int64_t ns = 0, bits = (int64_t)packet->wire_bytes * 8;

	/* The first nanosecond in which it has left. */
	while (world->config.link_speed_bps && ns * (int64_t)world->config.link_speed_bps < bits * 1000000000)
		ns++;
	return ns;
}

static int64_t max_of(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t txtime_tick(const struct world *world, const struct ktsn_shaper_packet *packet)
{
	return packet->txtime_tai_ns - world->epoch_tai_ns;
}

struct event {
	const struct ktsn_shaper_packet *packet; /* NULL: none */
	enum ktsn_verdict verdict;
};

static struct event event_by_class(const struct world *world, int64_t tick)
{
	bool gated = world->gated && world->config.strategy == KTSN_STRATEGY_TAS;

	for (unsigned int class = KTSN_CLASSES; class -- > 0;) {
		const struct ktsn_shaper_packet *head = world->heads[class];
		int64_t room;

		if (!head || txtime_tick(world, head) > tick || world->link_free > tick)
			continue;
		/* A frame that takes no time needs an open gate all the same. */
		room = max_of(1, duration_of(world, head) + world->config.guard_band_ns);
		if (!gated || world->run[class][tick] >= room)
			return (struct event){head, KTSN_SEND};
		if (world->settled && world->longest[class][tick] < room)
			return (struct event){head, KTSN_DROP_NO_WINDOW};
	}
	return (struct event){0};
}

static struct event event_by_time(const struct world *world, int64_t tick)
{
	const struct ktsn_shaper_packet *first = NULL;
	bool deadline_mode = world->config.strategy == KTSN_STRATEGY_ETF_DEADLINE;
	int64_t txtime, allowance;

	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		if (world->heads[class] && (!first || naive_before(world, world->heads[class], first)))
			first = world->heads[class];
	if (!first)
		return (struct event){0};
	txtime = txtime_tick(world, first);
	allowance = first->deadline ? world->config.tolerance_ns : world->config.delta_ns;
	if (!first->patient && max_of(world->link_free, tick) > txtime + allowance)
		return tick >= txtime ? (struct event){first, KTSN_DROP_MISSED} : (struct event){0};
	if (tick >= world->link_free && (tick >= txtime || (deadline_mode && first->deadline)))
		return (struct event){first, KTSN_SEND};
	return (struct event){0};
}

static struct event event_at(const struct world *world, int64_t tick)
{
	if (world->config.strategy == KTSN_STRATEGY_TAS ||
	    world->config.strategy == KTSN_STRATEGY_STRICT_PRIORITY)
		return event_by_class(world, tick);
	return event_by_time(world, tick);
}

/* Returns the first tick from `from` on in which something happens; TICKS if none. */
static int64_t event_tick(const struct world *world, int64_t from)
{
	while (from < TICKS && !event_at(world, from).packet)
		from++;
	return from;
}

static int naive_admit(const struct world *world, const struct ktsn_shaper_packet *packet)
{
	uint32_t max_sdu_bytes = world->max_sdu_bytes[packet->traffic_class];

	switch (world->config.strategy) {
	case KTSN_STRATEGY_TAS:
		return world->gated && max_sdu_bytes && packet->sdu_bytes > max_sdu_bytes ? -EMSGSIZE : 0;
	case KTSN_STRATEGY_ETF:
	case KTSN_STRATEGY_ETF_DEADLINE:
		if (packet->deadline != (world->config.strategy == KTSN_STRATEGY_ETF_DEADLINE))
			return -EINVAL;
		return txtime_tick(world, packet) < world->tick ? -ETIME : 0;
	default:
		return 0;
	}
}

/* ---- invariants of a departure ---- */

/* Independent of priorities: the packets of one sender leave in order; and of two senders, none is served
 * twice while the other waits. */
static void excluding_check(const struct world *world, const struct ktsn_shaper_packet *packet,
			    const struct ktsn_shaper_packet *other)
{
	uint32_t sender = sender_of(world, packet), beside = sender_of(world, other);
	unsigned int service = service_of(world, packet);

	if (sender == beside)
		world_assert(world, !ktsn_packet_before(other, packet));
	else if (world->served[sender][service].turn &&
		 world->served[beside][service].turn < world->served[sender][service].turn)
		world_assert(world, txtime_tick(world, other) > world->served[sender][service].end);
}

static void departure_check(const struct world *world, const struct ktsn_shaper_packet *packet)
{
	int64_t end = world->tick + duration_of(world, packet) + world->config.guard_band_ns;
	bool may_be_early = packet->deadline && world->config.strategy == KTSN_STRATEGY_ETF_DEADLINE;
	int64_t txtime = txtime_tick(world, packet);

	world_assert(world, txtime <= world->tick || may_be_early);
	world_assert(world, world->link_free <= world->tick);
	if (world->tick <= txtime)
		world_assert(world, packet->waited == KTSN_WAIT_NONE);
	for (uint32_t i = 0; i < world->used; i++)
		if (world->places[i] == HELD && world->packets[i].traffic_class == packet->traffic_class)
			excluding_check(world, packet, &world->packets[i]);
	if (world->config.strategy != KTSN_STRATEGY_TAS || !world->gated)
		return;
	for (int64_t tick = world->tick; tick < end; tick++)
		world_assert(world, world->states[tick] >> packet->traffic_class & 1);
}

/* It may be on the link until its gate shuts; one nanosecond later it overruns. */
static void overrun_check(const struct world *world, const struct ktsn_shaper_packet *packet)
{
	bool windows = world->config.strategy == KTSN_STRATEGY_TAS && world->gated;
	int64_t close = windows ? world->tick + world->run[packet->traffic_class][world->tick] : HORIZON;
	int64_t last_tai_ns;

	if (close >= HORIZON) {
		world_assert(world, packet->close_tai_ns >= world->epoch_tai_ns + HORIZON);
		world_assert(world, !ktsn_shaper_overrun(world->shaper, packet, world->epoch_tai_ns + TICKS));
		return;
	}
	world_assert(world, packet->close_tai_ns == world->epoch_tai_ns + close);
	last_tai_ns = packet->close_tai_ns - duration_of(world, packet);
	world_assert(world, !ktsn_shaper_overrun(world->shaper, packet, last_tai_ns));
	world_assert(world, ktsn_shaper_overrun(world->shaper, packet, last_tai_ns + 1));
}

/* ---- both side by side ---- */

static void pending_check(const struct world *world)
{
	world_assert(world, ktsn_shaper_pending(world->shaper) == world->held);
}

static void packet_gone(struct world *world, const struct ktsn_shaper_packet *packet)
{
	uint32_t place = (uint32_t)(packet - world->packets);

	world->places[place] = GONE;
	world->gone[world->gone_count++] = place;
	world->held--;
}

/* The last first, as the shaper requires. Its sender's previous turn counts again unless the sender was
 * served since. */
static void refused_return(struct world *world, struct totals *totals)
{
	while (world->refused_count) {
		const struct refused *refused = &world->refused[--world->refused_count];

		ktsn_shaper_requeue(world->shaper, world->lanes[sender_of(world, refused->packet)],
				    refused->packet, world->epoch_tai_ns + world->tick);
		if (refused->served->turn == refused->turn)
			*refused->served = refused->before;
		world->places[refused->packet - world->packets] = HELD;
		world->held++;
		totals->requeued++;
	}
	heads_find(world);
}

/* Reports whether a packet came back at world->tick; both agree on it. */
static bool dequeue(struct world *world, struct totals *totals)
{
	struct event event = event_at(world, world->tick);
	enum ktsn_verdict verdict = KTSN_SEND;
	struct served *served, before;
	uint32_t sender;
	const struct ktsn_shaper_packet *peeked =
		ktsn_shaper_peek(world->shaper, world->epoch_tai_ns + world->tick);
	struct ktsn_shaper_packet *packet =
		ktsn_shaper_dequeue(world->shaper, world->epoch_tai_ns + world->tick, &verdict);

	world_assert(world, packet == event.packet);
	if (!packet)
		return false;
	world_assert(world, verdict == event.verdict);
	world_assert(world, peeked == packet);
	packet_gone(world, packet);
	if (verdict == KTSN_SEND) {
		departure_check(world, packet);
		overrun_check(world, packet);
		if (world->config.link_speed_bps)
			world->link_free = world->tick + duration_of(world, packet);
	}
	sender = sender_of(world, packet);
	served = &world->served[sender][service_of(world, packet)];
	before = *served;
	*served = (struct served){.end = max_of(world->tick, world->link_free), .turn = ++world->turns};
	/* Sometimes the port has no room, and none for the next packets either. */
	if (verdict == KTSN_SEND && (world->refused_count || below(world, 50) == 0)) {
		world->gone_count--;
		world->refused[world->refused_count++] =
			(struct refused){packet, served, before, served->turn};
		if (world->refused_count == BURST_MAX || below(world, 3) == 0)
			refused_return(world, totals);
	}
	totals->sent += verdict == KTSN_SEND;
	totals->missed += verdict == KTSN_DROP_MISSED;
	totals->no_window += verdict == KTSN_DROP_NO_WINDOW;
	heads_find(world);
	pending_check(world);
	return true;
}

/* next() is right at any time, even for a time in the past. Returns the tick that it names. */
static int64_t next_check(struct world *world, int64_t from)
{
	int64_t next = ktsn_shaper_next(world->shaper, world->epoch_tai_ns + from);
	int64_t expected = event_tick(world, from);

	if (expected == TICKS) {
		world_assert(world, next >= world->epoch_tai_ns + TICKS);
		return TICKS;
	}
	world_assert(world, next == world->epoch_tai_ns + expected);
	return expected;
}

static void time_passes(struct world *world, int64_t until)
{
	while (world->tick < until) {
		bool pending = world->simulation.machines.config_pending;

		gate_simulation_tick(&world->simulation);
		world->tick++;
		if (pending && !world->simulation.machines.config_pending)
			memcpy(world->max_sdu_bytes, world->simulation.machines.oper.queue_max_sdu_bytes,
			       sizeof(world->max_sdu_bytes));
	}
}

/* Like a loop that is never late: to each event at its time, and at no other. */
static void serve(struct world *world, int64_t until, struct totals *totals)
{
	for (;;) {
		int64_t next = next_check(world, world->tick);
		enum ktsn_verdict verdict;

		if (next > until || next == TICKS) {
			if (!world->refused_count)
				break;
			refused_return(world, totals);
			continue;
		}
		if (next > world->tick) {
			time_passes(world, next - 1);
			world_assert(world, !ktsn_shaper_dequeue(world->shaper,
								 world->epoch_tai_ns + next - 1, &verdict));
			time_passes(world, next);
		}
		world_assert(world, dequeue(world, totals));
	}
	time_passes(world, until);
}

/* Like a loop that was busy: to all events at once. */
static void serve_late(struct world *world, int64_t until, struct totals *totals)
{
	time_passes(world, until);
	while (dequeue(world, totals))
		;
	refused_return(world, totals);
}

static void packet_random(struct world *world, struct ktsn_shaper_packet *packet)
{
	int64_t spread = below(world, 4) ? 60 : 400;
	int64_t txtime_tai_ns =
		world->epoch_tai_ns + world->tick - 30 + (int64_t)below(world, (uint64_t)spread);

	*packet = (struct ktsn_shaper_packet){
		.txtime_tai_ns = txtime_tai_ns < 0 ? 0 : txtime_tai_ns,
		.order = world->orders,
		.wire_bytes = 1 + (uint32_t)below(world, below(world, 3) ? 8 : 24),
		.sdu_bytes = (uint32_t)below(world, 200),
		.traffic_class = (uint8_t)below(world, KTSN_CLASSES),
		.deadline = below(world, 6) == 0,
	};
	if (world->config.strategy == KTSN_STRATEGY_ETF_DEADLINE)
		packet->deadline = !packet->deadline;
	/* Messages of one time are not taken in their order. */
	if (below(world, 4) == 0)
		packet->order = (uint64_t)below(world, 1000) << 32 | world->orders;
}

static void enqueue(struct world *world, struct totals *totals)
{
	struct ktsn_shaper_packet *packet;
	uint32_t place;
	int expected;

	if (world->used == PACKETS && !world->gone_count)
		return;
	place = world->gone_count ? world->gone[--world->gone_count] : world->used++;
	packet = &world->packets[place];
	packet_random(world, packet);
	world->orders++;
	expected = naive_admit(world, packet);
	world->sender_of[place] = (uint8_t)below(world, world->senders);
	world_assert(world, ktsn_shaper_enqueue(world->shaper, world->lanes[world->sender_of[place]], packet,
						world->epoch_tai_ns + world->tick) == expected);
	world->places[place] = HELD;
	world->held++;
	if (expected)
		packet_gone(world, packet);
	totals->packets++;
	totals->refused += expected != 0;
	heads_find(world);
	pending_check(world);
}

static void request(struct world *world)
{
	int64_t now_tai_ns = world->epoch_tai_ns + world->tick;
	struct ktsn_schedule admin = gate_schedule_random(world->random, now_tai_ns);
	struct ktsn_gates *before = world->gates;

	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		admin.queue_max_sdu_bytes[class] = below(world, 3) ? 0 : (uint32_t)below(world, 200);
	gate_simulation_request(&world->simulation, &admin);
	if (!world->simulation.machines.config_pending)
		memcpy(world->max_sdu_bytes, admin.queue_max_sdu_bytes, sizeof(world->max_sdu_bytes));
	ktsn_gates_change(before, &admin, now_tai_ns, world->gates_spare);
	world->gates = world->gates_spare;
	world->gates_spare = before;
	ktsn_shaper_gates_set(world->shaper, world->gates);
	world->gated = true;
	predict(world);
}

static void action(struct world *world, struct totals *totals)
{
	uint64_t kind = below(world, 100);

	if (kind < 3) {
		request(world);
		totals->requests++;
	} else if (kind < 5) {
		world->config.strategy = (enum ktsn_strategy)below(world, KTSN_STRATEGIES);
		ktsn_shaper_strategy_set(world->shaper, world->config.strategy);
		memset(world->served, 0, sizeof(world->served));
		heads_find(world);
	} else if (kind < 10) {
		/* Queried for a later time and for an earlier one: gates remember nothing of the past. */
		next_check(world, world->tick + (int64_t)below(world, (uint64_t)(TICKS - world->tick)));
	} else if (kind < 15) {
		for (uint64_t i = 4 + below(world, 8); i > 0; i--)
			enqueue(world, totals);
	} else {
		enqueue(world, totals);
	}
	next_check(world, world->tick);
}

static void world_init(struct world *world, struct test_random *random, uint64_t number)
{
	static const uint64_t speeds_bps[] = {0, 8000000000, 1000000000, 10000000000, 3333333333};

	world->random = random;
	world->number = number;
	world->epoch_tai_ns = (int64_t)below(world, below(world, 3) ? 9000000000000000000 : 1000);
	world->tick = world->link_free = 0;
	world->used = world->held = world->gone_count = 0;
	world->orders = 0;
	world->gated = false;
	world->senders = below(world, 2) ? 1 : 2 + (uint32_t)below(world, SENDERS_MAX - 1);
	world->turns = 0;
	memset(world->served, 0, sizeof(world->served));
	world->config = (struct ktsn_shaper_config){
		.strategy = below(world, 2) ? KTSN_STRATEGY_TAS
					    : (enum ktsn_strategy)below(world, KTSN_STRATEGIES),
		.link_speed_bps = speeds_bps[below(world, 5)],
		.guard_band_ns = below(world, 2) ? 0 : (int64_t)below(world, 8),
		.delta_ns = (int64_t)below(world, 30),
		.tolerance_ns = (int64_t)below(world, 30),
	};
	memset(world->places, 0, sizeof(world->places));
	memset(world->heads, 0, sizeof(world->heads));
	memset(world->max_sdu_bytes, 0, sizeof(world->max_sdu_bytes));
	ktsn_shaper_init(world->shaper, &world->config);
	for (uint32_t i = 1; i < SENDERS_MAX; i++)
		memset(world->lanes[i], 0, ktsn_shaper_lane_bytes());
	gate_simulation_init(&world->simulation, world->epoch_tai_ns);
	ktsn_gates_init(world->gates);
	if (below(world, 10))
		request(world);
	else
		predict(world);
}

/* Nothing is lost: the rest leaves under another strategy, each packet once and in its order. */
static void drain(struct world *world, struct totals *totals)
{
	world->config.strategy = KTSN_STRATEGY_STRICT_PRIORITY;
	ktsn_shaper_strategy_set(world->shaper, world->config.strategy);
	memset(world->served, 0, sizeof(world->served));
	heads_find(world);
	while (world->held) {
		int64_t next_tai_ns = ktsn_shaper_next(world->shaper, world->epoch_tai_ns + world->tick);

		world_assert(world, next_tai_ns < KTSN_SHAPER_NEVER);
		world->tick = next_tai_ns - world->epoch_tai_ns;
		world_assert(world, dequeue(world, totals));
		refused_return(world, totals);
	}
	world_assert(world, ktsn_shaper_next(world->shaper, world->epoch_tai_ns) == KTSN_SHAPER_NEVER);
}

static void world_run(struct world *world, struct totals *totals)
{
	/* Some worlds are quiet, some are crowded. */
	uint64_t pause = 2 + below(world, 20);

	while (world->tick < TICKS - LATE_MAX) {
		int64_t until = world->tick + (int64_t)below(world, pause);

		if (below(world, 10) == 0)
			serve_late(world, until + (int64_t)below(world, LATE_MAX - pause), totals);
		else
			serve(world, until, totals);
		action(world, totals);
	}
	drain(world, totals);
}

TEST(random_worlds_match_the_simple_shaper)
{
	struct test_random random = test_random_seeded(__func__);
	struct world *world = calloc(1, sizeof(*world));
	uint64_t worlds = test_random_rounds(20000);
	struct totals totals = {0};

	assert_non_null(world);
	world->shaper = malloc(ktsn_shaper_bytes());
	for (uint32_t i = 1; i < SENDERS_MAX; i++)
		assert_non_null(world->lanes[i] = calloc(1, ktsn_shaper_lane_bytes()));
	world->gates = malloc(sizeof(*world->gates));
	world->gates_spare = malloc(sizeof(*world->gates));
	assert_true(world->shaper && world->gates && world->gates_spare);
	for (uint64_t i = 0; i < worlds; i++) {
		world_init(world, &random, i);
		world_run(world, &totals);
	}
	print_message(
		"# %llu worlds, %llu schedules, %llu packets: %llu sent, %llu missed, %llu without window, "
		"%llu refused, %llu requeued\n",
		(unsigned long long)worlds, (unsigned long long)totals.requests,
		(unsigned long long)totals.packets, (unsigned long long)totals.sent,
		(unsigned long long)totals.missed, (unsigned long long)totals.no_window,
		(unsigned long long)totals.refused, (unsigned long long)totals.requeued);
	/* Each packet ended once. */
	assert_int_equal(totals.packets + totals.requeued,
			 totals.sent + totals.missed + totals.no_window + totals.refused);
	for (uint32_t i = 1; i < SENDERS_MAX; i++)
		free(world->lanes[i]);
	free(world->shaper);
	free(world->gates);
	free(world->gates_spare);
	free(world);
}
