/* SPDX-License-Identifier: Apache-2.0 */
#include "control_reply_schedule.h"

#include "control_json.h"

#define NS_PER_S INT64_C(1000000000)

static json_t *time_json(int64_t tai_ns)
{
	json_t *object = json_object();

	reply_int(object, "seconds", tai_ns / NS_PER_S);
	reply_int(object, "nanoseconds", tai_ns % NS_PER_S);
	return object;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
	while (b) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Returns a fraction of a second in lowest terms. */
static json_t *cycle_time_json(int64_t cycle_time_ns)
{
	json_t *object = json_object();
	int64_t divisor = common_divisor(cycle_time_ns, NS_PER_S);

	reply_int(object, "numerator", cycle_time_ns / divisor);
	reply_int(object, "denominator", NS_PER_S / divisor);
	return object;
}

static json_t *control_list_json(const struct ktsn_schedule *schedule, bool shown)
{
	json_t *object = json_object(), *list = json_array();

	for (uint32_t i = 0; shown && i < schedule->entry_count; i++) {
		json_t *entry = json_object();

		reply_int(entry, "index", i);
		reply_string(entry, "operation-name", "set-gate-states");
		reply_int(entry, "time-interval-value", schedule->entries[i].interval_ns);
		reply_int(entry, "gate-states-value", schedule->entries[i].gate_states);
		json_array_append_new(list, entry);
	}
	reply_object(object, "gate-control-entry", list);
	return object;
}

/* The limits of the schedule in force. */
static json_t *max_sdu_table_json(const struct control_schedule *schedule)
{
	json_t *list = json_array();

	for (int i = 0; i < KTSN_CLASSES; i++) {
		json_t *entry = json_object();

		reply_int(entry, "traffic-class", i);
		reply_int(entry, "queue-max-sdu", schedule->oper->queue_max_sdu_bytes[i]);
		reply_int(entry, "transmission-overrun", schedule->transmission_overrun[i]);
		json_array_append_new(list, entry);
	}
	return list;
}

static void admin_add(json_t *object, const struct ktsn_schedule *admin)
{
	reply_bool(object, "gate-enabled", admin->gate_enabled);
	reply_int(object, "admin-gate-states", admin->gate_states);
	reply_object(object, "admin-control-list", control_list_json(admin, true));
	reply_object(object, "admin-cycle-time", cycle_time_json(admin->cycle_time_ns));
	reply_int(object, "admin-cycle-time-extension", admin->cycle_time_extension_ns);
	reply_object(object, "admin-base-time", time_json(admin->base_time_tai_ns));
}

static void oper_add(json_t *object, const struct control_schedule *schedule)
{
	const struct ktsn_schedule *oper = schedule->oper;

	reply_int(object, "oper-gate-states", schedule->oper_gate_states);
	reply_object(object, "oper-control-list", control_list_json(oper, oper->gate_enabled));
	reply_object(object, "oper-cycle-time", cycle_time_json(oper->cycle_time_ns));
	reply_int(object, "oper-cycle-time-extension", oper->cycle_time_extension_ns);
	reply_object(object, "oper-base-time", time_json(oper->base_time_tai_ns));
	reply_object(object, "config-change-time", time_json(schedule->config_change_time_tai_ns));
	reply_bool(object, "config-pending", schedule->config_pending);
	reply_int(object, "config-change-error", schedule->config_change_error);
	reply_object(object, "current-time", time_json(schedule->current_time_tai_ns));
	reply_object(object, "queue-max-sdu-table", max_sdu_table_json(schedule));
}

static void limits_add(json_t *object)
{
	reply_int(object, "tick-granularity", KTSN_TICK_GRANULARITY_TENTHS_NS);
	reply_int(object, "supported-list-max", KTSN_SCHEDULE_ENTRIES_MAX);
	reply_object(object, "supported-cycle-max", cycle_time_json(KTSN_CYCLE_TIME_MAX_NS));
	reply_int(object, "supported-interval-max", UINT32_MAX);
}

char *control_reply_schedule(const struct control_schedule *schedule)
{
	json_t *root = reply_begin("schedule"), *table = json_object();

	admin_add(table, schedule->admin);
	oper_add(table, schedule);
	limits_add(table);
	reply_object(root, "gate-parameter-table", table);
	reply_int(root, "link-speed-bps", schedule->link_speed_bps);
	reply_int(root, "guard-band-ns", schedule->guard_band_ns);
	return reply_text(root);
}
