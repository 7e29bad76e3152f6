/* SPDX-License-Identifier: Apache-2.0 */
#include "gates.h"

static const struct ktsn_window none = {KTSN_WINDOW_NEVER, KTSN_WINDOW_NEVER};

void ktsn_gates_init(struct ktsn_gates *gates)
{
	ktsn_schedule_init(&gates->oper);
	gates->admin = gates->oper;
	ktsn_windows_hold(&gates->oper_windows, gates->oper.gate_states);
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
	start_tai_ns = ktsn_cycle_start(admin->base_time_tai_ns, admin->cycle_time_ns, now_tai_ns);
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
	next_tai_ns = ktsn_cycle_start(gates->oper.base_time_tai_ns, cycle_ns, now_tai_ns) + cycle_ns;
	if (change_tai_ns <= next_tai_ns)
		return change_tai_ns;
	/* The first cycle whose end is at most the extension before the change. */
	last_start_tai_ns = change_tai_ns - cycle_ns - gates->oper.cycle_time_extension_ns;
	if (last_start_tai_ns <= next_tai_ns)
		last_start_tai_ns = next_tai_ns;
	else if (ktsn_cycle_start(next_tai_ns, cycle_ns, last_start_tai_ns) != last_start_tai_ns)
		last_start_tai_ns = ktsn_cycle_start(next_tai_ns, cycle_ns, last_start_tai_ns) + cycle_ns;
	return last_start_tai_ns + cycle_ns < change_tai_ns ? last_start_tai_ns + cycle_ns : change_tai_ns;
}

/* Applies a schedule without enabled gates at once, because it has no start time. */
static void hold_at_once(struct ktsn_gates *gates, int64_t now_tai_ns)
{
	gates->oper = gates->admin;
	ktsn_windows_hold(&gates->oper_windows, gates->admin.gate_states);
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
		ktsn_windows_hold(&changed->oper_windows, admin->gate_states);
	}
	ktsn_windows_compile(&changed->admin_windows, admin);
	changed->config_change_tai_ns = change_time(admin, now_tai_ns);
	changed->hold_from_tai_ns = hold_time(changed, now_tai_ns);
}

static void windows_rebuild(struct ktsn_windows *windows, const struct ktsn_schedule *schedule)
{
	if (schedule->gate_enabled)
		ktsn_windows_compile(windows, schedule);
	else
		ktsn_windows_hold(windows, schedule->gate_states);
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
		window = ktsn_windows_find(part == PART_OPER ? &gates->oper_windows : &gates->admin_windows,
					   class, tai_ns);
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
		start_tai_ns =
			ktsn_cycle_start(schedule->base_time_tai_ns, schedule->cycle_time_ns, now_tai_ns);
	return list_states(schedule, now_tai_ns - start_tai_ns);
}
