/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes which gates are open at any time in the past or future, from the operational schedule and the
 * administrative one that will replace it. The Cycle Timer, List Execute and List Config state machines of
 * IEEE Std 802.1Q-2022 clause 8.6.9 advance from tick to tick; here their result is computed directly for any
 * time.
 *
 *   operational schedule          | last cycle extended | administrative schedule
 *   --------+----------+----------+---------------------+----------------+--------> time
 *        cycle      cycle     hold_from           config_change    one cycle later
 *
 * Without a pending change, the operational schedule continues for ever. hold_from equals config_change
 * unless the last cycle is extended (cycle-time-extension): then the rest of a list that the cycle cuts is
 * executed, and its last states are held.
 *
 * Gates are immutable: a change fills in a new object (ktsn_gates_change), so that one thread may use the old
 * one while another prepares the next. Pure functions without memory of their own.
 */
#ifndef KTSN_SHAPER_GATES_H
#define KTSN_SHAPER_GATES_H

#include "windows.h"

struct ktsn_gates {
	struct ktsn_schedule oper;
	struct ktsn_schedule admin;
	struct ktsn_windows oper_windows;
	struct ktsn_windows admin_windows; /* while a change is pending */
	int64_t hold_from_tai_ns;          /* KTSN_WINDOW_NEVER without a change */
	int64_t config_change_tai_ns;      /* KTSN_WINDOW_NEVER without a change */
	int64_t last_change_tai_ns;        /* config-change-time without a pending change; 0: never changed */
	uint64_t config_change_error;      /* changes of a running schedule to a base time in the past */
};

/* Gates not enabled, all open. */
void ktsn_gates_init(struct ktsn_gates *gates);

/*
 * Computes `changed`, the gates after a request at `now` for `admin`, a schedule that was checked. A pending
 * change is replaced, as if it had not been requested. `changed` must be another object. `admin` takes effect
 * at its base time, or if that is in the past, at the beginning of its next cycle (clause 8.6.9.3.1). A
 * schedule without enabled gates takes effect at once.
 */
void ktsn_gates_change(const struct ktsn_gates *gates, const struct ktsn_schedule *admin, int64_t now_tai_ns,
		       struct ktsn_gates *changed);

/* Computes the windows of gates whose schedules, times and counter come from another ktsnd. */
void ktsn_gates_rebuild(struct ktsn_gates *gates);

/* Whether a change is pending at `now`. */
bool ktsn_gates_pending(const struct ktsn_gates *gates, int64_t now_tai_ns);

/* Returns the schedule in effect at `now`. */
const struct ktsn_schedule *ktsn_gates_oper(const struct ktsn_gates *gates, int64_t now_tai_ns);

/* Returns oper-gate-states at `now`. */
uint8_t ktsn_gates_states(const struct ktsn_gates *gates, int64_t now_tai_ns);

/* Returns the classes whose gate is closed at `now` or at some later time, by the schedule in effect or the
 * pending one: bit c is class c. */
uint8_t ktsn_gates_closing(const struct ktsn_gates *gates, int64_t now_tai_ns);

/* Returns the first window of a class that closes after `tai_ns`, across a change if it stays open. The
 * opening time is exact unless the gate was open at the change. */
struct ktsn_window ktsn_gates_window(const struct ktsn_gates *gates, unsigned int class, int64_t tai_ns);

/*
 * Returns the first window of a class, at `tai_ns` or later, with room for duration_ns; *start_tai_ns is
 * where the room begins. Both edges are KTSN_WINDOW_NEVER when no window is ever long enough.
 */
struct ktsn_window ktsn_gates_fit(const struct ktsn_gates *gates, unsigned int class, int64_t tai_ns,
				  int64_t duration_ns, int64_t *start_tai_ns);

#endif
