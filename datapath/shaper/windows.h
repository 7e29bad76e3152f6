/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The windows of each class in which the gates of one schedule are open; its list is repeated for ever.
 * Private to this folder.
 *
 *   gate-states-value   |   80   |  80   |  60  |  1f   |   80   | ...
 *   class 7             |<-- one window ->|             |<-- ...         contiguous open entries are one
 *   ----------------+---+--------+-------+------+-------+--------+---> time
 *               base + N*cycle                        base + (N+1)*cycle
 *
 * A window that is open at the end and at the beginning of a cycle crosses the boundary. A gate that is never
 * closed has one window without beginning and end.
 */
#ifndef KTSN_SHAPER_WINDOWS_H
#define KTSN_SHAPER_WINDOWS_H

#include "schedule.h"

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

/* Fills in windows of gates that stay in `gate_states`. */
void ktsn_windows_hold(struct ktsn_windows *windows, uint8_t gate_states);

/* Computes the windows of a schedule that was checked and has its gates enabled. */
void ktsn_windows_compile(struct ktsn_windows *windows, const struct ktsn_schedule *schedule);

/* Returns the first window of a class that closes after `tai_ns`. O(log n) of the windows in a cycle. */
struct ktsn_window ktsn_windows_find(const struct ktsn_windows *windows, unsigned int class, int64_t tai_ns);

/* Returns the beginning of the cycle that contains `tai_ns`, which may be before the base time. */
int64_t ktsn_cycle_start(int64_t base_time_tai_ns, int64_t cycle_time_ns, int64_t tai_ns);

#endif
