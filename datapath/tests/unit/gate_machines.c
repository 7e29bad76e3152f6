/* SPDX-License-Identifier: Apache-2.0 */
#include "gate_machines.h"

/* Returns base + N * cycle for the smallest N whose result is not before `from`. */
static int64_t not_before(int64_t base_time, int64_t cycle_time, int64_t from)
{
	int64_t n = (from - base_time + cycle_time - 1) / cycle_time;

	return base_time >= from ? base_time : base_time + n * cycle_time;
}

/* IEEE Std 802.1Q-2022 8.6.9.1.1. `from` is CurrentTime, or the next tick if a cycle has just begun. */
static void set_cycle_start_time(struct gate_machines *m, int64_t from)
{
	int64_t latest = m->current_time + m->oper.cycle_time_ns + m->oper.cycle_time_extension_ns;

	if (m->config_pending && m->config_change_time <= latest)
		m->cycle_start_time = m->config_change_time;
	else
		m->cycle_start_time = not_before(m->oper.base_time_tai_ns, m->oper.cycle_time_ns, from);
}

/* 8.6.9.1. Like the other two machines, returns true when a transition was made. */
static bool cycle_timer_step(struct gate_machines *m)
{
	if (m->new_config_ct) {
		m->cycle_start = m->new_config_ct = false;
		m->cycle_timer = SET_CYCLE_START_TIME;
		set_cycle_start_time(m, m->current_time);
		return true;
	}
	if (m->cycle_timer == SET_CYCLE_START_TIME && m->cycle_start_time <= m->current_time) {
		m->cycle_timer = START_CYCLE;
		m->cycle_start = true;
		return true;
	}
	if (m->cycle_timer == START_CYCLE) {
		m->cycle_timer = SET_CYCLE_START_TIME;
		set_cycle_start_time(m, m->current_time + 1);
		return true;
	}
	return false;
}

/* 8.6.9.2.1 */
static void execute_operation(struct gate_machines *m)
{
	m->oper_gate_states = m->oper.entries[m->list_pointer].gate_states;
	m->exit_timer = m->oper.entries[m->list_pointer].interval_ns;
	m->list_pointer++;
}

/* 8.6.9.2 */
static bool list_execute_step(struct gate_machines *m)
{
	if (m->cycle_start) {
		m->cycle_start = false;
		m->list_execute = NEW_CYCLE;
		m->list_pointer = 0;
		return true;
	}
	switch (m->list_execute) {
	case NEW_CYCLE:
		m->list_execute = EXECUTE_CYCLE;
		execute_operation(m);
		return true;
	case EXECUTE_CYCLE:
		m->list_execute = m->list_pointer < m->oper_control_list_length ? DELAY : END_OF_CYCLE;
		return true;
	case DELAY:
		if (m->exit_timer > 0)
			return false;
		m->list_execute = EXECUTE_CYCLE;
		execute_operation(m);
		return true;
	case INIT:
	case END_OF_CYCLE:
		break;
	}
	return false;
}

/* 8.6.9.3.1 */
static void set_config_change_time(struct gate_machines *m)
{
	bool running = m->oper_control_list_length > 0;

	if (m->admin.base_time_tai_ns < m->current_time && running)
		m->config_change_error++;
	m->config_change_time =
		not_before(m->admin.base_time_tai_ns, m->admin.cycle_time_ns, m->current_time);
}

/* 8.6.9.3 */
static bool list_config_step(struct gate_machines *m)
{
	if (m->gate_enabled && m->config_change) {
		m->config_change = false;
		m->list_config = CONFIG_PENDING;
		set_config_change_time(m);
		m->config_pending = true;
		return true;
	}
	if (m->list_config == CONFIG_PENDING && m->config_change_time <= m->current_time) {
		m->list_config = UPDATE_CONFIG;
		m->oper = m->admin;
		m->oper_control_list_length = m->admin.entry_count;
		m->config_pending = false;
		m->new_config_ct = true;
		return true;
	}
	return false;
}

static void machines_run(struct gate_machines *m)
{
	while (list_config_step(m) || cycle_timer_step(m) || list_execute_step(m))
		;
}

/* Resets all three machines, as BEGIN or a cleared GateEnabled does. */
static void machines_begin(struct gate_machines *m)
{
	m->cycle_timer = CYCLE_IDLE;
	m->cycle_start = m->new_config_ct = false;
	m->list_execute = INIT;
	m->list_pointer = 0;
	m->exit_timer = 0;
	m->oper_gate_states = m->admin.gate_states;
	m->list_config = CONFIG_IDLE;
	m->config_pending = m->config_change = false;
	m->oper_control_list_length = 0;
}

static void machines_request(struct gate_machines *m, const struct ktsn_schedule *admin)
{
	m->admin = *admin;
	m->gate_enabled = admin->gate_enabled;
	if (!m->gate_enabled || m->oper_control_list_length == 0)
		machines_begin(m);
	m->config_change = m->gate_enabled;
	machines_run(m);
}

static void machines_tick(struct gate_machines *m)
{
	m->current_time++;
	if (m->exit_timer > 0)
		m->exit_timer--;
	machines_run(m);
}

void gate_simulation_init(struct gate_simulation *simulation, int64_t current_time)
{
	*simulation = (struct gate_simulation){0};
	simulation->machines.current_time = current_time;
	simulation->machines.admin.gate_states = 0xff;
	machines_begin(&simulation->machines);
}

void gate_simulation_request(struct gate_simulation *simulation, const struct ktsn_schedule *admin)
{
	uint64_t errors = simulation->machines.config_change_error;

	if (simulation->machines.config_pending)
		simulation->machines = simulation->without;
	else
		simulation->without = simulation->machines;
	simulation->machines.config_change_error = errors;
	machines_request(&simulation->machines, admin);
}

void gate_simulation_tick(struct gate_simulation *simulation)
{
	if (simulation->machines.config_pending)
		machines_tick(&simulation->without);
	machines_tick(&simulation->machines);
}

void gate_simulation_foretell(const struct gate_simulation *simulation, uint8_t *states, uint32_t ticks)
{
	struct gate_machines machines = simulation->machines;

	for (uint32_t i = 0; i < ticks; i++) {
		states[i] = machines.oper_gate_states;
		machines_tick(&machines);
	}
}

static void random_list(struct test_random *random, struct ktsn_schedule *schedule)
{
	int64_t sum_ns = 0;

	schedule->entry_count =
		1 + (uint32_t)test_random_below(random, test_random_below(random, 2) ? 3 : 12);
	for (uint32_t i = 0; i < schedule->entry_count; i++) {
		schedule->entries[i].interval_ns = 1 + (uint32_t)test_random_below(random, 9);
		schedule->entries[i].gate_states =
			(uint8_t)(test_random_next(random) | (test_random_next(random) & 0x55));
		sum_ns += schedule->entries[i].interval_ns;
	}
	schedule->cycle_time_ns = test_random_below(random, 3) == 0
					  ? sum_ns
					  : 1 + (int64_t)test_random_below(random, (uint64_t)sum_ns + 20);
}

static int64_t random_base_time(struct test_random *random, int64_t now)
{
	int64_t base_time = now - 100 + (int64_t)test_random_below(random, 100 + GATE_BASE_AHEAD_NS);

	if (test_random_below(random, 8) == 0)
		base_time = (int64_t)test_random_below(random, KTSN_BASE_TIME_MAX_NS);
	return base_time < 0 ? 0 : base_time;
}

struct ktsn_schedule gate_schedule_random(struct test_random *random, int64_t now)
{
	struct ktsn_schedule schedule;

	ktsn_schedule_init(&schedule);
	schedule.gate_enabled = test_random_below(random, 8) > 0;
	schedule.gate_states = (uint8_t)test_random_next(random);
	random_list(random, &schedule);
	schedule.cycle_time_extension_ns = (uint32_t)test_random_below(random, 60);
	schedule.base_time_tai_ns = random_base_time(random, now);
	for (uint32_t i = 0; i < schedule.entry_count; i++)
		if (schedule.base_time_tai_ns > now + GATE_BASE_AHEAD_NS)
			schedule.entries[i].gate_states = 0xff;
	return schedule;
}
