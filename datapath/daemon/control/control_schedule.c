/* SPDX-License-Identifier: Apache-2.0 */
#include "control_schedule.h"

#include "control_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_S INT64_C(1000000000)

static const char table_name[] = "gate-parameter-table";

/* A fraction of a second, of which 802.1Q makes nanoseconds. */
static int cycle_time_read(const struct control_place *table, struct ktsn_schedule *schedule,
			   struct refusal *refusal)
{
	struct control_place cycle;
	int64_t numerator, denominator;
	int err = control_member(table, "admin-cycle-time", &cycle, refusal);

	if (!err)
		err = control_object_check(&cycle, "numerator, denominator", refusal);
	if (!err)
		err = control_member_integer(&cycle, "numerator", 1, UINT32_MAX, &numerator, refusal);
	if (!err)
		err = control_member_integer(&cycle, "denominator", 1, UINT32_MAX, &denominator, refusal);
	if (err)
		return err;
	if (numerator * NS_PER_S % denominator)
		return control_refuse(refusal, &cycle,
				      "is %" PRId64 "/%" PRId64 " s; must be a whole number of nanoseconds",
				      numerator, denominator);
	schedule->cycle_time_ns = numerator * NS_PER_S / denominator;
	return 0;
}

static int base_time_read(const struct control_place *table, struct ktsn_schedule *schedule,
			  struct refusal *refusal)
{
	struct control_place base;
	int64_t seconds, nanoseconds;
	int err = control_member(table, "admin-base-time", &base, refusal);

	if (!err)
		err = control_object_check(&base, "seconds, nanoseconds", refusal);
	if (!err)
		err = control_member_integer(&base, "seconds", 0, KTSN_BASE_TIME_MAX_NS / NS_PER_S, &seconds,
					     refusal);
	if (!err)
		err = control_member_integer(&base, "nanoseconds", 0, NS_PER_S - 1, &nanoseconds, refusal);
	if (!err)
		schedule->base_time_tai_ns = seconds * NS_PER_S + nanoseconds;
	return err;
}

/* The only operation without frame preemption. */
static int operation_check(const struct control_place *entry, struct refusal *refusal)
{
	struct control_place operation;
	int err = control_member(entry, "operation-name", &operation, refusal);
	const char *name;

	if (err)
		return err;
	name = json_string_value(operation.value);
	if (!name || strcmp(name, "set-gate-states") != 0)
		return control_refuse_value(refusal, &operation,
					    "\"set-gate-states\", because frames are not preempted here");
	return 0;
}

static int gate_entry_read(const struct control_place *place, struct ktsn_gate_entry *entry,
			   struct refusal *refusal)
{
	int64_t index, interval_ns, gate_states;
	int err = control_object_check(place, "index, operation-name, time-interval-value, gate-states-value",
				       refusal);

	if (!err)
		err = control_member_integer(place, "index", 0, UINT32_MAX, &index, refusal);
	if (!err && (size_t)index != place->index) {
		struct control_place at = {.parent = place, .name = "index"};

		return control_refuse(refusal, &at,
				      "is %" PRId64 "; must be %zu: entries are numbered from 0 in order",
				      index, place->index);
	}
	if (!err)
		err = operation_check(place, refusal);
	if (!err)
		err = control_member_integer(place, "time-interval-value", 0, UINT32_MAX, &interval_ns,
					     refusal);
	if (!err)
		err = control_member_integer(place, "gate-states-value", 0, UINT8_MAX, &gate_states, refusal);
	if (!err)
		*entry = (struct ktsn_gate_entry){(uint32_t)interval_ns, (uint8_t)gate_states};
	return err;
}

static int control_list_read(const struct control_place *table, struct ktsn_schedule *schedule,
			     struct refusal *refusal)
{
	struct control_place container, list;
	int err = control_member(table, "admin-control-list", &container, refusal);

	if (!err)
		err = control_object_check(&container, "gate-control-entry", refusal);
	if (!err)
		err = control_member(&container, "gate-control-entry", &list, refusal);
	if (!err)
		err = control_list_check(&list, 0, KTSN_SCHEDULE_ENTRIES_MAX, refusal);
	if (err)
		return err;
	schedule->entry_count = (uint32_t)json_array_size(list.value);
	for (uint32_t i = 0; !err && i < schedule->entry_count; i++) {
		struct control_place entry = control_entry(&list, i);

		err = gate_entry_read(&entry, &schedule->entries[i], refusal);
	}
	return err;
}

static int max_sdu_read(const struct control_place *entry, int64_t *max_sdu_bytes, struct refusal *refusal)
{
	struct control_place place;
	int err = control_member(entry, "queue-max-sdu", &place, refusal);

	if (err)
		return err;
	*max_sdu_bytes = json_integer_value(place.value);
	if (json_is_integer(place.value) &&
	    (*max_sdu_bytes == 0 ||
	     (*max_sdu_bytes >= KTSN_QUEUE_MAX_SDU_MIN && *max_sdu_bytes <= KTSN_QUEUE_MAX_SDU_MAX)))
		return 0;
	return control_refuse_value(refusal, &place, "0 for no limit, or a whole number from %d to %d",
				    KTSN_QUEUE_MAX_SDU_MIN, KTSN_QUEUE_MAX_SDU_MAX);
}

/* A class that is not listed has no limit. `listed` remembers which are. */
static int max_sdu_entry_read(const struct control_place *entry, struct ktsn_schedule *schedule,
			      bool listed[KTSN_CLASSES], struct refusal *refusal)
{
	int64_t class, max_sdu_bytes;
	int err = control_object_check(entry, "traffic-class, queue-max-sdu", refusal);

	if (!err)
		err = control_member_integer(entry, "traffic-class", 0, KTSN_CLASSES - 1, &class, refusal);
	if (!err && listed[class]) {
		struct control_place at = {.parent = entry, .name = "traffic-class"};

		return control_refuse(refusal, &at,
				      "is %" PRId64 ", which an entry before it is too; must be there once",
				      class);
	}
	if (!err)
		err = max_sdu_read(entry, &max_sdu_bytes, refusal);
	if (err)
		return err;
	listed[class] = true;
	schedule->queue_max_sdu_bytes[class] = (uint32_t)max_sdu_bytes;
	return 0;
}

static int max_sdu_table_read(const struct control_place *table, struct ktsn_schedule *schedule,
			      struct refusal *refusal)
{
	struct control_place list;
	bool listed[KTSN_CLASSES] = {false};
	int err = control_member(table, "queue-max-sdu-table", &list, refusal);

	if (!err)
		err = control_list_check(&list, 0, KTSN_CLASSES, refusal);
	for (size_t i = 0; !err && i < json_array_size(list.value); i++) {
		struct control_place entry = control_entry(&list, i);

		err = max_sdu_entry_read(&entry, schedule, listed, refusal);
	}
	return err;
}

static int scalars_read(const struct control_place *table, struct ktsn_schedule *schedule,
			struct refusal *refusal)
{
	struct control_place enabled;
	int64_t gate_states, extension_ns;
	int err = control_member(table, "gate-enabled", &enabled, refusal);

	if (!err)
		err = control_boolean(&enabled, &schedule->gate_enabled, refusal);
	if (!err)
		err = control_member_integer(table, "admin-gate-states", 0, UINT8_MAX, &gate_states, refusal);
	if (!err)
		err = control_member_integer(table, "admin-cycle-time-extension", 0, UINT32_MAX,
					     &extension_ns, refusal);
	if (err)
		return err;
	schedule->gate_states = (uint8_t)gate_states;
	schedule->cycle_time_extension_ns = (uint32_t)extension_ns;
	return 0;
}

int control_schedule_read(const json_t *table, struct ktsn_schedule *schedule, struct refusal *refusal)
{
	const struct control_place place = {.name = table_name, .value = table};
	int err = control_object_check(&place,
				       "gate-enabled, admin-gate-states, admin-control-list, "
				       "admin-cycle-time, admin-cycle-time-extension, admin-base-time, "
				       "queue-max-sdu-table",
				       refusal);

	memset(schedule, 0, sizeof(*schedule)); /* classes that are not listed have no limit */
	if (!err)
		err = scalars_read(&place, schedule, refusal);
	if (!err)
		err = cycle_time_read(&place, schedule, refusal);
	if (!err)
		err = base_time_read(&place, schedule, refusal);
	if (!err)
		err = control_list_read(&place, schedule, refusal);
	return err ? err : max_sdu_table_read(&place, schedule, refusal);
}

/* "1 Gbit/s", "2500 Mbit/s": in the largest unit that leaves a whole number. */
static void speed_write(int64_t bps, char *text, size_t bytes)
{
	static const char *const units[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s"};
	size_t unit = 0;

	for (; unit < 3 && bps > 0 && bps % 1000 == 0; unit++)
		bps /= 1000;
	snprintf(text, bytes, "%" PRId64 " %s", bps, units[unit]);
}

static int entry_count_refuse(const struct control_place *table, const struct ktsn_schedule_fault *fault,
			      struct refusal *refusal)
{
	struct control_place list = {.parent = table, .name = "admin-control-list"};
	struct control_place entries = {.parent = &list, .name = "gate-control-entry"};

	return control_refuse(refusal, &entries,
			      "has %" PRId64 " entries; must have %" PRId64 " to %" PRId64
			      " when gate-enabled is true",
			      fault->value, fault->least, fault->most);
}

static int interval_refuse(const struct control_place *table, const struct ktsn_schedule_fault *fault,
			   const char *why_least, struct refusal *refusal)
{
	struct control_place list = {.parent = table, .name = "admin-control-list"};
	struct control_place entries = {.parent = &list, .name = "gate-control-entry"};
	struct control_place entry = {.parent = &entries, .index = fault->index};
	struct control_place interval = {.parent = &entry, .name = fault->field};

	return control_refuse(refusal, &interval, "is %" PRId64 "; must be at least %" PRId64 "%s",
			      fault->value, fault->least, why_least);
}

int control_schedule_refuse(const struct ktsn_schedule_fault *fault, int64_t link_speed_bps,
			    struct refusal *refusal)
{
	const struct control_place table = {.name = table_name};
	const struct control_place place = {.parent = &table, .name = fault->field};
	char speed[32], why_least[96];

	speed_write(link_speed_bps, speed, sizeof(speed));
	snprintf(why_least, sizeof(why_least), ", the time of the smallest frame at %s", speed);
	if (strcmp(fault->field, "time-interval-value") == 0)
		return interval_refuse(&table, fault, why_least, refusal);
	if (strcmp(fault->field, "gate-control-entry") == 0)
		return entry_count_refuse(&table, fault, refusal);
	if (strcmp(fault->field, "admin-cycle-time") == 0 && fault->value < fault->least)
		return control_refuse(refusal, &place, "is %" PRId64 " ns; must be at least %" PRId64 " ns%s",
				      fault->value, fault->least, why_least);
	if (strcmp(fault->field, "admin-cycle-time") == 0)
		return control_refuse(refusal, &place, "is %" PRId64 " ns; must be at most %" PRId64 " s",
				      fault->value, fault->most / NS_PER_S);
	return control_refuse(refusal, &place, "is %" PRId64 "; must be from %" PRId64 " to %" PRId64,
			      fault->value, fault->least, fault->most);
}
