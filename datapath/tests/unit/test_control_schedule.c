/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules on the control socket: what is refused and with which words, and what schedule-get answers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control_reply_schedule.h"
#include "control_schedule.h"
#include "protocol.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define TABLE         "gate-parameter-table"
#define ENTRIES       TABLE ".admin-control-list.gate-control-entry"

/* As control_server.c bounds a request. */
enum { REQUEST_BYTES_MAX = 65536 };

static json_t *example_json(const char *name)
{
	char text[FILE_BYTES_MAX];
	json_t *root;

	example_read(name, text);
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	return root;
}

/* Puts a value (NULL: nothing), which it takes over, at a place such as
 * "queue-max-sdu-table/0/traffic-class". */
static void json_change(json_t *root, const char *place, json_t *value)
{
	char names[200], *name, *rest = names;

	snprintf(names, sizeof(names), "%s", place);
	while ((name = strsep(&rest, "/")) && rest)
		root = json_is_array(root) ? json_array_get(root, (size_t)atoi(name))
					   : json_object_get(root, name);
	assert_non_null(root);
	if (json_is_array(root))
		assert_int_equal(json_array_set_new(root, (size_t)atoi(name), value), 0);
	else if (value)
		assert_int_equal(json_object_set_new(root, name, value), 0);
	else
		assert_int_equal(json_object_del(root, name), 0);
}

/* The example with one change, of which it takes over the value. The caller's to free(). */
static char *changed_to(const char *example, const char *place, json_t *value)
{
	json_t *root = example_json(example);
	char *request;

	json_change(root, place, value);
	request = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	assert_non_null(request);
	return request;
}

/* The same for a value as text; NULL: without it. */
static char *changed(const char *example, const char *place, const char *text)
{
	json_t *value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;

	assert_true(value || !text);
	return changed_to(example, place, value);
}

static void schedule_parse(const char *text, struct ktsn_schedule *schedule)
{
	struct control_request request;
	struct refusal refusal;

	if (control_request_parse(text, strlen(text), &request, &refusal))
		fail_msg("%.200s: %s: %s", text, refusal.field, refusal.message);
	assert_int_equal(request.type, CONTROL_SCHEDULE_SET);
	*schedule = request.schedule;
}

/* What ktsnd says of a request on a link of that speed; 0: without looking at the link. */
static void refusal_of(const char *text, int64_t link_speed_bps, struct refusal *refusal)
{
	struct ktsn_schedule schedule;
	struct ktsn_schedule_fault fault;
	struct control_request request;

	if (!link_speed_bps) {
		assert_int_equal(control_request_parse(text, strlen(text), &request, refusal), -EINVAL);
		return;
	}
	schedule_parse(text, &schedule);
	assert_int_equal(ktsn_schedule_check(&schedule,
					     ktsn_link_ns((uint64_t)link_speed_bps, KTSN_WIRE_BYTES_MIN),
					     &fault),
			 -EINVAL);
	assert_int_equal(control_schedule_refuse(&fault, link_speed_bps, refusal), -EINVAL);
}

/* The same file is read by the tests of internal/shared/schedule, so that both sides say the same. */
static void bad_tables_are_refused_with_path_value_and_bound(void **state)
{
	json_t *cases = example_json("refusals/schedule-set.json"), *one;
	size_t i;

	(void)state;
	assert_true(json_array_size(cases) > 0);
	json_array_foreach(cases, i, one)
	{
		const char *place = json_string_value(json_object_get(one, "place"));
		const char *field = json_string_value(json_object_get(one, "field"));
		const char *message = json_string_value(json_object_get(one, "message"));
		char *text = changed_to("schedule-set.request.json", place,
					json_incref(json_object_get(one, "value")));
		struct refusal refusal = {.field = "none"};

		refusal_of(text, json_integer_value(json_object_get(one, "link-speed-bps")), &refusal);
		if (strcmp(refusal.field, field) != 0 || strcmp(refusal.message, message) != 0)
			fail_msg("%s: says %s: %s", place, refusal.field, refusal.message);
		free(text);
	}
	json_decref(cases);
}

/* As ktsnd takes a schedule: 0, or -EINVAL with what it says. */
static int judge(const json_t *table, int64_t link_speed_bps, struct refusal *refusal)
{
	json_t *root = example_json("schedule-set.request.json");
	int64_t frame_min_ns = ktsn_link_ns((uint64_t)link_speed_bps, KTSN_WIRE_BYTES_MIN);
	struct control_request request;
	struct ktsn_schedule_fault fault;
	char *text;
	int err;

	assert_int_equal(json_object_set(root, TABLE, (json_t *)(uintptr_t)table), 0);
	text = json_dumps(root, JSON_COMPACT);
	err = control_request_parse(text, strlen(text), &request, refusal);
	if (!err && ktsn_schedule_check(&request.schedule, frame_min_ns, &fault))
		err = control_schedule_refuse(&fault, link_speed_bps, refusal);
	free(text);
	json_decref(root);
	return err;
}

/* Read by the tests of internal/shared/schedule, too. Without a field the schedule is accepted. */
static void whole_schedules_get_the_verdict_of_the_file(void **state)
{
	json_t *cases = example_json("verdicts/schedule-set.json"), *one;
	size_t i;

	(void)state;
	assert_true(json_array_size(cases) > 0);
	json_array_foreach(cases, i, one)
	{
		const char *field = json_string_value(json_object_get(one, "field"));
		const char *message = json_string_value(json_object_get(one, "message"));
		struct refusal refusal = {.field = "none"};
		int err = judge(json_object_get(one, TABLE),
				json_integer_value(json_object_get(one, "link-speed-bps")), &refusal);

		if (!field != !err ||
		    (field && (strcmp(refusal.field, field) != 0 || strcmp(refusal.message, message) != 0)))
			fail_msg("%s: %d, says %s: %s", json_string_value(json_object_get(one, "name")), err,
				 refusal.field, refusal.message);
	}
	json_decref(cases);
}

static void a_name_that_stands_twice_is_refused_wherever_it_stands(void **state)
{
	(void)state;
	refused("{\"version\":1,\"request\":\"schedule-set\",\"gate-parameter-table\":"
		"{\"gate-enabled\":true,\"gate-enabled\":false}}",
		"", "duplicate object key");
}

static const struct {
	const char *file, *place, *text, *field, *words;
} bad_others[] = {
	{"strategy-set.request.json", "strategy", "\"txtime\"", "strategy",
	 "is \"txtime\"; must be tas, strict-priority, etf or etf-deadline"},
	{"strategy-set.request.json", "strategy", "0", "strategy", "is 0; must be tas"},
	{"strategy-set.request.json", "strategy", NULL, "strategy", "is missing"},
	{"traffic-classes-set.request.json", "traffic-class-map", "[0,1,2]", "traffic-class-map",
	 "has 3 entries; must have 16"},
	{"traffic-classes-set.request.json", "traffic-class-map", "7", "traffic-class-map",
	 "is 7; must be a list of 16 entries"},
	{"traffic-classes-set.request.json", "traffic-class-map/15", "8", "traffic-class-map[15]",
	 "is 8; must be a whole number from 0 to 7"},
	{"traffic-classes-set.request.json", "priority-code-points/7", "8", "priority-code-points[7]",
	 "is 8; must be a whole number from 0 to 7"},
	{"traffic-classes-set.request.json", "priority-code-points", NULL, "priority-code-points",
	 "is missing; traffic-classes-set needs it"},
};

static void bad_strategies_and_maps_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < LENGTH(bad_others); i++) {
		char *text = changed(bad_others[i].file, bad_others[i].place, bad_others[i].text);

		refused(text, bad_others[i].field, bad_others[i].words);
		free(text);
	}
}

static void bounds_are_inclusive(void **state)
{
	static const struct {
		const char *place, *text;
	} good[] = {
		{TABLE "/admin-gate-states", "0"},
		{TABLE "/admin-cycle-time-extension", "4294967295"},
		{TABLE "/admin-base-time", "{\"seconds\":9000000000,\"nanoseconds\":999999999}"},
		{TABLE "/admin-cycle-time", "{\"numerator\":4294967295,\"denominator\":4294967295}"},
		{TABLE "/admin-cycle-time", "{\"numerator\":4294967295,\"denominator\":1}"},
		{TABLE "/admin-cycle-time", "{\"numerator\":3,\"denominator\":3}"},
		{TABLE "/admin-control-list/gate-control-entry", "[]"},
		{TABLE "/admin-control-list/gate-control-entry/0/time-interval-value", "4294967295"},
		{TABLE "/queue-max-sdu-table", "[]"},
		{TABLE "/queue-max-sdu-table", "[{\"traffic-class\":7,\"queue-max-sdu\":65535},{\"traffic-"
					       "class\":0,\"queue-max-sdu\":46}]"},
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(good); i++) {
		char *text = changed("schedule-set.request.json", good[i].place, good[i].text);
		struct ktsn_schedule schedule;

		schedule_parse(text, &schedule);
		assert_true(schedule.cycle_time_ns > 0);
		free(text);
	}
}

/* A request with so many entries, index and gate states as long as they get. The caller's to free(). */
static char *long_request(uint32_t count)
{
	json_t *root = example_json("schedule-set.request.json");
	json_t *entries = json_array();
	char *text;

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(entries, json_pack("{si ss sI si}", "index", (int)i, "operation-name",
							 "set-gate-states", "time-interval-value",
							 (json_int_t)(UINT32_MAX - i), "gate-states-value",
							 255 - (int)i % 100));
	json_object_set_new(json_object_get(json_object_get(root, TABLE), "admin-control-list"),
			    "gate-control-entry", entries);
	text = json_dumps(root, 0);
	json_decref(root);
	assert_non_null(text);
	return text;
}

static void the_longest_list_fits_a_request_and_a_longer_one_is_refused(void **state)
{
	char *text = long_request(KTSN_SCHEDULE_ENTRIES_MAX);
	struct ktsn_schedule schedule;

	(void)state;
	assert_true(strlen(text) < REQUEST_BYTES_MAX);
	schedule_parse(text, &schedule);
	free(text);
	assert_int_equal(schedule.entry_count, KTSN_SCHEDULE_ENTRIES_MAX);
	for (uint32_t i = 0; i < KTSN_SCHEDULE_ENTRIES_MAX; i++) {
		assert_int_equal(schedule.entries[i].interval_ns, UINT32_MAX - i);
		assert_int_equal(schedule.entries[i].gate_states, 255 - i % 100);
	}
	text = long_request(KTSN_SCHEDULE_ENTRIES_MAX + 1);
	refused(text, ENTRIES, "has 257 entries; must have 0 to 256");
	free(text);
}

static void schedule_reply_is_the_example(void **state)
{
	static const struct ktsn_schedule admin = {
		.gate_enabled = true,
		.gate_states = 255,
		.base_time_tai_ns = 1700000001000000200,
		.cycle_time_ns = 1000000,
		.cycle_time_extension_ns = 500,
		.entry_count = 3,
		.entries = {{300000, 128}, {300000, 96}, {400000, 31}},
		.queue_max_sdu_bytes = {[0] = 64}, /* not in force yet, so not shown */
	};
	static const struct ktsn_schedule oper = {
		.gate_enabled = true,
		.gate_states = 0,
		.base_time_tai_ns = 1600000000000000100,
		.cycle_time_ns = 2000000,
		.entry_count = 2,
		.entries = {{500000, 129}, {1500000, 126}},
		.queue_max_sdu_bytes = {[4] = 1500, [7] = 256},
	};
	const struct control_schedule schedule = {
		.admin = &admin,
		.oper = &oper,
		.oper_gate_states = 129,
		.config_pending = true,
		.config_change_time_tai_ns = 1700000001000000200,
		.config_change_error = 2,
		.current_time_tai_ns = 1700000000250000000,
		.transmission_overrun = {[4] = 1, [7] = 3},
		.link_speed_bps = 1000000000,
		.guard_band_ns = 20000,
	};

	(void)state;
	reply_compare("schedule.reply.json", control_reply_schedule(&schedule));
}

static json_int_t integer_at(const json_t *table, const char *object, const char *name)
{
	return json_integer_value(json_object_get(json_object_get(table, object), name));
}

static void without_a_schedule_all_gates_are_open_and_no_list_runs(void **state)
{
	/* A list may be given with gate-enabled false. */
	static const struct ktsn_schedule none = {
		.gate_states = 255, .entry_count = 1, .entries = {{1000, 1}}};
	const struct control_schedule schedule = {.admin = &none, .oper = &none, .oper_gate_states = 255};
	char *text;
	json_t *root, *table, *list;

	(void)state;
	text = control_reply_schedule(&schedule);
	root = json_loads(text, 0, NULL);
	table = json_object_get(root, TABLE);
	assert_true(json_is_false(json_object_get(table, "gate-enabled")));
	assert_int_equal(json_integer_value(json_object_get(table, "oper-gate-states")), 255);
	list = json_object_get(table, "oper-control-list");
	assert_int_equal(json_array_size(json_object_get(list, "gate-control-entry")), 0);
	list = json_object_get(table, "admin-control-list");
	assert_int_equal(json_array_size(json_object_get(list, "gate-control-entry")), 1);
	assert_int_equal(integer_at(table, "oper-cycle-time", "numerator"), 0);
	assert_int_equal(integer_at(table, "oper-cycle-time", "denominator"), 1);
	json_decref(root);
	free(text);
}

/* Nanoseconds become the fraction that was given, in lowest terms. */
static void cycle_times_come_back_as_fractions(void **state)
{
	static const struct {
		int64_t ns;
		json_int_t numerator, denominator;
	} cases[] = {
		{1000000, 1, 1000},
		{672, 21, 31250000},
		{INT64_C(3600000000000), 3600, 1},
		{1500000000, 3, 2},
		{1000000007, 1000000007, 1000000000},
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct ktsn_schedule given = {.cycle_time_ns = cases[i].ns};
		struct control_schedule schedule = {.admin = &given, .oper = &given};
		char *text = control_reply_schedule(&schedule);
		json_t *root = json_loads(text, 0, NULL);
		json_t *table = json_object_get(root, TABLE);

		assert_int_equal(integer_at(table, "admin-cycle-time", "numerator"), cases[i].numerator);
		assert_int_equal(integer_at(table, "admin-cycle-time", "denominator"), cases[i].denominator);
		json_decref(root);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_tables_are_refused_with_path_value_and_bound),
		cmocka_unit_test(whole_schedules_get_the_verdict_of_the_file),
		cmocka_unit_test(a_name_that_stands_twice_is_refused_wherever_it_stands),
		cmocka_unit_test(bad_strategies_and_maps_are_refused),
		cmocka_unit_test(bounds_are_inclusive),
		cmocka_unit_test(the_longest_list_fits_a_request_and_a_longer_one_is_refused),
		cmocka_unit_test(schedule_reply_is_the_example),
		cmocka_unit_test(without_a_schedule_all_gates_are_open_and_no_list_runs),
		cmocka_unit_test(cycle_times_come_back_as_fractions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
