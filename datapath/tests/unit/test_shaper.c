/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shaper and its strategies in virtual time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>

#include "shaper.h"

enum { US = 1000, MS = 1000000, GBIT = 1000000000 };

struct rig {
	struct ktsn_shaper *shaper;
	struct ktsn_gates gates;
};

static struct rig *rig_create(enum ktsn_strategy strategy)
{
	const struct ktsn_shaper_config config = {
		.strategy = strategy, .link_speed_bps = GBIT, .tolerance_ns = 10 * US};
	struct rig *rig = calloc(1, sizeof(*rig));
	void *memory = malloc(ktsn_shaper_bytes());

	assert_non_null(rig);
	assert_non_null(memory);
	rig->shaper = ktsn_shaper_init(memory, &config);
	return rig;
}

static void rig_destroy(struct rig *rig)
{
	free(rig->shaper);
	free(rig);
}

/* Three classes: 7 for 300 us, 6 for 300 us, all below for 400 us. */
static void three_windows_set(struct rig *rig, int64_t now_tai_ns)
{
	struct ktsn_gates before;
	struct ktsn_schedule schedule = {.gate_enabled = true,
					 .gate_states = 0xff,
					 .cycle_time_ns = MS,
					 .entry_count = 3,
					 .entries = {{300 * US, 0x80}, {300 * US, 0x40}, {400 * US, 0x3f}}};

	ktsn_gates_init(&before);
	ktsn_gates_change(&before, &schedule, now_tai_ns, &rig->gates);
	ktsn_shaper_gates_set(rig->shaper, &rig->gates);
}

static struct ktsn_shaper_packet packet_of(int64_t txtime_tai_ns, uint8_t class, uint32_t wire_bytes)
{
	return (struct ktsn_shaper_packet){
		.txtime_tai_ns = txtime_tai_ns, .traffic_class = class, .wire_bytes = wire_bytes};
}

static void leaves(struct rig *rig, int64_t at_tai_ns, const struct ktsn_shaper_packet *packet)
{
	enum ktsn_verdict verdict;

	assert_true(ktsn_shaper_next(rig->shaper, 0) == at_tai_ns);
	assert_null(ktsn_shaper_dequeue(rig->shaper, at_tai_ns - 1, &verdict));
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, at_tai_ns, &verdict), packet);
	assert_int_equal(verdict, KTSN_SEND);
}

static void each_class_leaves_in_its_window(void **state)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_TAS);
	struct ktsn_shaper_packet high = packet_of(5 * MS + 700 * US, 7, 125);
	struct ktsn_shaper_packet middle = packet_of(5 * MS + 100 * US, 6, 125);
	struct ktsn_shaper_packet low = packet_of(5 * MS, 0, 125);

	(void)state;
	three_windows_set(rig, 0);
	assert_int_equal(ktsn_shaper_enqueue(rig->shaper, &high, 0), 0);
	assert_int_equal(ktsn_shaper_enqueue(rig->shaper, &middle, 0), 0);
	assert_int_equal(ktsn_shaper_enqueue(rig->shaper, &low, 0), 0);
	leaves(rig, 5 * MS + 300 * US, &middle);
	assert_int_equal(middle.waited, KTSN_WAIT_GATE);
	assert_true(middle.close_tai_ns == 5 * MS + 600 * US);
	leaves(rig, 5 * MS + 600 * US, &low);
	leaves(rig, 6 * MS, &high);
	assert_true(ktsn_shaper_next(rig->shaper, 0) == KTSN_SHAPER_NEVER);
	rig_destroy(rig);
}

static void frame_leaves_only_if_all_of_it_fits_before_its_gate_shuts(void **state)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_TAS);
	/* 125 bytes are 1000 ns at 1 Gbit/s. */
	struct ktsn_shaper_packet fits = packet_of(5 * MS + 299 * US, 7, 125);
	struct ktsn_shaper_packet late = packet_of(6 * MS + 299 * US + 1, 7, 125);

	(void)state;
	three_windows_set(rig, 0);
	assert_int_equal(ktsn_shaper_enqueue(rig->shaper, &fits, 0), 0);
	assert_int_equal(ktsn_shaper_enqueue(rig->shaper, &late, 0), 0);
	leaves(rig, 5 * MS + 299 * US, &fits);
	assert_int_equal(fits.waited, KTSN_WAIT_NONE);
	leaves(rig, 7 * MS, &late);
	rig_destroy(rig);
}

static void frames_of_one_time_leave_one_after_the_other_highest_class_first(void **state)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_STRICT_PRIORITY);
	struct ktsn_shaper_packet packets[3] = {packet_of(MS, 1, 1250), packet_of(MS, 3, 1250),
						packet_of(MS + 5 * US, 7, 1250)};

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(ktsn_shaper_enqueue(rig->shaper, &packets[i], 0), 0);
	leaves(rig, MS, &packets[1]);
	leaves(rig, MS + 10 * US, &packets[2]);
	assert_int_equal(packets[2].waited, KTSN_WAIT_LINK);
	leaves(rig, MS + 20 * US, &packets[0]);
	rig_destroy(rig);
}

static void etf_takes_the_earliest_of_all_classes(void **state)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_ETF);
	struct ktsn_shaper_packet last = packet_of(400 * US, 7, 125);
	struct ktsn_shaper_packet first = packet_of(200 * US, 5, 125);
	struct ktsn_shaper_packet middle = packet_of(300 * US, 1, 125);

	(void)state;
	assert_int_equal(ktsn_shaper_enqueue(rig->shaper, &last, 0), 0);
	assert_int_equal(ktsn_shaper_enqueue(rig->shaper, &first, 0), 0);
	assert_int_equal(ktsn_shaper_enqueue(rig->shaper, &middle, 0), 0);
	leaves(rig, 200 * US, &first);
	leaves(rig, 300 * US, &middle);
	leaves(rig, 400 * US, &last);
	rig_destroy(rig);
}

static void etf_drops_what_is_late_when_taken_and_when_due(void **state)
{
	struct rig *rig = rig_create(KTSN_STRATEGY_ETF);
	struct ktsn_shaper_packet past = packet_of(MS, 0, 84), due = packet_of(3 * MS, 0, 84);
	struct ktsn_shaper_packet deadline = packet_of(4 * MS, 0, 84);
	enum ktsn_verdict verdict;

	(void)state;
	deadline.deadline = true;
	assert_int_equal(ktsn_shaper_enqueue(rig->shaper, &past, 2 * MS), -ETIME);
	assert_int_equal(ktsn_shaper_enqueue(rig->shaper, &deadline, 2 * MS), -EINVAL);
	assert_int_equal(ktsn_shaper_enqueue(rig->shaper, &due, 2 * MS), 0);
	assert_ptr_equal(ktsn_shaper_dequeue(rig->shaper, 3 * MS + 10 * US + 1, &verdict), &due);
	assert_int_equal(verdict, KTSN_DROP_MISSED);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_class_leaves_in_its_window),
		cmocka_unit_test(frame_leaves_only_if_all_of_it_fits_before_its_gate_shuts),
		cmocka_unit_test(frames_of_one_time_leave_one_after_the_other_highest_class_first),
		cmocka_unit_test(etf_takes_the_earliest_of_all_classes),
		cmocka_unit_test(etf_drops_what_is_late_when_taken_and_when_due),
	};

	return cmocka_run_group_tests_name("shaper", tests, NULL, NULL);
}
