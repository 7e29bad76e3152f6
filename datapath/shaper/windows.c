/* SPDX-License-Identifier: Apache-2.0 */
#include "windows.h"

#include <string.h>

static const struct ktsn_window none = {KTSN_WINDOW_NEVER, KTSN_WINDOW_NEVER};

void ktsn_windows_hold(struct ktsn_windows *windows, uint8_t gate_states)
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

void ktsn_windows_compile(struct ktsn_windows *windows, const struct ktsn_schedule *schedule)
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

int64_t ktsn_cycle_start(int64_t base_time_tai_ns, int64_t cycle_time_ns, int64_t tai_ns)
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
	int64_t start_tai_ns = ktsn_cycle_start(windows->base_time_tai_ns, cycle_ns, tai_ns);
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

struct ktsn_window ktsn_windows_find(const struct ktsn_windows *windows, unsigned int class, int64_t tai_ns)
{
	const struct ktsn_class_windows *class_windows = &windows->classes[class];

	if (class_windows->longest_ns == KTSN_WINDOW_NEVER)
		return (struct ktsn_window){KTSN_WINDOW_EVER, KTSN_WINDOW_NEVER};
	if (class_windows->count == 0)
		return none;
	return window_in_cycles(windows, class_windows, tai_ns);
}
