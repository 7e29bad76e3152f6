/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a request on the control socket. Every refusal can be sent as a reply. An accepted schedule is
 * executed in virtual time: its gates have the states of its list, and the reply about it has its values.
 */
#include "control_reply.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LINK_SPEED_BPS = 1000000000 };

#define NS_PER_S   INT64_C(1000000000)
#define NOW_TAI_NS INT64_C(1700000000123456789)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Like assert(), but also with NDEBUG. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

/* Frees `reply`. */
static json_t *reply_read(char *reply)
{
	json_t *root;

	must(reply != NULL);
	root = json_loads(reply, JSON_REJECT_DUPLICATES, NULL);
	must(root != NULL);
	free(reply);
	return root;
}

static void refusal_check(int err, const struct refusal *refusal)
{
	must(err == -EINVAL);
	must(memchr(refusal->field, '\0', sizeof(refusal->field)) != NULL);
	must(refusal->message[0] != '\0');
	json_decref(reply_read(control_reply_error(refusal)));
}

/* Returns the states of the list at a time by adding up its intervals. */
static uint8_t list_states(const struct ktsn_schedule *schedule, int64_t tai_ns)
{
	int64_t left_ns = (tai_ns - schedule->base_time_tai_ns) % schedule->cycle_time_ns;
	uint32_t i = 0;

	if (left_ns < 0)
		left_ns += schedule->cycle_time_ns;
	while (i < schedule->entry_count - 1 && left_ns >= schedule->entries[i].interval_ns)
		left_ns -= schedule->entries[i++].interval_ns;
	return schedule->entries[i].gate_states;
}

/* Checks that the window of a class agrees with the states of its gate, and so does a frame that fits into
 * it. */
static void class_check(const struct ktsn_gates *gates, unsigned int class, int64_t tai_ns, int64_t frame_ns)
{
	bool open = ktsn_gates_states(gates, tai_ns) >> class & 1;
	struct ktsn_window window = ktsn_gates_window(gates, class, tai_ns);
	int64_t start_tai_ns;

	must((window.open_tai_ns <= tai_ns) == open);
	must(window.open_tai_ns == KTSN_WINDOW_NEVER || window.close_tai_ns > tai_ns);
	window = ktsn_gates_fit(gates, class, tai_ns, frame_ns, &start_tai_ns);
	if (window.open_tai_ns == KTSN_WINDOW_NEVER)
		return;
	must(start_tai_ns >= tai_ns && start_tai_ns >= window.open_tai_ns);
	must(start_tai_ns <= window.close_tai_ns - frame_ns);
	must(ktsn_gates_states(gates, start_tai_ns) >> class & 1);
}

static void gates_check(const struct ktsn_gates *gates, int64_t tai_ns)
{
	const struct ktsn_schedule *oper = ktsn_gates_oper(gates, tai_ns);

	if (tai_ns >= gates->config_change_tai_ns)
		must(ktsn_gates_states(gates, tai_ns) == list_states(oper, tai_ns));
	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		class_check(gates, class, tai_ns, ktsn_link_ns(LINK_SPEED_BPS, 200) + 20000);
}

static void same_check(const struct ktsn_schedule *schedule, const struct ktsn_schedule *other)
{
	must(schedule->gate_enabled == other->gate_enabled && schedule->gate_states == other->gate_states);
	must(schedule->base_time_tai_ns == other->base_time_tai_ns &&
	     schedule->cycle_time_ns == other->cycle_time_ns);
	must(schedule->cycle_time_extension_ns == other->cycle_time_extension_ns);
	must(schedule->entry_count == other->entry_count);
	for (uint32_t i = 0; i < schedule->entry_count; i++)
		must(schedule->entries[i].interval_ns == other->entries[i].interval_ns &&
		     schedule->entries[i].gate_states == other->entries[i].gate_states);
	must(memcmp(schedule->queue_max_sdu_bytes, other->queue_max_sdu_bytes,
		    sizeof(schedule->queue_max_sdu_bytes)) == 0);
}

static int64_t number_at(const json_t *object, const char *name)
{
	return json_integer_value(json_object_get(object, name));
}

/* Reads the schedule of a reply to schedule-get. */
static struct ktsn_schedule reply_schedule(const json_t *table)
{
	const json_t *entries =
		json_object_get(json_object_get(table, "admin-control-list"), "gate-control-entry");
	const json_t *cycle = json_object_get(table, "admin-cycle-time");
	const json_t *base = json_object_get(table, "admin-base-time");
	const json_t *sdus = json_object_get(table, "queue-max-sdu-table");
	struct ktsn_schedule schedule = {
		.gate_enabled = json_is_true(json_object_get(table, "gate-enabled")),
		.gate_states = (uint8_t)number_at(table, "admin-gate-states"),
		.base_time_tai_ns = number_at(base, "seconds") * NS_PER_S + number_at(base, "nanoseconds"),
		.cycle_time_ns = number_at(cycle, "numerator") * (NS_PER_S / number_at(cycle, "denominator")),
		.cycle_time_extension_ns = (uint32_t)number_at(table, "admin-cycle-time-extension"),
		.entry_count = (uint32_t)json_array_size(entries),
	};

	must(schedule.entry_count <= KTSN_SCHEDULE_ENTRIES_MAX && json_array_size(sdus) == KTSN_CLASSES);
	for (uint32_t i = 0; i < schedule.entry_count; i++) {
		const json_t *entry = json_array_get(entries, i);

		must(number_at(entry, "index") == i);
		schedule.entries[i].interval_ns = (uint32_t)number_at(entry, "time-interval-value");
		schedule.entries[i].gate_states = (uint8_t)number_at(entry, "gate-states-value");
	}
	for (uint32_t class = 0; class < KTSN_CLASSES; class ++)
		schedule.queue_max_sdu_bytes[class] =
			(uint32_t)number_at(json_array_get(sdus, class), "queue-max-sdu");
	return schedule;
}

static void reply_check(const struct ktsn_gates *gates)
{
	const struct control_schedule reply = {
		.admin = &gates->admin,
		.oper = &gates->admin, /* the reply has its queue-max-sdu */
		.oper_gate_states = ktsn_gates_states(gates, NOW_TAI_NS),
		.config_pending = ktsn_gates_pending(gates, NOW_TAI_NS),
		.current_time_tai_ns = NOW_TAI_NS,
	};
	json_t *root = reply_read(control_reply_schedule(&reply));
	const struct ktsn_schedule read = reply_schedule(json_object_get(root, "gate-parameter-table"));

	same_check(&gates->admin, &read);
	json_decref(root);
}

/* Executes the schedule first without another one in force, then after itself. */
static void schedule_execute(const struct ktsn_schedule *schedule)
{
	static struct ktsn_gates none, first, second;

	ktsn_gates_init(&none);
	ktsn_gates_change(&none, schedule, NOW_TAI_NS, &first);
	reply_check(&first);
	for (int64_t tai_ns = NOW_TAI_NS, i = 0; i < 8; i++, tai_ns += schedule->cycle_time_ns * i / 3 + 1)
		gates_check(&first, tai_ns);
	if (!schedule->gate_enabled)
		return;
	gates_check(&first, first.config_change_tai_ns);
	gates_check(&first, first.config_change_tai_ns - 1);
	ktsn_gates_change(&first, schedule, first.config_change_tai_ns + 1, &second);
	must(second.hold_from_tai_ns <= second.config_change_tai_ns);
	gates_check(&second, second.hold_from_tai_ns);
	gates_check(&second, second.config_change_tai_ns);
}

static void schedule_check(const struct ktsn_schedule *schedule)
{
	struct ktsn_schedule_fault fault;
	struct refusal refusal;

	if (ktsn_schedule_check(schedule, ktsn_link_ns(LINK_SPEED_BPS, KTSN_WIRE_BYTES_MIN), &fault))
		refusal_check(control_schedule_refuse(&fault, &refusal), &refusal);
	else
		schedule_execute(schedule);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct control_request request;
	struct refusal refusal;
	int err = control_request_parse((const char *)data, size, &request, &refusal);

	if (err)
		refusal_check(err, &refusal);
	else if (request.type == CONTROL_SCHEDULE_SET)
		schedule_check(&request.schedule);
	return 0;
}
