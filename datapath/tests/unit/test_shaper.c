/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shaper and its strategies in virtual time.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shaper.h"

#include "unit_test.h"

enum { US = 1000, MS = 1000000, GBIT = 1000000000 };

enum { LANES = 3 };

struct rig {
	struct ktsn_shaper *shaper;
	struct ktsn_shaper_lane *lanes[LANES]; /* of senders */
	struct ktsn_gates gates;
	bool gated;
};

static struct ktsn_shaper_lane *lane_create(void)
{
	struct ktsn_shaper_lane *lane = calloc(1, ktsn_shaper_lane_bytes());

	assert_non_null(lane);
	return lane;
}

static struct rig *rig_create_with(const struct ktsn_shaper_config *config)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	void *memory = malloc(ktsn_shaper_bytes());

	assert_non_null(rig);
	assert_non_null(memory);
	rig->shaper = ktsn_shaper_init(memory, config);
	for (int i = 0; i < LANES; i++)
		rig->lanes[i] = lane_create();
	return rig;
}

/* Without a guard band. */
static struct rig *rig_create(enum ktsn_strategy strategy)
{
	return rig_create_with(&(struct ktsn_shaper_config){
		.strategy = strategy, .link_speed_bps = GBIT, .delta_ns = 10 * US, .tolerance_ns = 20 * US});
}

static void rig_destroy(struct rig *rig)
{
	for (int i = 0; i < LANES; i++)
		free(rig->lanes[i]);
	free(rig->shaper);
	free(rig);
}

static void gates_change(struct rig *rig, const struct ktsn_schedule *schedule, int64_t now_tai_ns)
{
	struct ktsn_gates before = rig->gates;

	if (!rig->gated)
		ktsn_gates_init(&before);
	ktsn_gates_change(&before, schedule, now_tai_ns, &rig->gates);
	ktsn_shaper_gates_set(rig->shaper, &rig->gates);
	rig->gated = true;
}

/* Three classes: 7 for 300 us, 6 for 300 us, all lower ones for 400 us. */
static struct ktsn_schedule three_windows(void)
{
	return (struct ktsn_schedule){.gate_enabled = true,
				      .gate_states = 0xff,
				      .cycle_time_ns = MS,
				      .entry_count = 3,
				      .entries = {{300 * US, 0x80}, {300 * US, 0x40}, {400 * US, 0x3f}}};
}

static void three_windows_set(struct rig *rig, int64_t now_tai_ns)
{
	struct ktsn_schedule schedule = three_windows();

	gates_change(rig, &schedule, now_tai_ns);
}

static struct ktsn_shaper_packet packet_of(int64_t txtime_tai_ns, uint8_t class, uint32_t wire_bytes)
{
	return (struct ktsn_shaper_packet){
		.txtime_tai_ns = txtime_tai_ns, .traffic_class = class, .wire_bytes = wire_bytes};
}

/* Asserts when a packet leaves or is dropped, in a shaper that is asked at `now`. */
static void assert_ends(struct rig *rig, int64_t now_tai_ns, int64_t at_tai_ns,
			const struct ktsn_shaper_packet *packet, enum ktsn_verdict expected)
{
	enum ktsn_verdict verdict;

	assert_true(ktsn_shaper_next(rig->shaper, now_tai_ns) == at_tai_ns);
	if (at_tai_ns > now_tai_ns)
		assert_null(ktsn_shaper_dequeue(rig->shaper, at_tai_ns - 1, &verdict));
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, at_tai_ns, &verdict), packet);
	assert_int_equal(verdict, expected);
}

static void assert_leaves(struct rig *rig, int64_t at_tai_ns, const struct ktsn_shaper_packet *packet)
{
	assert_ends(rig, 0, at_tai_ns, packet, KTSN_SEND);
}

static void enqueue_from(struct rig *rig, struct ktsn_shaper_lane *lane, struct ktsn_shaper_packet *packet,
			 int64_t now_tai_ns)
{
	assert_int_equal(ktsn_shaper_enqueue(rig->shaper, lane, packet, now_tai_ns), 0);
}

static void enqueue(struct rig *rig, struct ktsn_shaper_packet *packet, int64_t now_tai_ns)
{
	enqueue_from(rig, NULL, packet, now_tai_ns);
}

TEST(classes_leave_in_their_windows)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_TAS);
	struct ktsn_shaper_packet high = packet_of(5 * MS + 700 * US, 7, 125);
	struct ktsn_shaper_packet middle = packet_of(5 * MS + 100 * US, 6, 125);
	struct ktsn_shaper_packet low = packet_of(5 * MS, 0, 125);

	three_windows_set(rig, 0);
	enqueue(rig, &high, 0);
	enqueue(rig, &middle, 0);
	enqueue(rig, &low, 0);
	assert_leaves(rig, 5 * MS + 300 * US, &middle);
	assert_int_equal(middle.waited, KTSN_WAIT_GATE);
	assert_true(middle.close_tai_ns == 5 * MS + 600 * US);
	assert_leaves(rig, 5 * MS + 600 * US, &low);
	assert_leaves(rig, 6 * MS, &high);
	assert_true(ktsn_shaper_next(rig->shaper, 0) == KTSN_SHAPER_NEVER);
	rig_destroy(rig);
}

TEST(frame_past_its_window_waits)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_TAS);
	/* 1250 bytes are 10 us: the second is on the link from 285 to 295 us, and 5 us are left. */
	struct ktsn_shaper_packet packets[3] = {packet_of(5 * MS + 275 * US, 7, 1250),
						packet_of(5 * MS + 275 * US, 7, 1250),
						packet_of(5 * MS + 275 * US, 7, 1250)};

	three_windows_set(rig, 0);
	for (uint64_t i = 0; i < 3; i++) {
		packets[i].order = i;
		enqueue(rig, &packets[i], 0);
	}
	assert_leaves(rig, 5 * MS + 275 * US, &packets[0]);
	assert_leaves(rig, 5 * MS + 285 * US, &packets[1]);
	assert_int_equal(packets[1].waited, KTSN_WAIT_LINK);
	assert_leaves(rig, 6 * MS, &packets[2]);
	assert_int_equal(packets[2].waited, KTSN_WAIT_GATE);
	rig_destroy(rig);
}

TEST(etf_uses_the_hand_over_time)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_ETF);
	struct ktsn_shaper_packet past = packet_of(MS, 0, 84), missed = packet_of(2 * MS, 0, 84);
	struct ktsn_shaper_packet near = packet_of(3 * MS, 0, 84);
	enum ktsn_verdict verdict;

	assert_int_equal(ktsn_shaper_enqueue_handed(rig->shaper, NULL, &past, MS + 1, 3 * MS), -ETIME);
	assert_int_equal(ktsn_shaper_enqueue_handed(rig->shaper, NULL, &missed, MS, 3 * MS + US), 0);
	assert_int_equal(ktsn_shaper_enqueue_handed(rig->shaper, NULL, &near, 3 * MS, 3 * MS + US), 0);
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, 3 * MS + US, &verdict), &missed);
	assert_int_equal(verdict, KTSN_DROP_MISSED);
	/* Within the tolerance for unavoidable delay. */
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, 3 * MS + US, &verdict), &near);
	assert_int_equal(verdict, KTSN_SEND);
	rig_destroy(rig);
}

TEST(etf_drops_packets_delayed_by_the_link)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_ETF);
	/* 12,500 bytes are 100 us. */
	struct ktsn_shaper_packet packets[4] = {
		packet_of(3 * MS, 5, 12500), packet_of(3 * MS + 90 * US, 1, 84),
		packet_of(3 * MS + 89 * US, 3, 84), packet_of(3 * MS + 95 * US, 7, 84)};

	for (int i = 0; i < 4; i++)
		enqueue(rig, &packets[i], 0);
	assert_leaves(rig, 3 * MS, &packets[0]);
	assert_ends(rig, 0, 3 * MS + 89 * US, &packets[2], KTSN_DROP_MISSED);
	assert_leaves(rig, 3 * MS + 100 * US, &packets[1]);
	assert_int_equal(packets[1].waited, KTSN_WAIT_LINK);
	assert_leaves(rig, 3 * MS + 100 * US + 672, &packets[3]);
	rig_destroy(rig);
}

static struct ktsn_shaper_packet deadline_of(int64_t txtime_tai_ns, uint8_t class)
{
	struct ktsn_shaper_packet packet = packet_of(txtime_tai_ns, class, 125);

	packet.deadline = true;
	return packet;
}

TEST(etf_deadline_tolerance)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_ETF_DEADLINE);
	struct ktsn_shaper_packet met = deadline_of(5 * MS, 0), missed = deadline_of(6 * MS, 0);
	enum ktsn_verdict verdict;

	assert_int_equal(ktsn_shaper_enqueue_handed(rig->shaper, NULL, &met, 0, 5 * MS + 20 * US), 0);
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, 5 * MS + 20 * US, &verdict), &met);
	assert_int_equal(verdict, KTSN_SEND);
	assert_int_equal(ktsn_shaper_enqueue_handed(rig->shaper, NULL, &missed, 0, 6 * MS + 20 * US + 1), 0);
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, 6 * MS + 20 * US + 1, &verdict), &missed);
	assert_int_equal(verdict, KTSN_DROP_MISSED);
	rig_destroy(rig);
}

/* The rig's link takes 1 us for 125 bytes. */
TEST(due_frames_are_given_in_bursts)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_STRICT_PRIORITY);
	struct ktsn_shaper_packet low = packet_of(MS, 1, 125), high = packet_of(MS, 5, 125),
				  third = packet_of(MS, 0, 125), later = packet_of(MS + 2500, 7, 125);
	enum ktsn_verdict verdict;

	enqueue(rig, &low, 0);
	enqueue(rig, &high, 0);
	enqueue(rig, &third, 0);
	assert_null(ktsn_shaper_peek_behind(rig->shaper, MS - 1, MS - 1));
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, MS, &verdict), &high);
	assert_null(ktsn_shaper_peek(rig->shaper, MS));
	assert_null(ktsn_shaper_peek_behind(rig->shaper, MS, MS + 1 * US - 1));
	assert_ptr_equal(ktsn_shaper_peek_behind(rig->shaper, MS, MS + 1 * US), &low);
	assert_ptr_equal(ktsn_shaper_dequeue_behind(rig->shaper, MS, MS + 1 * US, &verdict), &low);
	assert_int_equal(verdict, KTSN_SEND);
	/* The link is busy with both, and a packet that comes due meanwhile precedes those of lower
	 * classes. */
	assert_true(ktsn_shaper_next(rig->shaper, MS) == MS + 2 * US);
	later.txtime_tai_ns = MS + 1500;
	enqueue(rig, &later, MS);
	assert_null(ktsn_shaper_peek_behind(rig->shaper, MS, MS + 9 * US));
	assert_leaves(rig, MS + 2 * US, &later);
	assert_leaves(rig, MS + 3 * US, &third);
	rig_destroy(rig);
}

/* Preparing a frame ahead does not remove it. */
TEST(next_is_visible_ahead)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_TAS);
	struct ktsn_shaper_packet first = packet_of(2 * MS, 1, 125), earlier = packet_of(MS, 0, 125);

	assert_null(ktsn_shaper_peek_next(rig->shaper, 0, 9 * MS));
	enqueue(rig, &first, 0);
	assert_null(ktsn_shaper_peek_next(rig->shaper, 0, 2 * MS - 1));
	assert_ptr_equal(ktsn_shaper_peek_next(rig->shaper, 0, 2 * MS), &first);
	enqueue(rig, &earlier, 0);
	assert_ptr_equal(ktsn_shaper_peek_next(rig->shaper, 0, 2 * MS), &earlier);
	assert_leaves(rig, MS, &earlier);
	assert_ptr_equal(ktsn_shaper_peek_next(rig->shaper, MS, 3 * MS), &first);
	assert_leaves(rig, 2 * MS, &first);
	rig_destroy(rig);
}

TEST(bursts_respect_gates)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_TAS);
	struct ktsn_shaper_packet first = packet_of(299 * US, 7, 125), second = packet_of(299 * US, 7, 125),
				  other = packet_of(0, 6, 125);
	enum ktsn_verdict verdict;

	three_windows_set(rig, 0);
	second.order = 1;
	enqueue(rig, &first, 0);
	enqueue(rig, &second, 0);
	enqueue(rig, &other, 0);
	/* The window of class 7 ends at 300 us: there is room for one, and that of class 6 is not open
	 * yet. */
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, 299 * US, &verdict), &first);
	assert_null(ktsn_shaper_peek_behind(rig->shaper, 299 * US, 310 * US));
	rig_destroy(rig);
}

TEST(burst_overrun_includes_earlier_frames)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_TAS);
	struct ktsn_shaper_packet first = packet_of(290 * US, 7, 125), second = packet_of(290 * US, 7, 125);
	enum ktsn_verdict verdict;

	three_windows_set(rig, 0);
	second.order = 1;
	enqueue(rig, &first, 0);
	enqueue(rig, &second, 0);
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, 290 * US, &verdict), &first);
	assert_ptr_equal(ktsn_shaper_dequeue_behind(rig->shaper, 290 * US, 293 * US, &verdict), &second);
	/* Sent at 298 us, the first ends at 299 and the second at 300. */
	assert_false(ktsn_shaper_overrun(rig->shaper, &first, 299 * US));
	assert_true(ktsn_shaper_overrun(rig->shaper, &first, 299 * US + 1));
	assert_false(ktsn_shaper_overrun(rig->shaper, &second, 298 * US));
	assert_true(ktsn_shaper_overrun(rig->shaper, &second, 298 * US + 1));
	rig_destroy(rig);
}

/* Not the packet that was offered again in vain while another has its turn. */
TEST(returned_packet_restores_the_turn)
{
	struct rig *rig = rig_create_with(&(struct ktsn_shaper_config){.strategy = KTSN_STRATEGY_TAS});
	struct ktsn_shaper_packet flood[] = {packet_of(MS, 3, 125), packet_of(MS + 1, 3, 125)};
	struct ktsn_shaper_packet other = packet_of(MS + 2, 3, 125);
	enum ktsn_verdict verdict;

	for (int i = 0; i < 2; i++)
		enqueue_from(rig, rig->lanes[0], &flood[i], 0);
	enqueue_from(rig, rig->lanes[1], &other, 0);
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, 2 * MS, &verdict), &flood[0]);
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, 2 * MS, &verdict), &other);
	ktsn_shaper_requeue(rig->shaper, rig->lanes[1], &other, 2 * MS);
	assert_true(ktsn_shaper_due_excluding(rig->shaper, rig->lanes[0]) == MS + 2);
	assert_ptr_equal(ktsn_shaper_peek(rig->shaper, 2 * MS), &other);
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, 2 * MS, &verdict), &other);
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, 2 * MS, &verdict), &flood[1]);
	rig_destroy(rig);
}

/* The packets that waited for it have had their turn: the one that comes due is next, then they follow in
 * their order. */
TEST(overdue_packet_yields_to_due_packet)
{
	struct rig *rig = rig_create_with(&(struct ktsn_shaper_config){.strategy = KTSN_STRATEGY_TAS});
	struct ktsn_shaper_packet first = packet_of(MS, 3, 125), second = packet_of(MS + 1, 3, 125);
	struct ktsn_shaper_packet lower = packet_of(2 * MS + 1, 2, 125), next = packet_of(2 * MS + 2, 3, 125);
	struct ktsn_shaper_packet *order[] = {&next, &first, &second, &lower};
	enum ktsn_verdict verdict;

	enqueue_from(rig, rig->lanes[0], &first, 0);
	enqueue_from(rig, rig->lanes[1], &second, 0);
	enqueue_from(rig, rig->lanes[2], &next, 0);
	enqueue_from(rig, rig->lanes[2], &lower, 0);
	/* A packet of a lower class delays nobody. */
	assert_true(ktsn_shaper_due_after(rig->shaper, 3, 2 * MS) == 2 * MS + 2);
	assert_true(ktsn_shaper_due_after(rig->shaper, 2, 2 * MS) == 2 * MS + 1);
	assert_true(ktsn_shaper_due_after(rig->shaper, 4, 2 * MS) == KTSN_SHAPER_NEVER);
	assert_true(ktsn_shaper_may_yield(rig->shaper, 2 * MS, 2 * MS + 2));
	ktsn_shaper_yield(rig->shaper, 2 * MS, 2 * MS, 2 * MS + 2);
	for (int i = 0; i < 4; i++)
		assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, 3 * MS, &verdict), order[i]);
	rig_destroy(rig);
}

TEST(no_yield_to_shut_gates)
{
	const struct ktsn_schedule schedule = three_windows();
	struct rig *rig = rig_create_with(&(struct ktsn_shaper_config){.strategy = KTSN_STRATEGY_TAS});
	struct ktsn_shaper_packet seven = packet_of(10 * US, 7, 125), six = packet_of(0, 6, 125);
	int64_t base_tai_ns = 10 * MS;

	gates_change(rig, &schedule, 0);
	seven.txtime_tai_ns += base_tai_ns + 400 * US;
	six.txtime_tai_ns += base_tai_ns;
	enqueue(rig, &seven, 0);
	enqueue(rig, &six, 0);
	/* Class 6 has its window from 300 to 600 us; class 7 comes due in it and has its window in the
	 * next cycle. */
	assert_ptr_equal(ktsn_shaper_peek(rig->shaper, base_tai_ns + 350 * US), &six);
	assert_true(ktsn_shaper_due_after(rig->shaper, 6, base_tai_ns + 350 * US) == KTSN_SHAPER_NEVER);
	assert_true(ktsn_shaper_may_yield(rig->shaper, base_tai_ns + 350 * US, base_tai_ns + 360 * US));
	assert_false(ktsn_shaper_may_yield(rig->shaper, base_tai_ns + 350 * US, base_tai_ns + 550 * US));
	rig_destroy(rig);
}

/* Senders of untimed packets, more than are examined one by one, with this many packets each. */
enum { UNTIMED_SENDERS = 20, UNTIMED_OF_EACH = 2, UNTIMED = UNTIMED_SENDERS * UNTIMED_OF_EACH };

struct untimed {
	struct ktsn_shaper_lane *lanes[UNTIMED_SENDERS];
	struct ktsn_shaper_packet packets[UNTIMED];
};

static struct untimed *untimed_enqueue(struct rig *rig, int64_t handed_tai_ns)
{
	struct untimed *untimed = calloc(1, sizeof(*untimed));

	assert_non_null(untimed);
	for (int i = 0; i < UNTIMED; i++) {
		struct ktsn_shaper_packet *packet = &untimed->packets[i];

		if (i < UNTIMED_SENDERS)
			untimed->lanes[i] = lane_create();
		*packet = packet_of(handed_tai_ns, 3, 125);
		packet->order = (uint64_t)i;
		packet->untimed = true;
		enqueue_from(rig, untimed->lanes[i % UNTIMED_SENDERS], packet, handed_tai_ns);
	}
	return untimed;
}

static void untimed_destroy(struct untimed *untimed)
{
	for (int i = 0; i < UNTIMED_SENDERS; i++)
		free(untimed->lanes[i]);
	free(untimed);
}

/* Every packet of a burst, as long as it is not late; and under every strategy. */
TEST(punctual_packets_precede_untimed)
{
	for (int strategy = 0; strategy < KTSN_STRATEGIES; strategy++) {
		struct rig *rig = rig_create((enum ktsn_strategy)strategy);
		struct untimed *untimed = untimed_enqueue(rig, 2 * MS);
		struct ktsn_shaper_packet timed[] = {packet_of(2 * MS + 1, 3, 125),
						     packet_of(2 * MS + 1, 3, 125)};
		int64_t now_tai_ns = 2 * MS;

		for (int i = 0; i < 2; i++) {
			timed[i].deadline = strategy == KTSN_STRATEGY_ETF_DEADLINE;
			timed[i].txtime_tai_ns += timed[i].deadline ? 5 * US : 0;
			timed[i].order = (uint64_t)i;
		}
		assert_leaves(rig, now_tai_ns, &untimed->packets[0]);
		for (int i = 0; i < 2; i++)
			enqueue_from(rig, rig->lanes[0], &timed[i], now_tai_ns);
		for (int i = 0; i < 2; i++)
			assert_leaves(rig, now_tai_ns += US, &timed[i]);
		for (int i = 1; i < UNTIMED; i++)
			assert_leaves(rig, now_tai_ns += US, &untimed->packets[i]);
		untimed_destroy(untimed);
		rig_destroy(rig);
	}
}

TEST(late_flood_takes_turns_with_untimed)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_TAS);
	struct untimed *untimed = untimed_enqueue(rig, 2 * MS);
	struct ktsn_shaper_packet flood[4];
	enum ktsn_verdict verdict;
	int64_t now_tai_ns = 2 * MS;

	for (int i = 0; i < 4; i++) {
		flood[i] = packet_of(i, 3, 125);
		enqueue_from(rig, rig->lanes[0], &flood[i], 0);
	}
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, now_tai_ns, &verdict), &flood[0]);
	for (int turn = 0; turn < UNTIMED_OF_EACH; turn++) {
		for (int i = 0; i < UNTIMED_SENDERS; i++)
			assert_true(ktsn_shaper_dequeue(rig->shaper, now_tai_ns += US, &verdict)->untimed);
		assert_leaves(rig, now_tai_ns += US, &flood[turn + 1]);
	}
	untimed_destroy(untimed);
	rig_destroy(rig);
}

/* The packet that is due when the gate opens was not due when the others began to wait. */
TEST(gated_packet_precedes_untimed)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_TAS);
	struct ktsn_shaper_packet timed = packet_of(10 * MS + 100 * US, 3, 125);
	struct untimed *untimed;

	three_windows_set(rig, 0);
	/* Class 3 has its window from 600 us on, for earlier packets. */
	untimed = untimed_enqueue(rig, 10 * MS);
	enqueue_from(rig, rig->lanes[0], &timed, 10 * MS);
	assert_true(ktsn_shaper_next(rig->shaper, 10 * MS) == 10 * MS + 600 * US);
	assert_leaves(rig, 10 * MS + 600 * US, &timed);
	assert_leaves(rig, 10 * MS + 601 * US, &untimed->packets[0]);
	untimed_destroy(untimed);
	rig_destroy(rig);
}

TEST(untimed_packets_hide_no_due_packet)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_TAS);
	struct untimed *untimed = untimed_enqueue(rig, MS);
	struct ktsn_shaper_packet timed = packet_of(3 * MS, 3, 125);

	assert_true(ktsn_shaper_due_excluding(rig->shaper, NULL) == KTSN_SHAPER_NEVER);
	enqueue_from(rig, rig->lanes[0], &timed, 2 * MS);
	assert_true(ktsn_shaper_due_after(rig->shaper, 3, 2 * MS) == 3 * MS);
	assert_true(ktsn_shaper_due_excluding(rig->shaper, untimed->lanes[0]) == 3 * MS);
	assert_true(ktsn_shaper_due_excluding(rig->shaper, rig->lanes[0]) == KTSN_SHAPER_NEVER);
	ktsn_shaper_yield(rig->shaper, 2 * MS, 2 * MS, 3 * MS);
	assert_ptr_equal(ktsn_shaper_peek(rig->shaper, 3 * MS - 1), &untimed->packets[0]);
	assert_ptr_equal(ktsn_shaper_peek(rig->shaper, 3 * MS), &timed);
	untimed_destroy(untimed);
	rig_destroy(rig);
}

TEST(untimed_packets_move_with_the_strategy)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_TAS);
	struct untimed *untimed = untimed_enqueue(rig, 2 * MS);
	struct ktsn_shaper_packet timed = packet_of(2 * MS, 3, 125);

	enqueue(rig, &timed, 0);
	ktsn_shaper_strategy_set(rig->shaper, KTSN_STRATEGY_ETF);
	assert_leaves(rig, 2 * MS, &timed);
	ktsn_shaper_strategy_set(rig->shaper, KTSN_STRATEGY_STRICT_PRIORITY);
	for (int i = 0; i < UNTIMED - 1; i++)
		assert_leaves(rig, 2 * MS + (i + 1) * US, &untimed->packets[i]);
	assert_ptr_equal(ktsn_shaper_take(rig->shaper), &untimed->packets[UNTIMED - 1]);
	assert_int_equal(ktsn_shaper_pending(rig->shaper), 0);
	untimed_destroy(untimed);
	rig_destroy(rig);
}

TEST(clock_set_back_keeps_turns)
{
	struct rig *rig = rig_create_with(&(struct ktsn_shaper_config){.strategy = KTSN_STRATEGY_TAS});
	struct ktsn_shaper_packet served = packet_of(MS, 3, 125), next = packet_of(10, 3, 125);
	struct ktsn_shaper_packet other = packet_of(20, 3, 125);
	enum ktsn_verdict verdict;

	enqueue_from(rig, rig->lanes[0], &served, 0);
	assert_leaves(rig, MS, &served);
	ktsn_shaper_clock_set_back(rig->shaper);
	enqueue_from(rig, rig->lanes[0], &next, 0);
	enqueue_from(rig, rig->lanes[1], &other, 0);
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, 30, &verdict), &next);
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, 30, &verdict), &other);
	rig_destroy(rig);
}

/* Cycles begin at the base time and each cycle time after it, by the current reading of the clock: a step
 * cuts the cycle. */
TEST(clock_step_uses_gates_of_the_new_time)
{
	struct rig *rig = rig_create_with(&(struct ktsn_shaper_config){.strategy = KTSN_STRATEGY_TAS});
	struct ktsn_shaper_packet six = packet_of(350 * US, 6, 125), seven = packet_of(350 * US, 7, 125),
				  back = packet_of(350 * US, 6, 125);

	three_windows_set(rig, 0);
	enqueue(rig, &six, 0);
	enqueue(rig, &seven, 0);
	assert_true(ktsn_shaper_next(rig->shaper, 100 * US) == 350 * US);
	/* Ahead, from the first cycle into the last window of the eighth. */
	assert_ends(rig, 7 * MS + 700 * US, 8 * MS, &seven, KTSN_SEND);
	assert_ends(rig, 8 * MS, 8 * MS + 300 * US, &six, KTSN_SEND);
	/* And back, into the first window of the third: not before its window opens there. */
	enqueue(rig, &back, 8 * MS + 300 * US);
	assert_true(ktsn_shaper_next(rig->shaper, 8 * MS + 650 * US) == 9 * MS + 300 * US);
	ktsn_shaper_clock_set_back(rig->shaper);
	assert_ends(rig, 2 * MS + 10 * US, 2 * MS + 300 * US, &back, KTSN_SEND);
	rig_destroy(rig);
}

/* A step over the time of a change makes the change, in the phase of its base time. A step back before
 * that time makes it pending again, with the old gates until then. */
TEST(clock_step_over_a_change)
{
	const struct ktsn_gate_entry only_six[] = {{500 * US, 0x40}, {500 * US, 0x00}};
	struct rig *rig = rig_create_with(&(struct ktsn_shaper_config){.strategy = KTSN_STRATEGY_TAS});
	struct ktsn_shaper_packet six = packet_of(0, 6, 125), seven = packet_of(0, 7, 125);
	struct ktsn_schedule next = three_windows();

	three_windows_set(rig, 0);
	next.base_time_tai_ns = 20 * MS + 100 * US;
	next.entry_count = 2;
	memcpy(next.entries, only_six, sizeof(only_six));
	gates_change(rig, &next, 2 * MS);
	assert_true(ktsn_gates_pending(&rig->gates, 3 * MS));
	/* Ahead of it: that cycle began at 30.1 ms. */
	assert_int_equal(ktsn_gates_states(&rig->gates, 30 * MS + 300 * US), 0x40);
	assert_false(ktsn_gates_pending(&rig->gates, 30 * MS));
	assert_int_equal(rig->gates.config_change_error, 0);
	enqueue(rig, &six, 3 * MS);
	assert_ends(rig, 30 * MS + 700 * US, 31 * MS + 100 * US, &six, KTSN_SEND);
	/* Back before it. */
	assert_true(ktsn_gates_pending(&rig->gates, 3 * MS));
	assert_int_equal(ktsn_gates_states(&rig->gates, 3 * MS + 100 * US), 0x80);
	ktsn_shaper_clock_set_back(rig->shaper);
	enqueue(rig, &seven, 3 * MS + 700 * US);
	assert_ends(rig, 3 * MS + 700 * US, 4 * MS, &seven, KTSN_SEND);
	rig_destroy(rig);
}

/* As if it had never been there: the link is free, no sender had a turn, and the next packet of its sender
 * is first. */
TEST(withdrawn_packets_leave_no_trace)
{
	struct rig *rig = rig_create_with(&(struct ktsn_shaper_config){
		.strategy = KTSN_STRATEGY_TAS, .link_speed_bps = GBIT, .delta_ns = 7, .tolerance_ns = 9});
	struct ktsn_shaper_packet first = packet_of(10 * US, 3, 1250), second = packet_of(20 * US, 3, 125),
				  other = packet_of(15 * US, 3, 125);

	enqueue_from(rig, rig->lanes[0], &first, 0);
	enqueue_from(rig, rig->lanes[0], &second, 0);
	enqueue_from(rig, rig->lanes[1], &other, 0);
	assert_null(ktsn_shaper_withdraw(rig->shaper, 10 * US - 1, 10 * US - 1));
	assert_ptr_equal(ktsn_shaper_withdraw(rig->shaper, 10 * US, 10 * US), &first);
	assert_int_equal(ktsn_shaper_pending(rig->shaper), 2);
	assert_true(ktsn_shaper_lateness_max(rig->shaper, &first) == INT64_MAX);
	assert_ends(rig, 10 * US, 15 * US, &other, KTSN_SEND);
	ktsn_shaper_restore(rig->shaper, rig->lanes[0], &first, 16 * US);
	assert_ends(rig, 16 * US, 16 * US, &first, KTSN_SEND);
	assert_ends(rig, 16 * US, 26 * US, &second, KTSN_SEND);
	assert_null(ktsn_shaper_withdraw(rig->shaper, MS, MS));
	rig_destroy(rig);
}

TEST(strict_strategies_have_a_limit)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_ETF);
	struct ktsn_shaper_packet packet = packet_of(10 * US, 3, 125), deadline = packet_of(10 * US, 3, 125);

	enqueue(rig, &packet, 0);
	assert_true(ktsn_shaper_lateness_max(rig->shaper, &packet) == 10 * US);
	assert_ptr_equal(ktsn_shaper_withdraw(rig->shaper, 10 * US, 10 * US), &packet);
	ktsn_shaper_strategy_set(rig->shaper, KTSN_STRATEGY_ETF_DEADLINE);
	deadline.deadline = true;
	enqueue(rig, &deadline, 0);
	assert_true(ktsn_shaper_lateness_max(rig->shaper, &deadline) == 20 * US);
	/* Before its deadline, because it could leave. */
	assert_ptr_equal(ktsn_shaper_withdraw(rig->shaper, 0, 0), &deadline);
	rig_destroy(rig);
}

TEST(strategies_have_names)
{
	static const char *const names[KTSN_STRATEGIES] = {"tas", "strict-priority", "etf", "etf-deadline"};
	enum ktsn_strategy strategy;

	for (unsigned int i = 0; i < KTSN_STRATEGIES; i++) {
		assert_string_equal(ktsn_strategy_name((enum ktsn_strategy)i), names[i]);
		assert_int_equal(ktsn_strategy_parse(names[i], &strategy), 0);
		assert_int_equal(strategy, i);
	}
	assert_int_equal(ktsn_strategy_parse("TAS", &strategy), -EINVAL);
	assert_int_equal(ktsn_strategy_parse("", &strategy), -EINVAL);
}

TEST(time_on_the_link_is_rounded_up)
{
	assert_true(ktsn_link_ns(GBIT, 84) == 672);
	assert_true(ktsn_link_ns(100000000, 84) == 6720);
	assert_true(ktsn_link_ns(2500000000, 84) == 269);
	assert_true(ktsn_link_ns(400000000000, 1) == 1);
	assert_true(ktsn_link_ns(1, UINT16_MAX) == INT64_C(8000000000) * UINT16_MAX);
	assert_true(ktsn_link_ns(0, 1538) == 0);
}
