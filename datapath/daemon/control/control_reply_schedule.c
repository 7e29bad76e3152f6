/* SPDX-License-Identifier: Apache-2.0 */
#include "control_reply_schedule.h"

#include "control_request.h"

#include <jansson.h>

#define NS_PER_S INT64_C(1000000000)

static json_t *time_json(int64_t tai_ns)
{
	return json_pack("{sI sI}", "seconds", (json_int_t)(tai_ns / NS_PER_S), "nanoseconds",
			 (json_int_t)(tai_ns % NS_PER_S));
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

/* As a fraction of a second in lowest terms, which never needs more bits than the one that was given. */
static json_t *cycle_time_json(int64_t cycle_time_ns)
{
	int64_t divisor = common_divisor(cycle_time_ns, NS_PER_S);

	return json_pack("{sI sI}", "numerator", (json_int_t)(cycle_time_ns / divisor), "denominator",
			 (json_int_t)(NS_PER_S / divisor));
}

static json_t *control_list_json(const struct ktsn_schedule *schedule, bool shown)
{
	json_t *list = json_array();

	for (uint32_t i = 0; shown && i < schedule->entry_count; i++)
		json_array_append_new(
			list, json_pack("{si ss sI si}", "index", (int)i, "operation-name", "set-gate-states",
					"time-interval-value", (json_int_t)schedule->entries[i].interval_ns,
					"gate-states-value", (int)schedule->entries[i].gate_states));
	return json_pack("{so}", "gate-control-entry", list);
}

/* Limits are enforced for what is in force. */
static json_t *max_sdu_table_json(const struct control_schedule *schedule)
{
	json_t *list = json_array();

	for (int i = 0; i < KTSN_CLASSES; i++)
		json_array_append_new(list, json_pack("{si sI sI}", "traffic-class", i, "queue-max-sdu",
						      (json_int_t)schedule->oper->queue_max_sdu_bytes[i],
						      "transmission-overrun",
						      (json_int_t)schedule->transmission_overrun[i]));
	return list;
}

static json_t *admin_json(const struct ktsn_schedule *admin)
{
	return json_pack("{sb si so so sI so}", "gate-enabled", admin->gate_enabled, "admin-gate-states",
			 (int)admin->gate_states, "admin-control-list", control_list_json(admin, true),
			 "admin-cycle-time", cycle_time_json(admin->cycle_time_ns),
			 "admin-cycle-time-extension", (json_int_t)admin->cycle_time_extension_ns,
			 "admin-base-time", time_json(admin->base_time_tai_ns));
}

static json_t *oper_json(const struct control_schedule *schedule)
{
	const struct ktsn_schedule *oper = schedule->oper;

	return json_pack(
		"{si so so sI so so sb sI so so}", "oper-gate-states", (int)schedule->oper_gate_states,
		"oper-control-list", control_list_json(oper, oper->gate_enabled), "oper-cycle-time",
		cycle_time_json(oper->cycle_time_ns), "oper-cycle-time-extension",
		(json_int_t)oper->cycle_time_extension_ns, "oper-base-time",
		time_json(oper->base_time_tai_ns), "config-change-time",
		time_json(schedule->config_change_time_tai_ns), "config-pending", schedule->config_pending,
		"config-change-error", (json_int_t)schedule->config_change_error, "current-time",
		time_json(schedule->current_time_tai_ns), "queue-max-sdu-table",
		max_sdu_table_json(schedule));
}

static json_t *limits_json(void)
{
	return json_pack("{si si so sI}", "tick-granularity", (int)KTSN_TICK_GRANULARITY_TENTHS_NS,
			 "supported-list-max", (int)KTSN_SCHEDULE_ENTRIES_MAX, "supported-cycle-max",
			 cycle_time_json(KTSN_CYCLE_TIME_MAX_NS), "supported-interval-max",
			 (json_int_t)UINT32_MAX);
}

char *control_reply_schedule(const struct control_schedule *schedule)
{
	json_t *table = admin_json(schedule->admin), *oper = oper_json(schedule), *limits = limits_json();
	json_t *root;
	char *text;

	json_object_update(table, oper);
	json_object_update(table, limits);
	json_decref(oper);
	json_decref(limits);
	root = json_pack("{si ss so sI sI}", "version", CONTROL_VERSION, "reply", "schedule",
			 "gate-parameter-table", table, "link-speed-bps",
			 (json_int_t)schedule->link_speed_bps, "guard-band-ns",
			 (json_int_t)schedule->guard_band_ns);
	text = root ? json_dumps(root, JSON_COMPACT) : NULL;
	json_decref(root);
	return text;
}
