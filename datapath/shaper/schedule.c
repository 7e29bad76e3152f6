/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule.h"

#include <errno.h>
#include <string.h>

void ktsn_schedule_init(struct ktsn_schedule *schedule)
{
	memset(schedule, 0, sizeof(*schedule));
	schedule->gate_states = 0xff;
}

static int within(const char *field, uint32_t index, int64_t value, int64_t least, int64_t most,
		  struct ktsn_schedule_fault *fault)
{
	if (value >= least && value <= most)
		return 0;
	*fault = (struct ktsn_schedule_fault){field, index, value, least, most};
	return -EINVAL;
}

static int max_sdus_check(const struct ktsn_schedule *schedule, struct ktsn_schedule_fault *fault)
{
	int err = 0;

	for (uint32_t class = 0; class < KTSN_CLASSES && !err; class ++)
		if (schedule->queue_max_sdu_bytes[class])
			err = within("queue-max-sdu", class, schedule->queue_max_sdu_bytes[class],
				     KTSN_QUEUE_MAX_SDU_MIN, KTSN_QUEUE_MAX_SDU_MAX, fault);
	return err;
}

static int entries_check(const struct ktsn_schedule *schedule, int64_t frame_min_ns,
			 struct ktsn_schedule_fault *fault)
{
	int err = within("gate-control-entry", KTSN_FAULT_NOT_IN_LIST, schedule->entry_count,
			 schedule->gate_enabled ? 1 : 0, KTSN_SCHEDULE_ENTRIES_MAX, fault);

	for (uint32_t i = 0; !err && i < schedule->entry_count; i++)
		err = within("time-interval-value", i, schedule->entries[i].interval_ns, frame_min_ns,
			     UINT32_MAX, fault);
	return err;
}

int ktsn_schedule_check(const struct ktsn_schedule *schedule, int64_t frame_min_ns,
			struct ktsn_schedule_fault *fault)
{
	int err = within("admin-cycle-time", KTSN_FAULT_NOT_IN_LIST, schedule->cycle_time_ns,
			 schedule->gate_enabled ? frame_min_ns : 0, KTSN_CYCLE_TIME_MAX_NS, fault);

	if (!err)
		err = within("admin-base-time", KTSN_FAULT_NOT_IN_LIST, schedule->base_time_tai_ns, 0,
			     KTSN_BASE_TIME_MAX_NS, fault);
	if (!err)
		err = entries_check(schedule, frame_min_ns, fault);
	return err ? err : max_sdus_check(schedule, fault);
}
