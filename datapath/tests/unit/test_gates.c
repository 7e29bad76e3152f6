/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gates in virtual time: pictures of small cycles, edges to the nanosecond, and requests at every moment
 * compared with the standard's state machines (gate_machines.h).
 *
 * In the pictures each character is a nanosecond of the gate of class 0: # open, . shut.
 */

#include <stdlib.h>
#include <string.h>

#include "gate_machines.h"
#include "gates.h"
#include "test_random.h"

#include "unit_test.h"

/* So far the future is looked at tick by tick. */
enum { TICKS = 512 };

static struct ktsn_schedule schedule_of(int64_t base_time_tai_ns, int64_t cycle_time_ns,
					const struct ktsn_gate_entry *entries, uint32_t entry_count)
{
	struct ktsn_schedule schedule;

	ktsn_schedule_init(&schedule);
	schedule.gate_enabled = true;
	schedule.base_time_tai_ns = base_time_tai_ns;
	schedule.cycle_time_ns = cycle_time_ns;
	schedule.entry_count = entry_count;
	memcpy(schedule.entries, entries, entry_count * sizeof(*entries));
	return schedule;
}

static void gates_of(struct ktsn_gates *gates, const struct ktsn_schedule *schedule, int64_t now_tai_ns)
{
	struct ktsn_gates none;

	ktsn_gates_init(&none);
	ktsn_gates_change(&none, schedule, now_tai_ns, gates);
}

/* ---- windows compared with the states of every tick ---- */

static bool is_open(const uint8_t *states, unsigned int class, uint32_t tick)
{
	return states[tick] >> class & 1;
}

static uint32_t scan(const uint8_t *states, unsigned int class, uint32_t from, uint32_t until, bool open)
{
	while (from < until && is_open(states, class, from) != open)
		from++;
	return from;
}

static void window_check(const struct ktsn_gates *gates, const uint8_t *states, int64_t now_tai_ns,
			 unsigned int class, uint32_t tick)
{
	struct ktsn_window window = ktsn_gates_window(gates, class, now_tai_ns + tick);
	uint32_t open = scan(states, class, tick, TICKS, true);
	uint32_t close = scan(states, class, open, TICKS, false);

	if (open == TICKS) {
		assert_true(window.open_tai_ns >= now_tai_ns + TICKS);
		return;
	}
	if (open > tick)
		assert_true(window.open_tai_ns == now_tai_ns + open);
	else
		assert_true(window.open_tai_ns <= now_tai_ns + tick);
	if (close < TICKS)
		assert_true(window.close_tai_ns == now_tai_ns + close);
	else
		assert_true(window.close_tai_ns >= now_tai_ns + TICKS);
}

/* `last` is the first tick whose room may not extend into later ticks; a room not found before it does not
 * exist. */
static void fit_check(const struct ktsn_gates *gates, const uint8_t *states, int64_t now_tai_ns,
		      unsigned int class, uint32_t tick, uint32_t duration, bool all_seen)
{
	int64_t start_tai_ns = -1;
	struct ktsn_window window = ktsn_gates_fit(gates, class, now_tai_ns + tick, duration, &start_tai_ns);
	uint32_t start = tick;

	while (start + duration <= TICKS &&
	       scan(states, class, start, start + duration, false) < start + duration)
		start++;
	if (start + duration <= TICKS) {
		assert_true(start_tai_ns == now_tai_ns + start);
		assert_true(window.open_tai_ns <= start_tai_ns);
		assert_true(window.close_tai_ns >= start_tai_ns + duration);
	} else if (all_seen) {
		assert_true(start_tai_ns == KTSN_WINDOW_NEVER);
		assert_true(window.open_tai_ns == KTSN_WINDOW_NEVER);
	} else {
		assert_true(start_tai_ns >= now_tai_ns + start);
	}
}

/* Reports whether everything that will ever happen lies within this many ticks after the first half of
 * them. */
static bool all_within(const struct ktsn_gates *gates, int64_t now_tai_ns, int64_t ticks)
{
	bool pending = ktsn_gates_pending(gates, now_tai_ns);
	int64_t settled_tai_ns = pending ? gates->config_change_tai_ns : now_tai_ns;
	const struct ktsn_schedule *last = pending ? &gates->admin : &gates->oper;
	int64_t cycle_ns = last->gate_enabled ? last->cycle_time_ns : 0;

	return settled_tai_ns < now_tai_ns + ticks - 4 * cycle_ns;
}

static void windows_check(const struct ktsn_gates *gates, const struct gate_simulation *simulation,
			  struct test_random *random, uint32_t looks)
{
	int64_t now_tai_ns = simulation->machines.current_time;
	bool all_seen = all_within(gates, now_tai_ns, TICKS / 2);
	uint8_t states[TICKS];

	gate_simulation_foretell(simulation, states, TICKS);
	for (uint32_t i = 0; i < looks; i++) {
		unsigned int class = (unsigned int)test_random_below(random, KTSN_CLASSES);
		uint32_t tick = (uint32_t)test_random_below(random, TICKS / 4);

		window_check(gates, states, now_tai_ns, class, tick);
		fit_check(gates, states, now_tai_ns, class, tick, 1 + (uint32_t)test_random_below(random, 40),
			  all_seen);
	}
}

/* ---- pictures ---- */

struct picture {
	const char *label;
	int64_t cycle_ns;
	uint32_t entry_count;
	struct ktsn_gate_entry entries[4];
	const char *cycle;
};

static const struct picture pictures[] = {
	{"one entry, open: never shut", 4, 1, {{4, 1}}, "####"},
	{"one entry, shut: never open", 4, 1, {{4, 0}}, "...."},
	{"one entry shorter than the cycle: held", 6, 1, {{2, 1}}, "######"},
	{"one entry longer than the cycle: cut", 3, 1, {{100, 1}}, "###"},
	{"open, then shut", 7, 2, {{3, 1}, {4, 0}}, "###...."},
	{"shut, then open", 7, 2, {{3, 0}, {4, 1}}, "...####"},
	{"two open entries are one window", 7, 3, {{2, 1}, {2, 3}, {3, 2}}, "####..."},
	{"open at the end and at the beginning: one window", 7, 3, {{2, 1}, {3, 0}, {2, 1}}, "##...##"},
	{"two windows", 9, 4, {{1, 0}, {2, 1}, {1, 0}, {5, 1}}, ".##.#####"},
	{"cycle longer than the list: the last state, open, is held", 9, 2, {{3, 0}, {2, 1}}, "...######"},
	{"cycle longer than the list: the last state, shut, is held", 9, 2, {{3, 1}, {2, 0}}, "###......"},
	{"cycle shorter than the list: cut in the middle of an entry", 4, 2, {{3, 1}, {3, 0}}, "###."},
	{"cycle shorter than the list: cut at the edge of an entry", 3, 2, {{3, 1}, {3, 0}}, "###"},
	{"cycle shorter than the list: an entry is never reached", 5, 3, {{3, 1}, {2, 0}, {3, 1}}, "###.."},
	{"cut open at the end and open at the beginning", 7, 3, {{2, 1}, {3, 0}, {9, 1}}, "##...##"},
	{"open for one nanosecond", 5, 3, {{2, 0}, {1, 1}, {2, 0}}, "..#.."},
	{"shut for one nanosecond", 5, 3, {{2, 1}, {1, 0}, {2, 1}}, "##.##"},
};

/* A cycle that begins at `start`, by its states and by the windows that close after each tick. */
static void picture_check(const struct ktsn_gates *gates, const char *cycle, int64_t start_tai_ns)
{
	size_t length = strlen(cycle);

	for (size_t i = 0; i < length; i++) {
		int64_t tai_ns = start_tai_ns + (int64_t)i;
		struct ktsn_window window = ktsn_gates_window(gates, 0, tai_ns);
		bool open = window.open_tai_ns <= tai_ns && tai_ns < window.close_tai_ns;

		assert_int_equal(ktsn_gates_states(gates, tai_ns) & 1, cycle[i] == '#');
		assert_int_equal(open, cycle[i] == '#');
	}
}

TEST(cycles_match_their_pictures)
{
	static const int64_t bases[] = {0, 1, 1750000000123456789, KTSN_BASE_TIME_MAX_NS};
	struct ktsn_gates gates;

	for (size_t p = 0; p < sizeof(pictures) / sizeof(pictures[0]); p++) {
		const struct picture *picture = &pictures[p];

		print_message("# %s\n", picture->label);
		for (size_t b = 0; b < sizeof(bases) / sizeof(bases[0]); b++) {
			int64_t base_tai_ns = bases[b];
			int64_t later_tai_ns = base_tai_ns + picture->cycle_ns * 12345678901;
			struct ktsn_schedule schedule = schedule_of(base_tai_ns, picture->cycle_ns,
								    picture->entries, picture->entry_count);

			/* The request is made at, before, and long after the base time. */
			gates_of(&gates, &schedule, base_tai_ns);
			picture_check(&gates, picture->cycle, base_tai_ns);
			picture_check(&gates, picture->cycle, later_tai_ns);
			gates_of(&gates, &schedule, 0);
			picture_check(&gates, picture->cycle, base_tai_ns);
			picture_check(&gates, picture->cycle, later_tai_ns);
			gates_of(&gates, &schedule, later_tai_ns - 1);
			picture_check(&gates, picture->cycle, later_tai_ns);
			assert_true(gates.config_change_tai_ns == later_tai_ns);
		}
	}
}

TEST(admin_gate_states_before_base_time)
{
	const struct ktsn_gate_entry entries[] = {{5, 0x01}, {5, 0x02}};
	struct ktsn_schedule schedule = schedule_of(1000, 10, entries, 2);
	struct ktsn_window window;
	struct ktsn_gates gates;
	int64_t start_tai_ns;

	schedule.gate_states = 0x06;
	gates_of(&gates, &schedule, 0);
	assert_int_equal(ktsn_gates_states(&gates, 0), 0x06);
	assert_int_equal(ktsn_gates_states(&gates, 999), 0x06);
	assert_true(ktsn_gates_pending(&gates, 999));
	assert_int_equal(ktsn_gates_states(&gates, 1000), 0x01);
	assert_false(ktsn_gates_pending(&gates, 1000));
	/* Shut until then; open, then shut at the change; open across neither. */
	window = ktsn_gates_window(&gates, 0, 0);
	assert_true(window.open_tai_ns == 1000 && window.close_tai_ns == 1005);
	window = ktsn_gates_window(&gates, 2, 0);
	assert_true(window.close_tai_ns == 1000);
	ktsn_gates_fit(&gates, 1, 0, 1000, &start_tai_ns);
	assert_true(start_tai_ns == 0);
	ktsn_gates_fit(&gates, 1, 0, 1001, &start_tai_ns);
	assert_true(start_tai_ns == KTSN_WINDOW_NEVER);
}

TEST(open_window_continues_across_a_change)
{
	const struct ktsn_gate_entry old_entries[] = {{6, 0}, {4, 1}}, new_entries[] = {{3, 1}, {7, 0}};
	struct ktsn_schedule old_schedule = schedule_of(0, 10, old_entries, 2);
	struct ktsn_schedule new_schedule = schedule_of(50, 10, new_entries, 2);
	struct ktsn_gates before, gates;
	struct ktsn_window window;
	int64_t start_tai_ns;

	gates_of(&before, &old_schedule, 0);
	ktsn_gates_change(&before, &new_schedule, 12, &gates);
	assert_int_equal(gates.config_change_error, 0);
	/* 7 ns fit into neither schedule, but once across the change. */
	window = ktsn_gates_fit(&gates, 0, 12, 7, &start_tai_ns);
	assert_true(start_tai_ns == 46 && window.open_tai_ns == 46 && window.close_tai_ns == 53);
	ktsn_gates_fit(&gates, 0, 47, 7, &start_tai_ns);
	assert_true(start_tai_ns == KTSN_WINDOW_NEVER);
	ktsn_gates_fit(&gates, 0, 12, 8, &start_tai_ns);
	assert_true(start_tai_ns == KTSN_WINDOW_NEVER);
}

TEST(disabled_gates_apply_immediately)
{
	const struct ktsn_gate_entry entries[] = {{5, 0x01}, {5, 0x02}};
	struct ktsn_schedule running = schedule_of(0, 10, entries, 2), disabled;
	struct ktsn_gates before, gates;
	int64_t start_tai_ns;

	ktsn_schedule_init(&disabled);
	disabled.gate_states = 0x80;
	gates_of(&before, &running, 0);
	ktsn_gates_change(&before, &disabled, 1234, &gates);
	assert_int_equal(ktsn_gates_states(&gates, 1234), 0x80);
	assert_int_equal(ktsn_gates_states(&gates, INT64_MAX - 1), 0x80);
	assert_false(ktsn_gates_pending(&gates, 1234));
	assert_true(gates.last_change_tai_ns == 1234);
	ktsn_gates_fit(&gates, 7, 1234, 1000000, &start_tai_ns);
	assert_true(start_tai_ns == 1234);
	ktsn_gates_fit(&gates, 0, 1234, 1, &start_tai_ns);
	assert_true(start_tai_ns == KTSN_WINDOW_NEVER);
}

TEST(closing_classes_of_current_and_pending_lists)
{
	const struct ktsn_gate_entry old_entries[] = {{6, 0xf0}, {4, 0xf1}}, new_entries[] = {{10, 0x7f}};
	struct ktsn_schedule old_schedule = schedule_of(0, 10, old_entries, 2);
	struct ktsn_schedule new_schedule = schedule_of(50, 10, new_entries, 1), disabled;
	struct ktsn_gates none, before, gates;

	ktsn_gates_init(&none);
	assert_int_equal(ktsn_gates_closing(&none, 0), 0);
	gates_of(&before, &old_schedule, 0);
	assert_int_equal(ktsn_gates_closing(&before, 0), 0x0f);
	ktsn_gates_change(&before, &new_schedule, 12, &gates);
	assert_int_equal(ktsn_gates_closing(&gates, 49), 0x8f);
	assert_int_equal(ktsn_gates_closing(&gates, 50), 0x80);
	ktsn_schedule_init(&disabled);
	ktsn_gates_change(&before, &disabled, 12, &gates);
	assert_int_equal(ktsn_gates_closing(&gates, 12), 0);
}

/* ---- requests compared with the state machines ---- */

static void tick_check(const struct ktsn_gates *gates, const struct gate_machines *machines)
{
	int64_t now_tai_ns = machines->current_time;

	assert_int_equal(ktsn_gates_states(gates, now_tai_ns), machines->oper_gate_states);
	assert_int_equal(ktsn_gates_pending(gates, now_tai_ns), machines->config_pending);
	if (machines->config_pending)
		assert_true(gates->config_change_tai_ns == machines->config_change_time);
	assert_int_equal(gates->config_change_error, machines->config_change_error);
}

/* Gates and machines side by side. Each request creates new gates, as in ktsnd. */
struct pair {
	struct gate_simulation simulation;
	struct ktsn_gates *gates;
	struct ktsn_gates *spare;
};

static struct pair *pair_create(int64_t now_tai_ns)
{
	struct pair *pair = malloc(sizeof(*pair));

	assert_non_null(pair);
	pair->gates = malloc(sizeof(*pair->gates));
	pair->spare = malloc(sizeof(*pair->spare));
	assert_non_null(pair->gates);
	assert_non_null(pair->spare);
	gate_simulation_init(&pair->simulation, now_tai_ns);
	ktsn_gates_init(pair->gates);
	return pair;
}

static void pair_destroy(struct pair *pair)
{
	free(pair->gates);
	free(pair->spare);
	free(pair);
}

static void pair_request(struct pair *pair, const struct ktsn_schedule *admin)
{
	struct ktsn_gates *changed = pair->spare;

	gate_simulation_request(&pair->simulation, admin);
	ktsn_gates_change(pair->gates, admin, pair->simulation.machines.current_time, changed);
	pair->spare = pair->gates;
	pair->gates = changed;
	tick_check(pair->gates, &pair->simulation.machines);
}

static void pair_tick(struct pair *pair, int64_t ticks)
{
	for (int64_t i = 0; i < ticks; i++) {
		gate_simulation_tick(&pair->simulation);
		tick_check(pair->gates, &pair->simulation.machines);
	}
}

/* One request at this time after the old base time, with a new base time this far from the request. */
static void request_check(int64_t epoch_tai_ns, uint32_t extension_ns, int64_t new_cycle_ns, int64_t after_ns,
			  int64_t base_after_ns)
{
	const struct ktsn_gate_entry old_entries[] = {{2, 1}, {3, 2}},
				     new_entries[] = {{1, 4}, {3, 8}, {1, 16}};
	struct ktsn_schedule old_schedule = schedule_of(epoch_tai_ns, 6, old_entries, 2);
	struct ktsn_schedule new_schedule =
		schedule_of(epoch_tai_ns + after_ns + base_after_ns, new_cycle_ns, new_entries, 3);
	struct pair *pair = pair_create(epoch_tai_ns);

	old_schedule.cycle_time_extension_ns = extension_ns;
	pair_request(pair, &old_schedule);
	pair_tick(pair, after_ns);
	pair_request(pair, &new_schedule);
	pair_tick(pair, 40);
	pair_destroy(pair);
}

TEST(changes_at_any_tick_match_the_machines)
{
	static const int64_t new_cycles_ns[] = {4, 5, 7};

	for (uint32_t extension_ns = 0; extension_ns < 15; extension_ns++)
		for (size_t c = 0; c < 3; c++)
			for (int64_t after_ns = 0; after_ns < 13; after_ns++)
				for (int64_t base_after_ns = -15; base_after_ns < 30; base_after_ns++)
					request_check(1750000000000000000, extension_ns, new_cycles_ns[c],
						      after_ns, base_after_ns);
}

TEST(past_base_time_counts_while_running)
{
	const struct ktsn_gate_entry entries[] = {{5, 1}, {5, 2}};
	struct ktsn_schedule disabled, schedule = schedule_of(999, 10, entries, 2);
	struct ktsn_gates a, b;

	gates_of(&a, &schedule, 1000);
	assert_int_equal(a.config_change_error, 0);
	assert_true(a.config_change_tai_ns == 1009);
	/* Requested again before it runs, then while it runs; then for now, which is not past. */
	ktsn_gates_change(&a, &schedule, 1005, &b);
	assert_int_equal(b.config_change_error, 0);
	ktsn_gates_change(&b, &schedule, 1010, &a);
	assert_int_equal(a.config_change_error, 1);
	assert_true(a.config_change_tai_ns == 1019);
	schedule.base_time_tai_ns = 1030;
	ktsn_gates_change(&a, &schedule, 1030, &b);
	assert_int_equal(b.config_change_error, 1);
	assert_true(b.config_change_tai_ns == 1030);
	ktsn_schedule_init(&disabled);
	ktsn_gates_change(&b, &disabled, 1040, &a);
	ktsn_gates_change(&a, &schedule, 1050, &b);
	assert_int_equal(b.config_change_error, 1);
	assert_true(b.config_change_tai_ns == 1050);
}

TEST(random_requests_match_the_machines)
{
	struct test_random random = test_random_seeded(__func__);
	uint64_t rounds = test_random_rounds(5000);

	for (uint64_t i = 0; i < rounds; i++) {
		int64_t now_tai_ns = (int64_t)test_random_below(
			&random, test_random_below(&random, 3) ? KTSN_BASE_TIME_MAX_NS : 1000);
		struct pair *pair = pair_create(now_tai_ns);

		for (int request = 0; request < 6; request++) {
			struct ktsn_schedule schedule =
				gate_schedule_random(&random, pair->simulation.machines.current_time);

			pair_request(pair, &schedule);
			windows_check(pair->gates, &pair->simulation, &random, 8);
			pair_tick(pair, (int64_t)test_random_below(&random, 200));
			windows_check(pair->gates, &pair->simulation, &random, 8);
		}
		pair_destroy(pair);
	}
}
