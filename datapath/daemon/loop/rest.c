/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a rest is, and how long:
 *
 *   departure                             departure
 *   ----+------|<---- asleep ---->|<- lead ->+------> time
 *       sending                   wake
 *
 * The lead of a rest is shorter than that of an ordinary sleep (wait.c): as long as it takes for all but one
 * rest in LATE_ONE_IN to be over in time. One late departure of many is less than what the kernel would do.
 *
 * A gap that is too short delays the departures after it. Then the loop rests for the shortest time that is
 * worth it. Going to sleep and waking up are charged, so that a very short sleep saves nothing: how short a
 * sleep may be is learnt from what the kernel charges for it.
 */
#include "rest.h"

#include "clock.h"
#include "loop_state.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum {
	NS_PER_US = 1000,
	LATE_ONE_IN = 20,
	LEAD_STEP_NS = 4000,
	LEAD_LEAST_NS = 5000,
	/* A rest of which less than half is saved is too short. */
	SLICE_FIRST_NS = 10000,
	SLICE_LEAST_NS = 5000,
	SLICE_MOST_NS = 200000,
	/* A gap has no end when nothing is to come; then it is something else that keeps the loop awake. */
	REST_MOST_NS = 80000,
	/* Nothing but the kernel or the host takes the processor away for so long. */
	STOPPED_NS = 10000000,
	/* What the thread has waited for a processor is read so often. A busy loop waits for some
	 * microseconds of it, at each wake-up. */
	WAITED_EVERY_NS = 100000000,
};

/* How long the thread has been runnable without running: the second number of schedstat. The first is how
 * long it ran; a kernel that keeps neither says 0 of both. -1: unknown. */
static int64_t waited_read(const struct loop *loop)
{
	char text[96];
	long long ran_ns, waited_ns;
	ssize_t bytes =
		loop->rest.schedstat_fd < 0 ? -1 : pread(loop->rest.schedstat_fd, text, sizeof(text) - 1, 0);

	if (bytes <= 0)
		return -1;
	text[bytes] = '\0';
	return sscanf(text, "%lld %lld", &ran_ns, &waited_ns) == 2 && ran_ns > 0 ? waited_ns : -1;
}

void rest_begin(struct loop *loop)
{
	struct loop_rest *rest = &loop->rest;

	rest->slice_ns = SLICE_FIRST_NS;
	rest->lead_ns = LEAD_LEAST_NS;
	rest->schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	rest->waited_ns = waited_read(loop);
	rest->waited_read_ns = clock_ns(CLOCK_MONOTONIC);
}

void rest_budget_set(struct loop *loop, uint32_t runtime_us, uint32_t period_us)
{
	atomic_store_explicit(&loop->rest.granted_us, (uint64_t)runtime_us << 32 | period_us,
			      memory_order_relaxed);
}

/* Windows of a period, as the kernel has them, though they begin elsewhere. */
static int64_t used_lately(const struct loop_rest *rest, int64_t period_ns)
{
	int64_t window = clock_ns(CLOCK_MONOTONIC) / period_ns;
	int64_t last = atomic_load_explicit(&rest->window, memory_order_relaxed);

	if (window == last)
		return atomic_load_explicit(&rest->used_before_ns, memory_order_relaxed);
	return window == last + 1 ? atomic_load_explicit(&rest->used_ns, memory_order_relaxed) : 0;
}

struct loop_budget_use rest_budget_use(const struct loop *loop)
{
	const struct loop_rest *rest = &loop->rest;
	uint64_t granted_us = atomic_load_explicit(&rest->granted_us, memory_order_relaxed);
	struct loop_budget_use use = {
		.runtime_ns = (int64_t)(granted_us >> 32) * NS_PER_US,
		.period_ns = (int64_t)(uint32_t)granted_us * NS_PER_US,
		.most_used_ns = atomic_load_explicit(&rest->most_used_ns, memory_order_relaxed),
		.rests = counter_read(&rest->rests),
		.rests_forced = counter_read(&rest->rests_forced),
		.stops = counter_read(&rest->stops),
		.stopped_ns = counter_read(&rest->stopped_ns),
		.host_pauses = counter_read(&rest->host_pauses),
	};

	if (use.period_ns)
		use.used_ns = used_lately(rest, use.period_ns);
	return use;
}

/* What was used of another budget says nothing of this one. */
static void use_forget(struct loop_rest *rest)
{
	atomic_store_explicit(&rest->used_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&rest->used_before_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&rest->most_used_ns, 0, memory_order_relaxed);
}

/* The kernel's budgets are in microseconds. */
static void budget_follow(struct loop *loop)
{
	uint64_t granted_us = atomic_load_explicit(&loop->rest.granted_us, memory_order_relaxed);

	if (granted_us == loop->rest.followed_us)
		return;
	loop->rest.followed_us = granted_us;
	use_forget(&loop->rest);
	budget_init(&loop->rest.budget, (int64_t)(granted_us >> 32) * NS_PER_US,
		    (int64_t)(uint32_t)granted_us * NS_PER_US);
	loop->rest.read_ns = clock_ns(CLOCK_MONOTONIC);
	loop->rest.charged_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	loop->rest.asked_ns = 0;
}

/*
 * The loop was away for long without having asked for it. The kernel's scheduler has it wait on a run queue,
 * which schedstat shows. The host of a virtual machine takes the processor itself: the kernel believes that
 * the loop runs, or, where the host tells it of stolen time, takes that off what it charges; either way the
 * thread does not wait. Other real-time threads of a higher priority look like the kernel.
 */
static void away_note(struct loop *loop, int64_t away_ns)
{
	struct loop_rest *rest = &loop->rest;
	int64_t before_ns = rest->waited_ns, waited_ns = waited_read(loop);

	/* What this one waited is not the next one's. */
	rest->waited_ns = waited_ns;
	rest->waited_read_ns = rest->read_ns;
	if (waited_ns >= 0 && waited_ns - before_ns < away_ns / 2) {
		counter_add(&rest->host_pauses, 1);
		return;
	}
	counter_add(&rest->stops, 1);
	counter_add(&rest->stopped_ns, (uint64_t)away_ns);
	budget_stopped(&rest->budget);
}

static void waited_follow(struct loop *loop, int64_t now_ns)
{
	struct loop_rest *rest = &loop->rest;

	if (now_ns - rest->waited_read_ns < WAITED_EVERY_NS)
		return;
	rest->waited_read_ns = now_ns;
	rest->waited_ns = waited_read(loop);
}

/* For those who ask: what was charged in this period and in the one before. */
static void use_note(struct loop *loop, int64_t now_ns, int64_t charged_ns)
{
	struct loop_rest *rest = &loop->rest;
	int64_t window = now_ns / rest->budget.period_ns;
	int64_t used_ns = atomic_load_explicit(&rest->used_ns, memory_order_relaxed);
	int64_t in_window = atomic_load_explicit(&rest->window, memory_order_relaxed);

	if (window != in_window) {
		if (used_ns > atomic_load_explicit(&rest->most_used_ns, memory_order_relaxed))
			atomic_store_explicit(&rest->most_used_ns, used_ns, memory_order_relaxed);
		atomic_store_explicit(&rest->used_before_ns, window == in_window + 1 ? used_ns : 0,
				      memory_order_relaxed);
		atomic_store_explicit(&rest->window, window, memory_order_relaxed);
		used_ns = 0;
	}
	atomic_store_explicit(&rest->used_ns, used_ns + charged_ns, memory_order_relaxed);
}

static void account(struct loop *loop, int64_t now_ns)
{
	struct loop_rest *rest = &loop->rest;
	int64_t total_ns, passed_ns, charged_ns, away_ns;

	/* The budget may have ended during a rest. */
	if (!rest->budget.period_ns)
		return;
	total_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	passed_ns = now_ns - rest->read_ns;
	charged_ns = total_ns - rest->charged_ns;
	away_ns = passed_ns - rest->asked_ns - charged_ns;
	rest->read_ns = now_ns;
	rest->charged_ns = total_ns;
	budget_charge(&rest->budget, passed_ns, charged_ns);
	if (away_ns >= STOPPED_NS)
		away_note(loop, away_ns);
	else if (passed_ns - rest->asked_ns >= STOPPED_NS)
		counter_add(&rest->host_pauses, 1);
	rest->asked_ns = 0;
	use_note(loop, now_ns, charged_ns);
	waited_follow(loop, now_ns);
}

static void account_keep(struct loop *loop)
{
	struct loop_rest *rest = &loop->rest;
	int64_t now_ns;

	budget_follow(loop);
	if (!rest->budget.period_ns)
		return;
	now_ns = clock_ns(CLOCK_MONOTONIC);
	if (now_ns - rest->read_ns >= budget_account_every(&rest->budget))
		account(loop, now_ns);
}

bool rest_wanted(struct loop *loop, int64_t gap_ns)
{
	struct loop_rest *rest = &loop->rest;

	account_keep(loop);
	return budget_rest_due(&rest->budget, gap_ns, rest->lead_ns + rest->slice_ns);
}

bool rest_must_be_deaf(const struct loop *loop)
{
	return budget_short(&loop->rest.budget);
}

static void lead_learn(struct loop *loop, int64_t late_ns)
{
	int64_t *lead_ns = &loop->rest.lead_ns;

	*lead_ns += late_ns > *lead_ns ? LEAD_STEP_NS : -LEAD_STEP_NS / LATE_ONE_IN;
	if (*lead_ns > loop->config.spin_ns)
		*lead_ns = loop->config.spin_ns;
	if (*lead_ns < LEAD_LEAST_NS)
		*lead_ns = LEAD_LEAST_NS;
}

void rest_slept(struct loop *loop, int64_t asked_ns, int64_t took_ns)
{
	loop->rest.asked_ns += took_ns < asked_ns ? took_ns : asked_ns;
	if (took_ns >= asked_ns)
		lead_learn(loop, took_ns - asked_ns);
	account_keep(loop);
}

static void slice_learn(struct loop *loop, int64_t took_ns, int64_t charged_ns)
{
	int64_t *slice_ns = &loop->rest.slice_ns;

	*slice_ns += took_ns - charged_ns < took_ns / 2 ? *slice_ns / 4 : -*slice_ns / 64;
	if (*slice_ns > SLICE_MOST_NS)
		*slice_ns = SLICE_MOST_NS;
	if (*slice_ns < SLICE_LEAST_NS)
		*slice_ns = SLICE_LEAST_NS;
}

int64_t rest(struct loop *loop, int64_t gap_ns)
{
	struct loop_rest *rest = &loop->rest;
	int64_t slice_ns = budget_slice(&rest->budget, rest->slice_ns);
	int64_t most_ns = slice_ns > REST_MOST_NS ? slice_ns : REST_MOST_NS;
	int64_t asleep_ns = gap_ns - rest->lead_ns > most_ns ? most_ns : gap_ns - rest->lead_ns;
	bool fits = asleep_ns >= slice_ns;
	int64_t length_ns = fits ? asleep_ns : slice_ns;
	const struct timespec length = {.tv_sec = length_ns / NS_PER_SECOND,
					.tv_nsec = length_ns % NS_PER_SECOND};
	int64_t charged_ns, began_ns, now_ns;

	counter_add(fits ? &rest->rests : &rest->rests_forced, 1);
	account(loop, clock_ns(CLOCK_MONOTONIC));
	began_ns = rest->read_ns;
	charged_ns = rest->charged_ns;
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &length, NULL);
	now_ns = clock_ns(CLOCK_MONOTONIC);
	rest_slept(loop, length_ns, now_ns - began_ns);
	account(loop, now_ns);
	slice_learn(loop, now_ns - began_ns, rest->charged_ns - charged_ns);
	return now_ns - began_ns - length_ns;
}
