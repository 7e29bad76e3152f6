/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranges of the values of a schedule, at each limit, and the fault that names a value out of range.
 */

#include <errno.h>

#include "schedule.h"

#include "unit_test.h"

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

/* Either may be NULL. */
static void same_text(const char *text, const char *expected)
{
	assert_string_equal(text ? text : "none", expected ? expected : "none");
}

static void refused(const struct ktsn_schedule *schedule, const struct ktsn_schedule_fault *expected)
{
	struct ktsn_schedule_fault fault;

	assert_int_equal(ktsn_schedule_check(schedule, FRAME_MIN_NS, &fault), -EINVAL);
	same_text(fault.list, expected->list);
	same_text(fault.field, expected->field);
	assert_int_equal(fault.index, expected->index);
	assert_true(fault.value == expected->value);
	assert_true(fault.minimum == expected->minimum);
	assert_true(fault.maximum == expected->maximum);
}

TEST(cycle_time_range)
{
	struct ktsn_schedule schedule = good_schedule();
	struct ktsn_schedule_fault fault = {
		.field = "cycle-time-ns", .minimum = FRAME_MIN_NS, .maximum = KTSN_CYCLE_TIME_MAX_NS};

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

TEST(base_time_range)
{
	struct ktsn_schedule schedule = good_schedule();
	struct ktsn_schedule_fault fault = {.field = "base-time-tai-ns", .maximum = KTSN_BASE_TIME_MAX_NS};

	schedule.base_time_tai_ns = KTSN_BASE_TIME_MAX_NS;
	accepted(&schedule);
	fault.value = schedule.base_time_tai_ns = KTSN_BASE_TIME_MAX_NS + 1;
	refused(&schedule, &fault);
	fault.value = schedule.base_time_tai_ns = -1;
	refused(&schedule, &fault);
}

TEST(entry_count_range)
{
	struct ktsn_schedule schedule = good_schedule();
	struct ktsn_schedule_fault fault = {
		.field = "entries", .minimum = 1, .maximum = KTSN_SCHEDULE_ENTRIES_MAX};

	schedule.entry_count = KTSN_SCHEDULE_ENTRIES_MAX;
	for (uint32_t i = 0; i < KTSN_SCHEDULE_ENTRIES_MAX; i++)
		schedule.entries[i].interval_ns = FRAME_MIN_NS;
	accepted(&schedule);
	fault.value = schedule.entry_count = KTSN_SCHEDULE_ENTRIES_MAX + 1;
	refused(&schedule, &fault);
	fault.value = schedule.entry_count = 0;
	refused(&schedule, &fault);
}

TEST(interval_range)
{
	struct ktsn_schedule schedule = good_schedule();
	struct ktsn_schedule_fault fault = {.list = "entries",
					    .field = "interval-ns",
					    .index = 1,
					    .minimum = FRAME_MIN_NS,
					    .maximum = UINT32_MAX};

	schedule.entries[1].interval_ns = FRAME_MIN_NS;
	accepted(&schedule);
	schedule.entries[1].interval_ns = UINT32_MAX;
	accepted(&schedule);
	fault.value = schedule.entries[1].interval_ns = FRAME_MIN_NS - 1;
	refused(&schedule, &fault);
	fault.value = schedule.entries[1].interval_ns = 0;
	refused(&schedule, &fault);
}

TEST(queue_max_sdu_range)
{
	struct ktsn_schedule schedule = good_schedule();
	struct ktsn_schedule_fault fault = {.list = "queue-max-sdu-bytes",
					    .index = 5,
					    .minimum = KTSN_QUEUE_MAX_SDU_MIN,
					    .maximum = KTSN_QUEUE_MAX_SDU_MAX};

	schedule.queue_max_sdu_bytes[5] = KTSN_QUEUE_MAX_SDU_MIN;
	schedule.queue_max_sdu_bytes[7] = KTSN_QUEUE_MAX_SDU_MAX;
	accepted(&schedule);
	fault.value = schedule.queue_max_sdu_bytes[5] = KTSN_QUEUE_MAX_SDU_MIN - 1;
	refused(&schedule, &fault);
	fault.value = schedule.queue_max_sdu_bytes[5] = KTSN_QUEUE_MAX_SDU_MAX + 1;
	refused(&schedule, &fault);
}

TEST(disabled_gates_need_no_list)
{
	struct ktsn_schedule schedule;

	ktsn_schedule_init(&schedule);
	assert_false(schedule.gate_enabled);
	assert_int_equal(schedule.gate_states, 0xff);
	accepted(&schedule);
}
