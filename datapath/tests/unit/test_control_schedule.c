/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules on the control socket: refused requests, and the reply to schedule-get.
 */

#include "unit_test.h"

#include "control_reply.h"
#include "protocol.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define TABLE         "gate-parameter-table"

/* The limit of control_server.c. */
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

/* Sets the value at a path such as "entries/0/interval-ns" and takes the reference; NULL deletes it. */
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

/* Returns the example with the value at a path changed; NULL deletes it. The caller frees the text. */
static char *changed(const char *example, const char *place, const char *text)
{
	json_t *root = example_json(example), *value = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
	char *request;

	assert_true(value || !text);
	json_change(root, place, value);
	request = json_dumps(root, JSON_COMPACT);
	json_decref(root);
	assert_non_null(request);
	return request;
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

static const struct {
	const char *place, *text, *field, *words;
} bad_schedules[] = {
	{"schedule", "[]", "schedule", "is a list; must be an object with gate-enabled"},
	{"schedule/gates", "1", "schedule", "has an unknown field \"gates\"; there are only gate-enabled"},
	{"schedule/gate-enabled", NULL, "schedule.gate-enabled", "is missing"},
	{"schedule/gate-enabled", "1", "schedule.gate-enabled", "is 1; must be true or false"},
	{"schedule/gate-states", "256", "schedule.gate-states",
	 "is 256; must be a whole number from 0 to 255"},
	{"schedule/gate-states", "-1", "schedule.gate-states", "is -1; must be"},
	{"schedule/gate-states", "1.5", "schedule.gate-states", "is 1.5; must be"},
	{"schedule/cycle-time-ns", "-1", "schedule.cycle-time-ns", "is -1; must be"},
	{"schedule/cycle-time-ns", "\"1ms\"", "schedule.cycle-time-ns", "is \"1ms\"; must be"},
	{"schedule/cycle-time-extension-ns", "4294967296", "schedule.cycle-time-extension-ns",
	 "is 4294967296"},
	{"schedule/base-time-tai-ns", "-1", "schedule.base-time-tai-ns", "is -1; must be"},
	{"schedule/entries", "{}", "schedule.entries", "is an object; must be a list of 0 to 256 entries"},
	{"schedule/entries/1", "7", "schedule.entries[1]",
	 "is 7; must be an object with interval-ns, gate-states"},
	{"schedule/entries/1/interval-ns", "4294967296", "schedule.entries[1].interval-ns", "is 4294967296"},
	{"schedule/entries/2/gate-states", "256", "schedule.entries[2].gate-states", "is 256; must be"},
	{"schedule/entries/2/gate-states", NULL, "schedule.entries[2].gate-states", "is missing"},
	{"schedule/queue-max-sdu-bytes", "[]", "schedule.queue-max-sdu-bytes", "has 0 entries; must have 8"},
	{"schedule/queue-max-sdu-bytes/7", "-1", "schedule.queue-max-sdu-bytes[7]", "is -1; must be"},
};

TEST(bad_schedules_are_refused)
{
	for (size_t i = 0; i < LENGTH(bad_schedules); i++) {
		char *text =
			changed("schedule-set.request.json", bad_schedules[i].place, bad_schedules[i].text);

		refused(text, bad_schedules[i].field, bad_schedules[i].words);
		free(text);
	}
}

/* Values that the link cannot execute. The parser accepts them; ktsn_schedule_check() refuses them. */
TEST(unsafe_schedules_are_refused)
{
	static const struct {
		const char *place, *text, *field, *message;
	} cases[] = {
		{"schedule/cycle-time-ns", "671", "schedule.cycle-time-ns",
		 "is 671; must be from 672 to 3600000000000"},
		{"schedule/base-time-tai-ns", "9000000001000000000", "schedule.base-time-tai-ns",
		 "is 9000000001000000000; must be from 0 to 9000000000999999999"},
		{"schedule/entries", "[]", "schedule.entries", "is 0; must be from 1 to 256"},
		{"schedule/entries/2/interval-ns", "671", "schedule.entries[2].interval-ns",
		 "is 671; must be from 672 to 4294967295"},
		{"schedule/queue-max-sdu-bytes/7", "45", "schedule.queue-max-sdu-bytes[7]",
		 "is 45; must be from 46 to 65535"},
	};

	for (size_t i = 0; i < LENGTH(cases); i++) {
		char *text = changed("schedule-set.request.json", cases[i].place, cases[i].text);
		struct ktsn_schedule schedule;
		struct ktsn_schedule_fault fault;
		struct refusal refusal;

		schedule_parse(text, &schedule);
		assert_int_equal(
			ktsn_schedule_check(&schedule, ktsn_link_ns(1000000000, KTSN_WIRE_BYTES_MIN), &fault),
			-EINVAL);
		assert_int_equal(control_schedule_refuse(&fault, &refusal), -EINVAL);
		assert_string_equal(refusal.field, cases[i].field);
		assert_string_equal(refusal.message, cases[i].message);
		free(text);
	}
}

TEST(duplicate_names_are_refused)
{
	refused("{\"version\":1,\"request\":\"schedule-set\",\"schedule\":"
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

TEST(bad_strategies_and_maps_are_refused)
{
	for (size_t i = 0; i < LENGTH(bad_others); i++) {
		char *text = changed(bad_others[i].file, bad_others[i].place, bad_others[i].text);

		refused(text, bad_others[i].field, bad_others[i].words);
		free(text);
	}
}

TEST(limits_are_inclusive)
{
	static const struct {
		const char *place, *text;
	} good[] = {
		{"schedule/gate-states", "0"},
		{"schedule/cycle-time-extension-ns", "4294967295"},
		{"schedule/base-time-tai-ns", "9000000000999999999"},
		{"schedule/cycle-time-ns", "4294967295000000000"},
		{"schedule/entries", "[]"},
		{"schedule/entries/0/interval-ns", "4294967295"},
		{"schedule/queue-max-sdu-bytes", "[46,0,0,0,0,0,0,65535]"},
	};

	for (size_t i = 0; i < LENGTH(good); i++) {
		char *text = changed("schedule-set.request.json", good[i].place, good[i].text);
		struct ktsn_schedule schedule;

		schedule_parse(text, &schedule);
		assert_true(schedule.cycle_time_ns > 0);
		free(text);
	}
}

/* Returns a request with `count` entries that have the maximum number of digits. The caller frees the
 * text. */
static char *long_request(uint32_t count)
{
	json_t *root = example_json("schedule-set.request.json");
	json_t *entries = json_array();
	char *text;

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(entries,
				      json_pack("{sI si}", "interval-ns", (json_int_t)(UINT32_MAX - i),
						"gate-states", 255 - (int)i % 100));
	json_object_set_new(json_object_get(root, "schedule"), "entries", entries);
	text = json_dumps(root, 0);
	json_decref(root);
	assert_non_null(text);
	return text;
}

TEST(longest_list)
{
	char *text = long_request(KTSN_SCHEDULE_ENTRIES_MAX);
	struct ktsn_schedule schedule;

	assert_true(strlen(text) < REQUEST_BYTES_MAX);
	schedule_parse(text, &schedule);
	free(text);
	assert_int_equal(schedule.entry_count, KTSN_SCHEDULE_ENTRIES_MAX);
	for (uint32_t i = 0; i < KTSN_SCHEDULE_ENTRIES_MAX; i++) {
		assert_int_equal(schedule.entries[i].interval_ns, UINT32_MAX - i);
		assert_int_equal(schedule.entries[i].gate_states, 255 - i % 100);
	}
	text = long_request(KTSN_SCHEDULE_ENTRIES_MAX + 1);
	refused(text, "schedule.entries", "has 257 entries; must have 0 to 256");
	free(text);
}

TEST(reply_matches_the_example)
{
	static const struct ktsn_schedule admin = {
		.gate_enabled = true,
		.gate_states = 255,
		.base_time_tai_ns = 1700000001000000200,
		.cycle_time_ns = 1000000,
		.cycle_time_extension_ns = 500,
		.entry_count = 3,
		.entries = {{300000, 128}, {300000, 96}, {400000, 31}},
		.queue_max_sdu_bytes = {[0] = 64}, /* pending, so not in the reply */
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

	reply_compare("schedule.reply.json", control_reply_schedule(&schedule));
}

static json_int_t integer_at(const json_t *table, const char *object, const char *name)
{
	return json_integer_value(json_object_get(json_object_get(table, object), name));
}

TEST(reply_without_a_schedule)
{
	/* A schedule may have a list while gates are not enabled. */
	static const struct ktsn_schedule none = {
		.gate_states = 255, .entry_count = 1, .entries = {{1000, 1}}};
	const struct control_schedule schedule = {.admin = &none, .oper = &none, .oper_gate_states = 255};
	char *text;
	json_t *root, *table, *list;

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

/* Nanoseconds are written as a fraction of a second in lowest terms. */
TEST(cycle_times_are_fractions)
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
