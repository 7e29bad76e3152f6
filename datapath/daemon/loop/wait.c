/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleep, then spin.
 *
 *      |<------- asleep ------->|<-- lead: awake, polling rings ------->|
 *   ---+------------------------+--------------------+------------------+--> time
 *     now                      wake              threshold            event
 *
 * The event is the next departure, or the next message that is expected of a periodic flow. A producer whose
 * message is due before the threshold of its ring (watch.c) rings the doorbell: for that message, waking as
 * planned would be too late. All other producers leave the sleeper alone and make no system call.
 *
 * The loop learns the lead: as long as it takes for all but one wake-up in LATE_ONE_IN to be in time, and
 * never longer than spin_ns. A machine that wakes punctually spins for microseconds. With departures so dense
 * that the first lead leaves no gap to sleep in, the loop learns from its rests.
 */
#include "wait.h"

#include "clock.h"
#include "clock_changes.h"
#include "loop_state.h"
#include "pool.h"
#include "round.h"
#include "watch.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

/* ---- rests: where they are, and how long ----
 *
 *   departure                             departure
 *   ----+------|<---- asleep ---->|<- lead ->+------> time
 *       sending                   wake
 *
 * The lead of a rest is shorter than that of an ordinary sleep: as long as it takes for all but one rest in
 * REST_LATE_ONE_IN to be over in time. One late departure of many is less than what the kernel would do.
 *
 * A gap that is too short delays the departures after it. Then the loop rests for the shortest time that is
 * worth it. Going to sleep and waking up are charged, so that a very short sleep saves nothing: the loop
 * learns from what the kernel charges how short a sleep may be. */

enum {
	NS_PER_US = 1000,
	REST_LATE_ONE_IN = 20,
	REST_LEAD_STEP_NS = 4000,
	REST_LEAD_LEAST_NS = 5000,
	/* A rest that saves less than half of its time is too short. */
	SLICE_FIRST_NS = 10000,
	SLICE_LEAST_NS = 5000,
	SLICE_MOST_NS = 200000,
	/* A gap has no end when nothing is expected; then something else keeps the loop awake. */
	REST_MOST_NS = 80000,
	/* Only the kernel or the host takes the processor away for this long. */
	STOPPED_NS = 10000000,
	/* The time that the thread has waited for a processor is read this often. A busy loop waits for some
	 * microseconds at each wake-up. */
	WAITED_EVERY_NS = 100000000,
};

/* Returns how long the thread has been runnable without running, the second number of schedstat; -1: unknown.
 * The first is how long it ran; a kernel that keeps neither has 0 for both. */
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
	rest->lead_ns = REST_LEAD_LEAST_NS;
	rest->schedstat_fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	rest->waited_ns = waited_read(loop);
	rest->waited_read_ns = clock_ns(CLOCK_MONOTONIC);
}

void rest_budget_set(struct loop *loop, uint32_t runtime_us, uint32_t period_us)
{
	atomic_store_explicit(&loop->rest.granted_us, (uint64_t)runtime_us << 32 | period_us,
			      memory_order_relaxed);
}

/* Returns the use in the last whole period. Periods are as long as the kernel's, but start at other times. */
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

/* Forgets the use of the previous budget. */
static void use_forget(struct loop_rest *rest)
{
	atomic_store_explicit(&rest->used_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&rest->used_before_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&rest->most_used_ns, 0, memory_order_relaxed);
}

/* Takes a new budget, which is in microseconds as the kernel's. */
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
 * The loop was away for long without having asked for it. The kernel's scheduler makes it wait on a run
 * queue, which schedstat shows. The host of a virtual machine takes the processor itself: for the kernel the
 * loop runs, or, if the host reports stolen time, the kernel subtracts that from the charge; either way the
 * thread does not wait. Other real-time threads of a higher priority look like the kernel.
 */
static void away_note(struct loop *loop, int64_t away_ns)
{
	struct loop_rest *rest = &loop->rest;
	int64_t before_ns = rest->waited_ns, waited_ns = waited_read(loop);

	/* The next absence must not include this wait. */
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

/* Records the charge of this period and of the one before, for rest_budget_use(). */
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

static bool rest_wanted(struct loop *loop, int64_t gap_ns)
{
	struct loop_rest *rest = &loop->rest;

	account_keep(loop);
	return budget_rest_due(&rest->budget, gap_ns, rest->lead_ns + rest->slice_ns);
}

static bool rest_ignores_doorbells(const struct loop *loop)
{
	return budget_short(&loop->rest.budget);
}

static void rest_lead_learn(struct loop *loop, int64_t late_ns)
{
	int64_t *lead_ns = &loop->rest.lead_ns;

	*lead_ns += late_ns > *lead_ns ? REST_LEAD_STEP_NS : -REST_LEAD_STEP_NS / REST_LATE_ONE_IN;
	if (*lead_ns > loop->config.spin_ns)
		*lead_ns = loop->config.spin_ns;
	if (*lead_ns < REST_LEAD_LEAST_NS)
		*lead_ns = REST_LEAD_LEAST_NS;
}

static void rest_slept(struct loop *loop, int64_t asked_ns, int64_t took_ns)
{
	loop->rest.asked_ns += took_ns < asked_ns ? took_ns : asked_ns;
	if (took_ns >= asked_ns)
		rest_lead_learn(loop, took_ns - asked_ns);
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

static int64_t rest(struct loop *loop, int64_t gap_ns)
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

/* ---- waiting ---- */

enum {
	/* A shorter sleep costs more than it saves. */
	SHORTEST_SLEEP_NS = 15000,
	/* While the loop is awake it polls the doorbells this often, except when the event is too near:
	 * POLL_SPARE times the average duration of a poll, and the last stretch (send.c). */
	DOORBELL_POLL_NS = 5000,
	POLL_SPARE = 4,
	POLL_LAST_NS = 3000,
	/* A poll that took longer was interrupted. */
	POLL_MOST_NS = 20000,
	/* Weights of a new measurement in the average: longer ones count more. */
	LEARN_LONGER = 4,
	LEARN_SHORTER = 32,
	/* With departures without end doorbells are polled this often: a backlog must not keep others
	   waiting. */
	BUSY_POLL_NS = 50000,
	/* Warming up takes up to twice its average, and must be over this long before the departure. */
	WARM_UP_SPARE_NS = 5000,
	MEMORY_RETRY_NS = 1000000,
	/* The longest sleep before an event: CLOCK_TAI may be set meanwhile. */
	LONGEST_SLEEP_NS = 100000000,
	/* The lead grows by this after a wake-up that was too late, and shrinks by a fraction of it after any
	 * other: it settles where one in LATE_ONE_IN is too late. */
	LEAD_STEP_NS = 5000,
	LATE_ONE_IN = 500,
	SHORTEST_LEAD_NS = 20000,
	/* Until the first wake-up that is too late, the lead shrinks by this part of itself: it starts far
	 * above the need of a punctual machine. */
	FIRST_DESCENT = 256,
	EVENTS_AT_ONCE = 64,
};

/* Waits for a doorbell or a command, at most timeout_ns (-1: without limit). Returns the number of events. */
static int events_wait(struct loop *loop, int64_t timeout_ns)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	uint64_t kicks;
	struct timespec timeout = {.tv_sec = timeout_ns / NS_PER_SECOND,
				   .tv_nsec = timeout_ns % NS_PER_SECOND};
	int count = epoll_pwait2(loop->wait.epoll_fd, events, EVENTS_AT_ONCE,
				 timeout_ns < 0 ? NULL : &timeout, NULL);

	for (int i = 0; i < count; i++) {
		struct loop_ring *ring = events[i].data.ptr;

		if (!ring) {
			(void)!read(loop->wait.kick_fd, &kicks, sizeof(kicks));
			continue;
		}
		counter_add(&loop->counters.doorbells, 1);
		loop->wait.asleep_tai_ns = INT64_MAX;
		throttle_doorbell(loop, ring, clock_tai_ns());
		watch_ring(loop, ring);
	}
	return count;
}

/* Adapts the lead to a sleep that ended late by `late_ns`. */
static void lead_learn(struct loop *loop, int64_t late_ns)
{
	int64_t longest_ns = loop->config.spin_ns;
	int64_t shortest_ns = longest_ns < SHORTEST_LEAD_NS ? longest_ns : SHORTEST_LEAD_NS;

	/* The rest of the lead must be enough for building a frame. */
	if (late_ns > loop->wait.lead_ns - shortest_ns / 2) {
		loop->wait.was_late = true;
		loop->wait.lead_ns += LEAD_STEP_NS;
	} else if (loop->wait.was_late) {
		loop->wait.lead_ns -= LEAD_STEP_NS / LATE_ONE_IN;
	} else {
		loop->wait.lead_ns -= loop->wait.lead_ns / FIRST_DESCENT;
	}
	if (loop->wait.lead_ns > longest_ns)
		loop->wait.lead_ns = longest_ns;
	if (loop->wait.lead_ns < shortest_ns)
		loop->wait.lead_ns = shortest_ns;
}

/* Sleeps until `lead_ns` before the end of the gap, or until a doorbell rings. */
static void loop_sleep(struct loop *loop, int64_t now_tai_ns, int64_t gap_ns, int64_t lead_ns)
{
	int64_t asked_ns = gap_ns == INT64_MAX ? INT64_MAX : gap_ns - lead_ns;
	int64_t longest_ns = alive_sleep_max(loop, asked_ns == INT64_MAX ? INT64_MAX : LONGEST_SLEEP_NS);
	int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
	bool timed_out;

	loop->wait.asleep_tai_ns = now_tai_ns;
	counter_add(&loop->counters.wakeups, 1);
	if (asked_ns > longest_ns)
		asked_ns = longest_ns;
	timed_out = events_wait(loop, asked_ns == INT64_MAX ? -1 : asked_ns) == 0;
	if (timed_out && asked_ns < longest_ns)
		lead_learn(loop, clock_tai_ns() - now_tai_ns - asked_ns);
	rest_slept(loop, asked_ns, clock_ns(CLOCK_MONOTONIC) - began_ns);
}

static void doorbells_poll(struct loop *loop, int64_t now_tai_ns)
{
	int64_t took_ns;

	loop->wait.doorbells_polled_tai_ns = now_tai_ns;
	/* A poll with a doorbell takes longer than one without. */
	if (events_wait(loop, 0) > 0)
		return;
	took_ns = clock_tai_ns() - now_tai_ns;
	if (took_ns < 0)
		return;
	if (took_ns > POLL_MOST_NS)
		took_ns = POLL_MOST_NS;
	took_ns -= loop->wait.poll_ns;
	loop->wait.poll_ns += took_ns / (took_ns > 0 ? LEARN_LONGER : LEARN_SHORTER);
}

/* Whether polling the doorbells will probably be over in time. */
static bool poll_fits(const struct loop *loop, int64_t gap_ns)
{
	return gap_ns > POLL_SPARE * loop->wait.poll_ns + POLL_LAST_NS;
}

/* Whether to warm up now: once for each departure, when it is near and there is enough time. */
static bool warm_up_due(const struct loop *loop, int64_t now_tai_ns, int64_t departure_tai_ns)
{
	int64_t left_ns = departure_tai_ns - now_tai_ns;

	return departure_tai_ns != KTSN_SHAPER_NEVER && departure_tai_ns != loop->wait.warmed_tai_ns &&
	       left_ns <= loop->wait.lead_ns && left_ns > 2 * loop->wait.warm_up_ns + WARM_UP_SPARE_NS;
}

/* Warms up for the next departure: the port of the uplink, or the thread of a receiver of this node, which
 * takes tens of microseconds to wake up. */
static void departure_prepare(struct loop *loop, int64_t now_tai_ns, int64_t departure_tai_ns)
{
	const struct egress *bridge = &loop->egress[EGRESS_BRIDGE];
	const struct packet *local =
		(const struct packet *)ktsn_shaper_peek_next(bridge->shaper, now_tai_ns, departure_tai_ns);

	if (local)
		ktsn_port_receiver_expect(bridge->port, local->frame.receiver_index);
	else
		ktsn_port_warm_up(loop->config.port);
}

/* Uses the time while the loop is awake and nothing is due. */
static void spare_time_use(struct loop *loop, int64_t now_tai_ns, int64_t departure_tai_ns)
{
	if (warm_up_due(loop, now_tai_ns, departure_tai_ns)) {
		loop->wait.warmed_tai_ns = departure_tai_ns;
		departure_prepare(loop, now_tai_ns, departure_tai_ns);
		/* A moving average. */
		loop->wait.warm_up_ns += (clock_tai_ns() - now_tai_ns - loop->wait.warm_up_ns) / 16;
	} else if (now_tai_ns - loop->wait.doorbells_polled_tai_ns > DOORBELL_POLL_NS) {
		doorbells_poll(loop, now_tai_ns);
	}
}

/* Takes a rest, because the loop has been awake for too long. */
static void rest_take(struct loop *loop, int64_t now_tai_ns, int64_t gap_ns, bool ready)
{
	if (ready || rest_ignores_doorbells(loop) || gap_ns < loop->rest.lead_ns + loop->rest.slice_ns) {
		loop->wait.asleep_tai_ns = now_tai_ns;
		lead_learn(loop, rest(loop, gap_ns));
	} else {
		counter_add(&loop->rest.rests, 1);
		loop_sleep(loop, now_tai_ns, gap_ns, loop->rest.lead_ns);
	}
}

void loop_wait(struct loop *loop)
{
	int64_t now_tai_ns = clock_tai_ns();
	int64_t departure_tai_ns = egress_departure_next(loop, now_tai_ns);
	int64_t expected_tai_ns;
	int64_t event_tai_ns, gap_ns;
	bool ready;

	expected_tai_ns = watch_next(loop, now_tai_ns);
	event_tai_ns = departure_tai_ns < expected_tai_ns ? departure_tai_ns : expected_tai_ns;
	if (quotas_next(loop) < event_tai_ns)
		event_tai_ns = quotas_next(loop);
	if (throttle_next(loop) < event_tai_ns)
		event_tai_ns = throttle_next(loop);
	if (held_next(loop) < event_tai_ns)
		event_tai_ns = held_next(loop);
	if (loop->announcing.next_tai_ns < event_tai_ns)
		event_tai_ns = loop->announcing.next_tai_ns;
	if (commands_peek(&loop->commands, 0))
		event_tai_ns = now_tai_ns;
	/* No departure will free memory: the port has all of it, and does not report when it returns some. */
	if (event_tai_ns == KTSN_SHAPER_NEVER && loop->pool.is_short)
		event_tai_ns = now_tai_ns + MEMORY_RETRY_NS;
	gap_ns = event_tai_ns == KTSN_SHAPER_NEVER ? INT64_MAX : event_tai_ns - now_tai_ns;
	ready = watch_ready(loop, now_tai_ns);
	if (rest_wanted(loop, gap_ns))
		rest_take(loop, now_tai_ns, gap_ns, ready);
	else if (!ready && gap_ns > loop->wait.lead_ns + SHORTEST_SLEEP_NS)
		loop_sleep(loop, now_tai_ns, gap_ns, loop->wait.lead_ns);
	else if (!ready && poll_fits(loop, gap_ns))
		spare_time_use(loop, now_tai_ns, departure_tai_ns);
	else if (now_tai_ns - loop->wait.doorbells_polled_tai_ns > BUSY_POLL_NS)
		doorbells_poll(loop, now_tai_ns);
}
