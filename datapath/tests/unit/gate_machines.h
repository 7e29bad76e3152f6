/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state machines of scheduled traffic in IEEE Std 802.1Q-2022 clause 8.6.9 (Cycle Timer, List Execute,
 * List Config), executed tick by tick; tests compare the arithmetic of shaper/gates.c with them. Names are
 * those of the standard. A tick is a nanosecond.
 *
 * Choices where the standard leaves room:
 *   - Within a tick the machines act before a request. A cycle that begins in the tick of the request does
 * not take the request into account.
 *   - The successor of a cycle is decided when the cycle begins, at its CycleStartTime.
 *   - A request while another is pending replaces it as if the first had not been made. (Taken literally,
 *     CycleStartTime would stay at the former ConfigChangeTime, and the old list would run once from there,
 * out of phase with its base time.)
 *   - Disabling gates discards the operational list. (Taken literally, it would be executed again when gates
 * are enabled, until the new one.)
 */
#ifndef KTSN_TEST_GATE_MACHINES_H
#define KTSN_TEST_GATE_MACHINES_H

#include "schedule.h"
#include "test_random.h"

struct gate_machines {
	int64_t current_time;
	bool gate_enabled;
	bool config_change;
	struct ktsn_schedule admin;
	struct ktsn_schedule
		oper; /* list, base time, cycle time and cycle time extension of the operational schedule */
	uint32_t oper_control_list_length;

	enum { CYCLE_IDLE, SET_CYCLE_START_TIME, START_CYCLE } cycle_timer;
	int64_t cycle_start_time;
	bool cycle_start;
	bool new_config_ct;

	enum { INIT, NEW_CYCLE, EXECUTE_CYCLE, DELAY, END_OF_CYCLE } list_execute;
	uint32_t list_pointer;
	int64_t exit_timer;
	uint8_t oper_gate_states;

	enum { CONFIG_IDLE, CONFIG_PENDING, UPDATE_CONFIG } list_config;
	bool config_pending;
	int64_t config_change_time;
	uint64_t config_change_error;
};

/* The machines, and their state if the pending request had not been made. */
struct gate_simulation {
	struct gate_machines machines;
	struct gate_machines without;
};

/* Initialises the machines at `current_time`: gates are not enabled, all are open. */
void gate_simulation_init(struct gate_simulation *simulation, int64_t current_time);

/* Writes the administrative values and sets ConfigChange. */
void gate_simulation_request(struct gate_simulation *simulation, const struct ktsn_schedule *admin);

/* Advances by one nanosecond. */
void gate_simulation_tick(struct gate_simulation *simulation);

/* Returns the gate states of this and the following ticks if no other request is made. */
void gate_simulation_foretell(const struct gate_simulation *simulation, uint8_t *states, uint32_t ticks);

/* Returns a random schedule. Cycles last up to GATE_CYCLE_MAX_NS and may be shorter or longer than their
 * list. The base time is at most GATE_BASE_AHEAD_NS after `now`, or at any time; then all gates are open
 * forever. */
enum { GATE_CYCLE_MAX_NS = 128, GATE_BASE_AHEAD_NS = 150 };
struct ktsn_schedule gate_schedule_random(struct test_random *random, int64_t now);

#endif
