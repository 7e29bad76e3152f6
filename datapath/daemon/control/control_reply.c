/* SPDX-License-Identifier: Apache-2.0 */
#include "control_reply.h"

#include "clocks.h"
#include "control_json.h"

#include <stdio.h>

static json_t *bytes_json(const uint8_t *bytes, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_integer(bytes[i]));
	return list;
}

char *control_reply_ok(void)
{
	return reply_text(reply_begin("ok"));
}

/* A message that quotes the request may have been cut within a character, and JSON is UTF-8 only. */
static json_t *message_json(const char *message)
{
	char ascii[sizeof(((struct refusal *)0)->message)];
	json_t *json = json_string(message);

	if (json)
		return json;
	snprintf(ascii, sizeof(ascii), "%s", message);
	for (char *c = ascii; *c; c++)
		if (*c & 0x80)
			*c = '?';
	return json_string(ascii);
}

char *control_reply_error(const struct refusal *refusal)
{
	json_t *root = json_object(), *error = json_object();

	reply_string(error, "field", refusal->field);
	reply_object(error, "message", message_json(refusal->message));
	reply_int(root, "version", CONTROL_VERSION);
	reply_object(root, "error", error);
	return reply_text(root);
}

char *control_reply_instance(const struct instance *instance, const char *const *standing_by, size_t count)
{
	json_t *root = reply_begin("instance"), *object = json_object(), *names = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(names, json_string(standing_by[i]));
	reply_string(object, "name", instance->name);
	reply_string(object, "boot-id", instance->boot_id);
	reply_int(object, "born-ns", instance->born_ns);
	reply_object(object, "standing-by", names);
	reply_object(root, "instance", object);
	return reply_text(root);
}

static json_t *counters_json(const struct control_status *status)
{
	json_t *object = json_object();

#define X(name, text) reply_int(object, text, counter_read(&status->counters->name));
	KTSN_COUNTERS(X)
#undef X
	reply_int(object, "kernel-path", status->library_counts.kernel_path);
	reply_int(object, "unanswered", status->library_counts.unanswered);
	reply_int(object, "off-network", status->library_counts.off_network);
	reply_int(object, "limit-refusals", status->limit_refusals);
	reply_int(object, "share-receiver", status->delivery.limited);
	reply_int(object, "delivery-failed", status->delivery.failed);
	return object;
}

static json_t *classes_json(const struct control_class classes[KTSN_CLASSES])
{
	json_t *list = json_array();

	for (int i = 0; i < KTSN_CLASSES; i++) {
		json_t *object = json_object();

		reply_int(object, "traffic-class", i);
		reply_int(object, "pending", classes[i].pending);
		reply_int(object, "sent", classes[i].sent);
		reply_int(object, "late", classes[i].late);
		reply_int(object, "dropped", classes[i].dropped);
		reply_int(object, "transmission-overrun", classes[i].transmission_overrun);
		json_array_append_new(list, object);
	}
	return list;
}

static void shaper_add(json_t *object, const struct control_status *status)
{
	reply_string(object, "strategy", status->strategy);
	reply_int(object, "link-speed-bps", status->link_speed_bps);
	reply_int(object, "guard-band-ns", status->guard_band_ns);
	reply_int(object, "vlan-id", status->vlan_id);
	reply_object(object, "traffic-class-map", bytes_json(status->traffic_class_map, CONTROL_PRIORITIES));
	reply_object(object, "priority-code-points", bytes_json(status->priority_code_points, KTSN_CLASSES));
	reply_object(object, "classes", classes_json(status->classes));
}

static json_t *clock_json(const struct control_status *status)
{
	json_t *object = json_object();
	const struct clock_state *clock = &status->clock;
	const struct node_clocks *clocks = status->clocks;

	reply_int(object, "tai-offset-s", clock->tai_offset_s);
	reply_bool(object, "synchronized", clock->synchronized);
	reply_int(object, "maximum-error-ns", clock->maximum_error_ns);
	reply_int(object, "estimated-error-ns", clock->estimated_error_ns);
	reply_int(object, "frequency-ppb", clock->frequency_ppb);
	reply_int(object, "tick-ns", clock->tick_ns);
	reply_string(object, "state", node_clock_state_names[clocks->reported.state]);
	reply_int(object, "error-bound-ns", status->clock_bound_ns);
	reply_int(object, "drift-ppb", clocks->reported.drift_ppb);
	reply_int(object, "steps", clocks->steps.count);
	reply_int(object, "last-step-ns", clocks->steps.last_ns);
	return object;
}

static json_t *budget_json(const struct control_status *status)
{
	json_t *object = json_object();
	const struct loop_budget_use *use = &status->budget_use;

	reply_int(object, "runtime-ns", use->runtime_ns);
	reply_int(object, "period-ns", use->period_ns);
	reply_string(object, "source", status->budget->source);
	reply_int(object, "used-ns", use->used_ns);
	reply_int(object, "most-used-ns", use->most_used_ns);
	reply_int(object, "rests", use->rests);
	reply_int(object, "rests-forced", use->rests_forced);
	reply_int(object, "stops", use->stops);
	reply_int(object, "stopped-ns", use->stopped_ns);
	reply_int(object, "host-pauses", use->host_pauses);
	return object;
}

char *control_reply_status(const struct control_status *status)
{
	json_t *root = reply_begin("status"), *object = json_object();

	reply_string(object, "ktsnd-version", KTSN_VERSION);
	reply_int(object, "pid", status->pid);
	reply_string(object, "uplink", status->uplink);
	reply_string(object, "interface", status->interface);
	reply_object(object, "local-address", reply_ipv4(status->local_address_be));
	reply_string(object, "scheduler", status->scheduler);
	reply_int(object, "scheduler-priority", status->scheduler_priority);
	reply_int(object, "cpu", status->cpu);
	reply_int(object, "spin-ns", status->spin_ns);
	reply_bool(object, "keep-awake", status->awake->by != KEEP_AWAKE_NONE);
	reply_string(object, "keep-awake-by", keep_awake_name(status->awake->by));
	reply_int(object, "sockets", status->sockets);
	reply_int(object, "endpoints", status->endpoints);
	reply_int(object, "peers", status->peers);
	reply_int(object, "processes", status->processes);
	reply_int(object, "flows", status->flows);
	reply_int(object, "pending", status->pending);
	reply_object(object, "counters", counters_json(status));
	reply_object(object, "realtime-budget", budget_json(status));
	reply_object(object, "clock", clock_json(status));
	reply_int(object, "processor-time-ns", status->processor_time_ns);
	reply_int(object, "ring-memory-bytes", status->ring_memory_bytes);
	reply_int(object, "ring-memory-removed-bytes", status->ring_memory_removed_bytes);
	reply_int(object, "ring-memory-max-bytes", status->ring_memory_max_bytes);
	shaper_add(object, status);
	reply_object(root, "status", object);
	return reply_text(root);
}

char *control_reply_departures(const struct departure *records, uint32_t count, uint64_t overwritten)
{
	json_t *root = reply_begin("departures"), *list = json_array();

	for (uint32_t i = 0; i < count; i++) {
		json_t *departure = json_array();

		json_array_append_new(departure, json_integer((json_int_t)records[i].sequence));
		json_array_append_new(departure, json_integer((json_int_t)records[i].flow));
		json_array_append_new(departure, json_integer(records[i].requested_tai_ns));
		json_array_append_new(departure, json_integer(records[i].departed_tai_ns));
		json_array_append_new(departure, json_integer(records[i].overrun));
		json_array_append_new(list, departure);
	}
	reply_int(root, "overwritten", overwritten);
	reply_object(root, "departures", list);
	return reply_text(root);
}

static const char *outcome_name(uint8_t outcome)
{
	static const char *const names[] = {
#define X(name, text) text,
		KTSN_COUNTERS(X)
#undef X
	};

	return names[outcome];
}

static json_t *trace_record_json(const struct trace_record *record, uint64_t before)
{
	json_t *object = json_object();

	reply_int(object, "sequence", record->sequence - before);
	reply_int(object, "flow", record->flow);
	reply_int(object, "called-tai-ns", record->called_tai_ns);
	reply_int(object, "taken-tai-ns", record->taken_tai_ns);
	reply_int(object, "due-tai-ns", record->due_tai_ns);
	reply_int(object, "ended-tai-ns", record->ended_tai_ns);
	reply_string(object, "outcome", outcome_name(record->outcome));
	reply_int(object, "traffic-class", record->traffic_class);
	reply_int(object, "payload-bytes", record->payload_bytes);
	return object;
}

char *control_reply_trace(const struct trace_record *records, uint32_t count, uint64_t before,
			  uint64_t overwritten)
{
	json_t *root = reply_begin("trace"), *list = json_array();

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(list, trace_record_json(&records[i], before));
	reply_int(root, "overwritten", overwritten);
	reply_object(root, "messages", list);
	return reply_text(root);
}

/* ---- the gate parameter table ---- */

static json_t *time_json(int64_t tai_ns)
{
	json_t *object = json_object();

	reply_int(object, "seconds", tai_ns / NS_PER_SECOND);
	reply_int(object, "nanoseconds", tai_ns % NS_PER_SECOND);
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
	int64_t divisor = common_divisor(cycle_time_ns, NS_PER_SECOND);

	reply_int(object, "numerator", cycle_time_ns / divisor);
	reply_int(object, "denominator", NS_PER_SECOND / divisor);
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
