/* SPDX-License-Identifier: Apache-2.0 */
#include "control_schedule.h"

#include "control_json.h"

#include <inttypes.h>
#include <string.h>

static int entries_read(const struct control_place *table, struct ktsn_schedule *schedule,
			struct refusal *refusal)
{
	struct control_place list;
	int err = control_member(table, "entries", &list, refusal);

	if (!err)
		err = control_list_check(&list, 0, KTSN_SCHEDULE_ENTRIES_MAX, refusal);
	if (err)
		return err;
	schedule->entry_count = (uint32_t)json_array_size(list.value);
	for (uint32_t i = 0; !err && i < schedule->entry_count; i++) {
		const struct control_place entry = control_entry(&list, i);
		int64_t interval_ns = 0, gate_states = 0;

		err = control_object_check(&entry, "interval-ns, gate-states", refusal);
		if (!err)
			err = control_member_integer(&entry, "interval-ns", 0, UINT32_MAX, &interval_ns,
						     refusal);
		if (!err)
			err = control_member_integer(&entry, "gate-states", 0, UINT8_MAX, &gate_states,
						     refusal);
		schedule->entries[i] = (struct ktsn_gate_entry){(uint32_t)interval_ns, (uint8_t)gate_states};
	}
	return err;
}

static int max_sdus_read(const struct control_place *table, struct ktsn_schedule *schedule,
			 struct refusal *refusal)
{
	struct control_place list;
	int err = control_member(table, "queue-max-sdu-bytes", &list, refusal);

	if (!err)
		err = control_list_check(&list, KTSN_CLASSES, KTSN_CLASSES, refusal);
	for (size_t class = 0; !err && class < KTSN_CLASSES; class ++) {
		const struct control_place entry = control_entry(&list, class);
		int64_t bytes;

		err = control_integer(&entry, 0, UINT32_MAX, &bytes, refusal);
		schedule->queue_max_sdu_bytes[class] = (uint32_t)bytes;
	}
	return err;
}

int control_schedule_read(const json_t *value, struct ktsn_schedule *schedule, struct refusal *refusal)
{
	const struct control_place table = {.name = "schedule", .value = value};
	struct control_place enabled;
	int64_t gate_states = 0, extension_ns = 0;
	int err = control_object_check(&table,
				       "gate-enabled, gate-states, entries, cycle-time-ns, "
				       "cycle-time-extension-ns, base-time-tai-ns, queue-max-sdu-bytes",
				       refusal);

	memset(schedule, 0, sizeof(*schedule));
	if (!err)
		err = control_member(&table, "gate-enabled", &enabled, refusal);
	if (!err)
		err = control_boolean(&enabled, &schedule->gate_enabled, refusal);
	if (!err)
		err = control_member_integer(&table, "gate-states", 0, UINT8_MAX, &gate_states, refusal);
	if (!err)
		err = control_member_integer(&table, "cycle-time-ns", 0, INT64_MAX, &schedule->cycle_time_ns,
					     refusal);
	if (!err)
		err = control_member_integer(&table, "cycle-time-extension-ns", 0, UINT32_MAX, &extension_ns,
					     refusal);
	if (!err)
		err = control_member_integer(&table, "base-time-tai-ns", 0, INT64_MAX,
					     &schedule->base_time_tai_ns, refusal);
	if (!err)
		err = entries_read(&table, schedule, refusal);
	if (!err)
		err = max_sdus_read(&table, schedule, refusal);
	schedule->gate_states = (uint8_t)gate_states;
	schedule->cycle_time_extension_ns = (uint32_t)extension_ns;
	return err;
}

int control_schedule_refuse(const struct ktsn_schedule_fault *fault, struct refusal *refusal)
{
	const struct control_place table = {.name = "schedule"};
	const struct control_place list = {.parent = &table, .name = fault->list};
	const struct control_place entry = {.parent = &list, .index = fault->index};
	const struct control_place field = {.parent = fault->list ? &entry : &table, .name = fault->field};

	return control_refuse(refusal, fault->field ? &field : &entry,
			      "is %" PRId64 "; must be from %" PRId64 " to %" PRId64, fault->value,
			      fault->minimum, fault->maximum);
}
