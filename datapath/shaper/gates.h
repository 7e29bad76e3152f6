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

#include "schedule.h"

/*
 * The windows of each class in which the gates of one schedule are open; its list is repeated for ever.
 *
 *   gate-states-value   |   80   |  80   |  60  |  1f   |   80   | ...
 *   class 7             |<-- one window ->|             |<-- ...         contiguous open entries are one
 *   ----------------+---+--------+-------+------+-------+--------+---> time
 *               base + N*cycle                        base + (N+1)*cycle
 *
 * A window that is open at the end and at the beginning of a cycle crosses the boundary. A gate that is never
 * closed has one window without beginning and end.
 */

/* Later and earlier than all times. */
#define KTSN_WINDOW_NEVER INT64_MAX
#define KTSN_WINDOW_EVER  INT64_MIN

/* The times from `open` until before `close`. Both are KTSN_WINDOW_NEVER when there is no window. */
struct ktsn_window {
	int64_t open_tai_ns;
	int64_t close_tai_ns;
};

/* Open entries are separated by closed ones, so there are at most half as many windows as entries. */
enum { KTSN_WINDOWS_MAX = KTSN_SCHEDULE_ENTRIES_MAX / 2 + 1 };

/* The windows of a class that begin within a cycle, in order, relative to its beginning. The last may close
 * in the next cycle. */
struct ktsn_class_windows {
	uint32_t count;
	int64_t longest_ns; /* KTSN_WINDOW_NEVER: the gate is never closed */
	struct {
		int64_t open_ns;
		int64_t close_ns;
	} windows[KTSN_WINDOWS_MAX];
};

struct ktsn_windows {
	int64_t base_time_tai_ns;
	int64_t cycle_time_ns; /* 0: the gates never change */
	uint8_t last_states;   /* at the end of the cycle */
	struct ktsn_class_windows classes[KTSN_CLASSES];
};

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
