/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which gates are open at any time, past and to come: the operational schedule, and the administrative one
 * that will take its place. IEEE Std 802.1Q-2022 clause 8.6.9: what its Cycle Timer, List Execute and List
 * Config state machines do from tick to tick is computed here for any moment at once.
 *
 *   operational schedule          | last cycle extended | administrative schedule
 *   --------+----------+----------+---------------------+----------------+--------> time
 *        cycle      cycle     hold_from           config_change    one cycle later
 *
 * Without a change pending, the operational schedule goes on for ever. hold_from is config_change unless the
 * last cycle is extended (cycle-time-extension): then the rest of its list, if the cycle cuts it, is
 * executed, and its last states are held.
 *
 * Immutable once made: a change makes a new one (ktsn_gates_change), so that a thread may use the one it has
 * while another prepares the next. Pure functions, no memory of their own.
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
	int64_t last_change_tai_ns;        /* config-change-time when none is pending; 0: never changed */
	uint64_t config_change_error;      /* changes of a running schedule to a base time that was past */
};

/* Gates not enabled, all open. */
void ktsn_gates_init(struct ktsn_gates *gates);

/*
 * What `gates` becomes when `admin`, a schedule that was checked, is asked for at `now`; a change that was
 * pending is replaced, as if it had not been asked for. `changed` must be another object. Base time and cycle
 * of `admin` say when (clause 8.6.9.3.1): at its base time, or if that is past, at the first beginning of one
 * of its cycles that is not. A schedule with gates not enabled takes effect at once.
 */
void ktsn_gates_change(const struct ktsn_gates *gates, const struct ktsn_schedule *admin, int64_t now_tai_ns,
		       struct ktsn_gates *changed);

/* Rebuilds gates from what they were made of elsewhere: schedules, times and counter are set, windows follow.
 */
void ktsn_gates_rebuild(struct ktsn_gates *gates);

/* Whether a change is still to come at `now`. */
bool ktsn_gates_pending(const struct ktsn_gates *gates, int64_t now_tai_ns);

/* The schedule in effect at `now`. */
const struct ktsn_schedule *ktsn_gates_oper(const struct ktsn_gates *gates, int64_t now_tai_ns);

/* oper-gate-states at `now`. */
uint8_t ktsn_gates_states(const struct ktsn_gates *gates, int64_t now_tai_ns);

/* The classes whose gate is closed at `now` or later, by the schedule in effect or by the one that is
 * pending: bit c is class c. */
uint8_t ktsn_gates_closing(const struct ktsn_gates *gates, int64_t now_tai_ns);

/* The first window of a class that closes after `tai_ns`, across a change if it stays open. Where it opened
 * is exact unless it was open at the change. */
struct ktsn_window ktsn_gates_window(const struct ktsn_gates *gates, unsigned int class, int64_t tai_ns);

/*
 * The first window of a class, at `tai_ns` or later, with room for duration_ns; *start_tai_ns is where in it
 * the room begins. KTSN_WINDOW_NEVER for both of its edges when no window will ever do.
 */
struct ktsn_window ktsn_gates_fit(const struct ktsn_gates *gates, unsigned int class, int64_t tai_ns,
				  int64_t duration_ns, int64_t *start_tai_ns);

#endif
