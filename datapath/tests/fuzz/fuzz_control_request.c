/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a request on the control socket. What is refused is refused in a sentence that can be sent; a
 * schedule that is taken is executed on paper: its gates are where its list has them, and the reply about it
 * makes the same schedule again.
 */
#include "control_reply.h"
#include "control_reply_schedule.h"
#include "control_schedule.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { LINK_SPEED_BPS = 1000000000 };

#define NOW_TAI_NS INT64_C(1700000000123456789)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert(): fuzzing is of no use without these. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

/* Takes over `reply`. */
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

/* The states of the list at a time, found by walking along it. */
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

/* The window that is found says the same of the gate as its states, and so does room in it for a frame. */
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

static void same_check(const struct ktsn_schedule *one, const struct ktsn_schedule *other)
{
	must(one->gate_enabled == other->gate_enabled && one->gate_states == other->gate_states);
	must(one->base_time_tai_ns == other->base_time_tai_ns && one->cycle_time_ns == other->cycle_time_ns);
	must(one->cycle_time_extension_ns == other->cycle_time_extension_ns);
	must(one->entry_count == other->entry_count);
	for (uint32_t i = 0; i < one->entry_count; i++)
		must(one->entries[i].interval_ns == other->entries[i].interval_ns &&
		     one->entries[i].gate_states == other->entries[i].gate_states);
	must(memcmp(one->queue_max_sdu_bytes, other->queue_max_sdu_bytes, sizeof(one->queue_max_sdu_bytes)) ==
	     0);
}

/* What schedule-get would answer, as a request again. */
static void reply_check(const struct ktsn_gates *gates)
{
	const struct control_schedule reply = {
		.admin = &gates->admin,
		.oper = &gates->admin, /* whose queue-max-sdu is shown */
		.oper_gate_states = ktsn_gates_states(gates, NOW_TAI_NS),
		.config_pending = ktsn_gates_pending(gates, NOW_TAI_NS),
		.current_time_tai_ns = NOW_TAI_NS,
	};
	static const char *const asked_for[] = {
		"gate-enabled",     "admin-gate-states",          "admin-control-list",
		"admin-cycle-time", "admin-cycle-time-extension", "admin-base-time"};
	json_t *root = reply_read(control_reply_schedule(&reply));
	json_t *from = json_object_get(root, "gate-parameter-table"), *table = json_object(), *sdu;
	struct ktsn_schedule again;
	struct refusal refusal;
	size_t i;

	for (i = 0; i < sizeof(asked_for) / sizeof(asked_for[0]); i++)
		json_object_set(table, asked_for[i], json_object_get(from, asked_for[i]));
	json_object_set(table, "queue-max-sdu-table", json_object_get(from, "queue-max-sdu-table"));
	json_array_foreach(json_object_get(table, "queue-max-sdu-table"), i, sdu)
	{
		json_object_del(sdu, "transmission-overrun");
	}
	must(control_schedule_read(table, &again, &refusal) == 0);
	same_check(&gates->admin, &again);
	json_decref(table);
	json_decref(root);
}

/* Asked for while nothing runs, and again while it runs itself. */
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
		refusal_check(control_schedule_refuse(&fault, LINK_SPEED_BPS, &refusal), &refusal);
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
