/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a schedule may have: each bound from both sides, and which value is named when one is broken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "schedule.h"

enum { FRAME_MIN_NS = 672, CYCLE_NS = 1000000 };

static struct ktsn_schedule good_schedule(void)
{
	struct ktsn_schedule schedule;

	ktsn_schedule_init(&schedule);
	schedule.gate_enabled = true;
	schedule.cycle_time_ns = CYCLE_NS;
	schedule.entry_count = 2;
	schedule.entries[0] = (struct ktsn_gate_entry){CYCLE_NS / 2, 0x80};
	schedule.entries[1] = (struct ktsn_gate_entry){CYCLE_NS / 2, 0x7f};
	return schedule;
}

static void accepted(const struct ktsn_schedule *schedule)
{
	struct ktsn_schedule_fault fault;

	assert_int_equal(ktsn_schedule_check(schedule, FRAME_MIN_NS, &fault), 0);
}

static void refused(const struct ktsn_schedule *schedule, const struct ktsn_schedule_fault *expected)
{
	struct ktsn_schedule_fault fault;

	assert_int_equal(ktsn_schedule_check(schedule, FRAME_MIN_NS, &fault), -EINVAL);
	assert_string_equal(fault.field, expected->field);
	assert_int_equal(fault.index, expected->index);
	assert_true(fault.value == expected->value);
	assert_true(fault.least == expected->least);
	assert_true(fault.most == expected->most);
}

static void cycle_time_is_one_frame_to_one_hour(void **state)
{
	struct ktsn_schedule schedule = good_schedule();
	struct ktsn_schedule_fault fault = {.field = "admin-cycle-time",
					    .index = KTSN_FAULT_NOT_IN_LIST,
					    .least = FRAME_MIN_NS,
					    .most = KTSN_CYCLE_TIME_MAX_NS};

	(void)state;
	schedule.cycle_time_ns = FRAME_MIN_NS;
	accepted(&schedule);
	schedule.cycle_time_ns = KTSN_CYCLE_TIME_MAX_NS;
	accepted(&schedule);
	fault.value = schedule.cycle_time_ns = FRAME_MIN_NS - 1;
	refused(&schedule, &fault);
	fault.value = schedule.cycle_time_ns = 0;
	refused(&schedule, &fault);
	fault.value = schedule.cycle_time_ns = KTSN_CYCLE_TIME_MAX_NS + 1;
	refused(&schedule, &fault);
}

static void base_time_is_bounded(void **state)
{
	struct ktsn_schedule schedule = good_schedule();
	struct ktsn_schedule_fault fault = {
		.field = "admin-base-time", .index = KTSN_FAULT_NOT_IN_LIST, .most = KTSN_BASE_TIME_MAX_NS};

	(void)state;
	schedule.base_time_tai_ns = KTSN_BASE_TIME_MAX_NS;
	accepted(&schedule);
	fault.value = schedule.base_time_tai_ns = KTSN_BASE_TIME_MAX_NS + 1;
	refused(&schedule, &fault);
	fault.value = schedule.base_time_tai_ns = -1;
	refused(&schedule, &fault);
}

static void list_has_one_entry_to_supported_list_max(void **state)
{
	struct ktsn_schedule schedule = good_schedule();
	struct ktsn_schedule_fault fault = {.field = "gate-control-entry",
					    .index = KTSN_FAULT_NOT_IN_LIST,
					    .least = 1,
					    .most = KTSN_SCHEDULE_ENTRIES_MAX};

	(void)state;
	schedule.entry_count = KTSN_SCHEDULE_ENTRIES_MAX;
	for (uint32_t i = 0; i < KTSN_SCHEDULE_ENTRIES_MAX; i++)
		schedule.entries[i].interval_ns = FRAME_MIN_NS;
	accepted(&schedule);
	fault.value = schedule.entry_count = KTSN_SCHEDULE_ENTRIES_MAX + 1;
	refused(&schedule, &fault);
	fault.value = schedule.entry_count = 0;
	refused(&schedule, &fault);
}

static void interval_has_room_for_a_frame_and_the_entry_is_named(void **state)
{
	struct ktsn_schedule schedule = good_schedule();
	struct ktsn_schedule_fault fault = {
		.field = "time-interval-value", .index = 1, .least = FRAME_MIN_NS, .most = UINT32_MAX};

	(void)state;
	schedule.entries[1].interval_ns = FRAME_MIN_NS;
	accepted(&schedule);
	schedule.entries[1].interval_ns = UINT32_MAX;
	accepted(&schedule);
	fault.value = schedule.entries[1].interval_ns = FRAME_MIN_NS - 1;
	refused(&schedule, &fault);
	fault.value = schedule.entries[1].interval_ns = 0;
	refused(&schedule, &fault);
}

static void queue_max_sdu_is_none_or_that_of_a_frame_and_the_class_is_named(void **state)
{
	struct ktsn_schedule schedule = good_schedule();
	struct ktsn_schedule_fault fault = {.field = "queue-max-sdu",
					    .index = 5,
					    .least = KTSN_QUEUE_MAX_SDU_MIN,
					    .most = KTSN_QUEUE_MAX_SDU_MAX};

	(void)state;
	schedule.queue_max_sdu_bytes[5] = KTSN_QUEUE_MAX_SDU_MIN;
	schedule.queue_max_sdu_bytes[7] = KTSN_QUEUE_MAX_SDU_MAX;
	accepted(&schedule);
	fault.value = schedule.queue_max_sdu_bytes[5] = KTSN_QUEUE_MAX_SDU_MIN - 1;
	refused(&schedule, &fault);
	fault.value = schedule.queue_max_sdu_bytes[5] = KTSN_QUEUE_MAX_SDU_MAX + 1;
	refused(&schedule, &fault);
}

static void gates_that_are_not_enabled_need_no_list_and_no_cycle(void **state)
{
	struct ktsn_schedule schedule;

	(void)state;
	ktsn_schedule_init(&schedule);
	assert_false(schedule.gate_enabled);
	assert_int_equal(schedule.gate_states, 0xff);
	accepted(&schedule);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cycle_time_is_one_frame_to_one_hour),
		cmocka_unit_test(base_time_is_bounded),
		cmocka_unit_test(list_has_one_entry_to_supported_list_max),
		cmocka_unit_test(interval_has_room_for_a_frame_and_the_entry_is_named),
		cmocka_unit_test(queue_max_sdu_is_none_or_that_of_a_frame_and_the_class_is_named),
		cmocka_unit_test(gates_that_are_not_enabled_need_no_list_and_no_cycle),
	};

	return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
