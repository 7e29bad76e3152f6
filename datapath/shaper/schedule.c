/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule.h"

#include <errno.h>
#include <string.h>

void ktsn_schedule_init(struct ktsn_schedule *schedule)
{
	memset(schedule, 0, sizeof(*schedule));
	schedule->gate_states = 0xff;
}

static int range_check(struct ktsn_schedule_fault fault, struct ktsn_schedule_fault *first_fault)
{
	if (fault.value >= fault.minimum && fault.value <= fault.maximum)
		return 0;
	*first_fault = fault;
	return -EINVAL;
}

static int entries_check(const struct ktsn_schedule *schedule, int64_t frame_min_ns,
			 struct ktsn_schedule_fault *fault)
{
	int err = range_check((struct ktsn_schedule_fault){.field = "entries",
							   .value = schedule->entry_count,
							   .minimum = schedule->gate_enabled ? 1 : 0,
							   .maximum = KTSN_SCHEDULE_ENTRIES_MAX},
			      fault);

	for (uint32_t i = 0; !err && i < schedule->entry_count; i++)
		err = range_check((struct ktsn_schedule_fault){.list = "entries",
							       .index = i,
							       .field = "interval-ns",
							       .value = schedule->entries[i].interval_ns,
							       .minimum = frame_min_ns,
							       .maximum = UINT32_MAX},
				  fault);
	return err;
}

static int max_sdus_check(const struct ktsn_schedule *schedule, struct ktsn_schedule_fault *fault)
{
	int err = 0;

	for (uint32_t class = 0; class < KTSN_CLASSES && !err; class ++)
		if (schedule->queue_max_sdu_bytes[class])
			err = range_check(
				(struct ktsn_schedule_fault){.list = "queue-max-sdu-bytes",
							     .index = class,
							     .value = schedule->queue_max_sdu_bytes[class],
							     .minimum = KTSN_QUEUE_MAX_SDU_MIN,
							     .maximum = KTSN_QUEUE_MAX_SDU_MAX},
				fault);
	return err;
}

int ktsn_schedule_check(const struct ktsn_schedule *schedule, int64_t frame_min_ns,
			struct ktsn_schedule_fault *fault)
{
	int err =
		range_check((struct ktsn_schedule_fault){.field = "cycle-time-ns",
							 .value = schedule->cycle_time_ns,
							 .minimum = schedule->gate_enabled ? frame_min_ns : 0,
							 .maximum = KTSN_CYCLE_TIME_MAX_NS},
			    fault);

	if (!err)
		err = range_check((struct ktsn_schedule_fault){.field = "base-time-tai-ns",
							       .value = schedule->base_time_tai_ns,
							       .maximum = KTSN_BASE_TIME_MAX_NS},
				  fault);
	if (!err)
		err = entries_check(schedule, frame_min_ns, fault);
	return err ? err : max_sdus_check(schedule, fault);
}
