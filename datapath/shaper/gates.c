/* SPDX-License-Identifier: Apache-2.0 */
#include "gates.h"

#include <string.h>

/* ---- windows ---- */

static const struct ktsn_window none = {KTSN_WINDOW_NEVER, KTSN_WINDOW_NEVER};

/* Fills in windows of gates that stay in `gate_states`. */
static void windows_hold(struct ktsn_windows *windows, uint8_t gate_states)
{
	windows->base_time_tai_ns = 0;
	windows->cycle_time_ns = 0;
	windows->last_states = gate_states;
	for (unsigned int class = 0; class < KTSN_CLASSES; class ++) {
		windows->classes[class].count = 0;
		windows->classes[class].longest_ns = gate_states >> class & 1 ? KTSN_WINDOW_NEVER : 0;
	}
}

/* Appends [open, close) to a class, or to its last window when that closes where this opens. */
static void window_append(struct ktsn_class_windows *class, int64_t open_ns, int64_t close_ns)
{
	if (class->count > 0 && class->windows[class->count - 1].close_ns == open_ns) {
		class->windows[class->count - 1].close_ns = close_ns;
		return;
	}
	class->windows[class->count].open_ns = open_ns;
	class->windows[class->count].close_ns = close_ns;
	class->count++;
}

/* Joins a window at the end of the cycle with that at its beginning. */
static void boundary_join(struct ktsn_class_windows *class, int64_t cycle_time_ns)
{
	uint32_t last = class->count - 1;

	if (class->count == 0 || class->windows[0].open_ns != 0 ||
	    class->windows[last].close_ns != cycle_time_ns)
		return;
	if (last == 0) {
		class->longest_ns = KTSN_WINDOW_NEVER;
		class->count = 0;
		return;
	}
	class->windows[last].close_ns += class->windows[0].close_ns;
	memmove(&class->windows[0], &class->windows[1], last * sizeof(class->windows[0]));
	class->count--;
}

static void longest_find(struct ktsn_class_windows *class)
{
	for (uint32_t i = 0; i < class->count; i++) {
		int64_t length_ns = class->windows[i].close_ns - class->windows[i].open_ns;

		if (length_ns > class->longest_ns)
			class->longest_ns = length_ns;
	}
}

/* Adds the windows of one entry, up to the end of the cycle. Returns the end of the entry. */
static int64_t entry_compile(struct ktsn_windows *windows, uint8_t gate_states, int64_t begin_ns,
			     int64_t end_ns)
{
	if (end_ns > windows->cycle_time_ns)
		end_ns = windows->cycle_time_ns;
	if (end_ns == begin_ns)
		return end_ns;
	windows->last_states = gate_states;
	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		if (gate_states >> class & 1)
			window_append(&windows->classes[class], begin_ns, end_ns);
	return end_ns;
}

/* Computes the windows of a schedule that was checked and has its gates enabled. */
static void windows_compile(struct ktsn_windows *windows, const struct ktsn_schedule *schedule)
{
	int64_t at_ns = 0;

	windows->base_time_tai_ns = schedule->base_time_tai_ns;
	windows->cycle_time_ns = schedule->cycle_time_ns;
	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		windows->classes[class].count = windows->classes[class].longest_ns = 0;
	for (uint32_t i = 0; i < schedule->entry_count; i++)
		at_ns = entry_compile(windows, schedule->entries[i].gate_states, at_ns,
				      at_ns + schedule->entries[i].interval_ns);
	/* If the list ends before the cycle, the last states are held. */
	entry_compile(windows, windows->last_states, at_ns, schedule->cycle_time_ns);
	for (unsigned int class = 0; class < KTSN_CLASSES; class ++) {
		boundary_join(&windows->classes[class], schedule->cycle_time_ns);
		longest_find(&windows->classes[class]);
	}
}

/* Returns the beginning of the cycle that contains `tai_ns`, which may be before the base time. */
static int64_t cycle_start(int64_t base_time_tai_ns, int64_t cycle_time_ns, int64_t tai_ns)
{
	int64_t phase_ns = (tai_ns - base_time_tai_ns) % cycle_time_ns;

	return tai_ns - (phase_ns < 0 ? phase_ns + cycle_time_ns : phase_ns);
}

/* Returns the first window that closes after phase_ns, or `count`. */
static uint32_t closing_after(const struct ktsn_class_windows *class, int64_t phase_ns)
{
	uint32_t low = 0, high = class->count;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (class->windows[middle].close_ns > phase_ns)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Finds the window of a gate that opens and closes. */
static struct ktsn_window window_in_cycles(const struct ktsn_windows *windows,
					   const struct ktsn_class_windows *class, int64_t tai_ns)
{
	int64_t cycle_ns = windows->cycle_time_ns;
	int64_t start_tai_ns = cycle_start(windows->base_time_tai_ns, cycle_ns, tai_ns);
	uint32_t i = class->count - 1;

	/* It is the last window of the previous cycle, if that reaches into this cycle; or one of this cycle;
	 * or the first one of the next. */
	if (class->windows[i].close_ns - cycle_ns > tai_ns - start_tai_ns) {
		start_tai_ns -= cycle_ns;
	} else {
		i = closing_after(class, tai_ns - start_tai_ns);
		if (i == class->count) {
			i = 0;
			start_tai_ns += cycle_ns;
		}
	}
	return (struct ktsn_window){start_tai_ns + class->windows[i].open_ns,
				    start_tai_ns + class->windows[i].close_ns};
}

/* Returns the first window of a class that closes after `tai_ns`. O(log n) of the windows in a cycle. */
static struct ktsn_window windows_find(const struct ktsn_windows *windows, unsigned int class, int64_t tai_ns)
{
	const struct ktsn_class_windows *class_windows = &windows->classes[class];

	if (class_windows->longest_ns == KTSN_WINDOW_NEVER)
		return (struct ktsn_window){KTSN_WINDOW_EVER, KTSN_WINDOW_NEVER};
	if (class_windows->count == 0)
		return none;
	return window_in_cycles(windows, class_windows, tai_ns);
}

/* ---- gates ---- */

void ktsn_gates_init(struct ktsn_gates *gates)
{
	ktsn_schedule_init(&gates->oper);
	gates->admin = gates->oper;
	windows_hold(&gates->oper_windows, gates->oper.gate_states);
	gates->hold_from_tai_ns = gates->config_change_tai_ns = KTSN_WINDOW_NEVER;
	gates->last_change_tai_ns = 0;
	gates->config_change_error = 0;
}

bool ktsn_gates_pending(const struct ktsn_gates *gates, int64_t now_tai_ns)
{
	return gates->config_change_tai_ns != KTSN_WINDOW_NEVER && now_tai_ns < gates->config_change_tai_ns;
}

static bool changed_before(const struct ktsn_gates *gates, int64_t tai_ns)
{
	return gates->config_change_tai_ns <= tai_ns;
}

const struct ktsn_schedule *ktsn_gates_oper(const struct ktsn_gates *gates, int64_t now_tai_ns)
{
	return changed_before(gates, now_tai_ns) ? &gates->admin : &gates->oper;
}

static uint8_t windows_closing(const struct ktsn_windows *windows)
{
	uint8_t closing = 0;

	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		if (windows->classes[class].longest_ns != KTSN_WINDOW_NEVER)
			closing |= (uint8_t)(1U << class);
	return closing;
}

uint8_t ktsn_gates_closing(const struct ktsn_gates *gates, int64_t now_tai_ns)
{
	uint8_t closing = changed_before(gates, now_tai_ns) ? 0 : windows_closing(&gates->oper_windows);

	if (gates->config_change_tai_ns != KTSN_WINDOW_NEVER)
		closing |= windows_closing(&gates->admin_windows);
	return closing;
}

/* Copies the gates as they are from `now` on, without past states and without a pending change. */
static void operational_copy(const struct ktsn_gates *gates, int64_t now_tai_ns, struct ktsn_gates *copy)
{
	bool changed = changed_before(gates, now_tai_ns);

	copy->oper = changed ? gates->admin : gates->oper;
	copy->oper_windows = changed ? gates->admin_windows : gates->oper_windows;
	copy->last_change_tai_ns = changed ? gates->config_change_tai_ns : gates->last_change_tai_ns;
	copy->config_change_error = gates->config_change_error;
	copy->hold_from_tai_ns = copy->config_change_tai_ns = KTSN_WINDOW_NEVER;
}

/* Clause 8.6.9.3.1, SetConfigChangeTime(): returns base-time + N * cycle-time, with the smallest N that is
 * not in the past. */
static int64_t change_time(const struct ktsn_schedule *admin, int64_t now_tai_ns)
{
	int64_t start_tai_ns;

	if (admin->base_time_tai_ns >= now_tai_ns)
		return admin->base_time_tai_ns;
	start_tai_ns = cycle_start(admin->base_time_tai_ns, admin->cycle_time_ns, now_tai_ns);
	return start_tai_ns == now_tai_ns ? now_tai_ns : start_tai_ns + admin->cycle_time_ns;
}

/*
 * Clause 8.6.9.1.1, SetCycleStartTime(): a cycle that begins after the change is known is extended until the
 * change, if less than cycle-time-extension would be left after it. The cycle in which the change is
 * requested was set up before and can only be cut short.
 */
static int64_t hold_time(const struct ktsn_gates *gates, int64_t now_tai_ns)
{
	int64_t change_tai_ns = gates->config_change_tai_ns;
	int64_t cycle_ns = gates->oper.cycle_time_ns;
	int64_t next_tai_ns, last_start_tai_ns;

	if (!gates->oper.gate_enabled)
		return change_tai_ns;
	next_tai_ns = cycle_start(gates->oper.base_time_tai_ns, cycle_ns, now_tai_ns) + cycle_ns;
	if (change_tai_ns <= next_tai_ns)
		return change_tai_ns;
	/* The first cycle whose end is at most the extension before the change. */
	last_start_tai_ns = change_tai_ns - cycle_ns - gates->oper.cycle_time_extension_ns;
	if (last_start_tai_ns <= next_tai_ns)
		last_start_tai_ns = next_tai_ns;
	else if (cycle_start(next_tai_ns, cycle_ns, last_start_tai_ns) != last_start_tai_ns)
		last_start_tai_ns = cycle_start(next_tai_ns, cycle_ns, last_start_tai_ns) + cycle_ns;
	return last_start_tai_ns + cycle_ns < change_tai_ns ? last_start_tai_ns + cycle_ns : change_tai_ns;
}

/* Applies a schedule without enabled gates at once, because it has no start time. */
static void hold_at_once(struct ktsn_gates *gates, int64_t now_tai_ns)
{
	gates->oper = gates->admin;
	windows_hold(&gates->oper_windows, gates->admin.gate_states);
	gates->last_change_tai_ns = now_tai_ns;
}

void ktsn_gates_change(const struct ktsn_gates *gates, const struct ktsn_schedule *admin, int64_t now_tai_ns,
		       struct ktsn_gates *changed)
{
	operational_copy(gates, now_tai_ns, changed);
	changed->admin = *admin;
	if (!admin->gate_enabled) {
		hold_at_once(changed, now_tai_ns);
		return;
	}
	if (changed->oper.gate_enabled) {
		changed->config_change_error += admin->base_time_tai_ns < now_tai_ns;
	} else {
		/* Clause 8.6.9.2: until the first cycle the gates have admin-gate-states. */
		changed->oper.gate_states = admin->gate_states;
		windows_hold(&changed->oper_windows, admin->gate_states);
	}
	windows_compile(&changed->admin_windows, admin);
	changed->config_change_tai_ns = change_time(admin, now_tai_ns);
	changed->hold_from_tai_ns = hold_time(changed, now_tai_ns);
}

static void windows_rebuild(struct ktsn_windows *windows, const struct ktsn_schedule *schedule)
{
	if (schedule->gate_enabled)
		windows_compile(windows, schedule);
	else
		windows_hold(windows, schedule->gate_states);
}

void ktsn_gates_rebuild(struct ktsn_gates *gates)
{
	windows_rebuild(&gates->oper_windows, &gates->oper);
	if (gates->config_change_tai_ns != KTSN_WINDOW_NEVER)
		windows_rebuild(&gates->admin_windows, &gates->admin);
}

/* The three parts of time, in order (see the picture in gates.h). */
enum part { PART_OPER, PART_HOLD, PART_ADMIN, PARTS };

static enum part part_at(const struct ktsn_gates *gates, int64_t tai_ns)
{
	if (tai_ns < gates->hold_from_tai_ns)
		return PART_OPER;
	return tai_ns < gates->config_change_tai_ns ? PART_HOLD : PART_ADMIN;
}

static int64_t part_begin(const struct ktsn_gates *gates, enum part part)
{
	if (part == PART_OPER)
		return KTSN_WINDOW_EVER;
	return part == PART_HOLD ? gates->hold_from_tai_ns : gates->config_change_tai_ns;
}

static int64_t part_end(const struct ktsn_gates *gates, enum part part)
{
	return part == PART_ADMIN ? KTSN_WINDOW_NEVER : part_begin(gates, part + 1);
}

/*
 * Returns the first window of the extension that closes after `tai_ns`. No CycleStart ends the list there: it
 * continues past the end of the cycle, and after its end the last states are held (clause 8.6.9.2).
 */
static struct ktsn_window hold_window(const struct ktsn_gates *gates, unsigned int class, int64_t tai_ns)
{
	const struct ktsn_schedule *oper = &gates->oper;
	int64_t begin_tai_ns = gates->hold_from_tai_ns - oper->cycle_time_ns, end_tai_ns;
	struct ktsn_window window = none;

	for (uint32_t i = 0; i < oper->entry_count; i++, begin_tai_ns = end_tai_ns) {
		bool open = oper->entries[i].gate_states >> class & 1;
		bool last = i + 1 == oper->entry_count;

		end_tai_ns = last ? gates->config_change_tai_ns : begin_tai_ns + oper->entries[i].interval_ns;
		if (!open && window.open_tai_ns != KTSN_WINDOW_NEVER && window.close_tai_ns > tai_ns)
			break;
		if (!open)
			window = none;
		else if (window.open_tai_ns == KTSN_WINDOW_NEVER)
			window = (struct ktsn_window){begin_tai_ns, end_tai_ns};
		else
			window.close_tai_ns = end_tai_ns;
	}
	return window.close_tai_ns > tai_ns ? window : none;
}

/* Returns the first window of a part that closes after `tai_ns`, which is in the part. */
static struct ktsn_window part_window(const struct ktsn_gates *gates, enum part part, unsigned int class,
				      int64_t tai_ns)
{
	struct ktsn_window window;
	int64_t begin_tai_ns = part_begin(gates, part), end_tai_ns = part_end(gates, part);

	if (part == PART_HOLD)
		window = hold_window(gates, class, tai_ns);
	else
		window = windows_find(part == PART_OPER ? &gates->oper_windows : &gates->admin_windows, class,
				      tai_ns);
	if (window.open_tai_ns >= end_tai_ns)
		return none;
	if (window.open_tai_ns < begin_tai_ns)
		window.open_tai_ns = begin_tai_ns;
	if (window.close_tai_ns > end_tai_ns)
		window.close_tai_ns = end_tai_ns;
	return window;
}

struct ktsn_window ktsn_gates_window(const struct ktsn_gates *gates, unsigned int class, int64_t tai_ns)
{
	enum part part = part_at(gates, tai_ns);
	struct ktsn_window window = part_window(gates, part, class, tai_ns);

	while (window.open_tai_ns == KTSN_WINDOW_NEVER && part < PART_ADMIN) {
		part++;
		if (part_begin(gates, part) == part_end(gates, part) && part < PART_ADMIN)
			part++;
		if (part_begin(gates, part) == KTSN_WINDOW_NEVER)
			return none;
		window = part_window(gates, part, class, part_begin(gates, part));
	}
	/* A window that is open at the end of its part continues if the gate is open at the beginning of the
	 * next. */
	while (window.open_tai_ns != KTSN_WINDOW_NEVER && part < PART_ADMIN &&
	       window.close_tai_ns == part_end(gates, part)) {
		struct ktsn_window next;

		part++;
		if (part_begin(gates, part) == part_end(gates, part))
			continue;
		next = part_window(gates, part, class, part_begin(gates, part));
		if (next.open_tai_ns > window.close_tai_ns)
			break;
		window.close_tai_ns = next.close_tai_ns;
	}
	return window;
}

/* Returns where to begin the search. If no window of the operational schedule is long enough, it begins at
 * its last windows, one of which may continue after the change. KTSN_WINDOW_NEVER without a pending change.
 */
static int64_t search_start(const struct ktsn_gates *gates, unsigned int class, int64_t tai_ns,
			    int64_t duration_ns)
{
	bool pending = gates->config_change_tai_ns != KTSN_WINDOW_NEVER;
	int64_t near_change_tai_ns;

	if (gates->oper_windows.classes[class].longest_ns >= duration_ns && !changed_before(gates, tai_ns))
		return tai_ns;
	if (!pending)
		return KTSN_WINDOW_NEVER;
	near_change_tai_ns = gates->hold_from_tai_ns - gates->oper_windows.cycle_time_ns;
	return tai_ns > near_change_tai_ns ? tai_ns : near_change_tai_ns;
}

struct ktsn_window ktsn_gates_fit(const struct ktsn_gates *gates, unsigned int class, int64_t tai_ns,
				  int64_t duration_ns, int64_t *start_tai_ns)
{
	int64_t at_tai_ns = search_start(gates, class, tai_ns, duration_ns);

	while (at_tai_ns != KTSN_WINDOW_NEVER) {
		struct ktsn_window window = ktsn_gates_window(gates, class, at_tai_ns);
		int64_t start = window.open_tai_ns > at_tai_ns ? window.open_tai_ns : at_tai_ns;

		if (window.open_tai_ns == KTSN_WINDOW_NEVER)
			break;
		if (window.close_tai_ns - duration_ns >= start) {
			*start_tai_ns = start;
			return window;
		}
		at_tai_ns = window.close_tai_ns;
		/* All later windows are those of the new schedule. */
		if (changed_before(gates, at_tai_ns) &&
		    gates->admin_windows.classes[class].longest_ns < duration_ns)
			break;
	}
	*start_tai_ns = KTSN_WINDOW_NEVER;
	return none;
}

/* Returns the states of a list at a time after its beginning; after its end, those of the last entry. */
static uint8_t list_states(const struct ktsn_schedule *schedule, int64_t since_ns)
{
	uint32_t i = 0;

	while (i + 1 < schedule->entry_count && since_ns >= schedule->entries[i].interval_ns)
		since_ns -= schedule->entries[i++].interval_ns;
	return schedule->entries[i].gate_states;
}

uint8_t ktsn_gates_states(const struct ktsn_gates *gates, int64_t now_tai_ns)
{
	const struct ktsn_schedule *schedule = ktsn_gates_oper(gates, now_tai_ns);
	int64_t start_tai_ns;

	if (!schedule->gate_enabled)
		return schedule->gate_states;
	if (part_at(gates, now_tai_ns) == PART_HOLD)
		start_tai_ns = gates->hold_from_tai_ns - schedule->cycle_time_ns;
	else
		start_tai_ns = cycle_start(schedule->base_time_tai_ns, schedule->cycle_time_ns, now_tai_ns);
	return list_states(schedule, now_tai_ns - start_tai_ns);
}
