/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleep, then spin.
 *
 *      |<------- asleep ------->|<-- lead: awake, polling rings ------->|
 *   ---+------------------------+--------------------+------------------+--> time
 *     now                      wake              threshold            event
 *
 * The event is the next departure, or the next message that is expected of a periodic flow. A producer whose
 * message is due before the threshold of its ring (loop/watch.c) rings the doorbell: for that message, waking
 * as planned would be too late. All other producers leave the sleeper alone and make no system call.
 *
 * The loop learns the lead: as long as it takes for all but one wake-up in LATE_ONE_IN to be in time, and
 * never longer than spin_ns. A machine that wakes punctually spins for microseconds. With departures so dense
 * that the first lead leaves no gap to sleep in, the loop learns from its rests (rest.c).
 */
#include "wait.h"

#include "alive.h"
#include "clock.h"
#include "egress.h"
#include "held.h"
#include "loop_state.h"
#include "quotas.h"
#include "rest.h"
#include "throttle.h"
#include "watch.h"

#include <sys/epoll.h>
#include <unistd.h>

enum {
	/* Sleeping for less than this costs more than it saves. */
	SHORTEST_SLEEP_NS = 15000,
	/* While awake, doorbells are looked at this often, and not when the event is so near that the look
	 * may not be over: POLL_SPARE times what it takes on average, and the last stretch (send.c). */
	DOORBELL_POLL_NS = 5000,
	POLL_SPARE = 4,
	POLL_LAST_NS = 3000,
	/* What took longer was interrupted. */
	POLL_MOST_NS = 20000,
	/* Parts of a new measurement in the average: what was longer counts more. */
	LEARN_LONGER = 4,
	LEARN_SHORTER = 32,
	/* Unless there is no end of departures: a backlog must not keep others waiting outside. */
	BUSY_POLL_NS = 50000,
	/* Warming up takes twice its average at worst, mostly, and is to be over so long before the
	   departure. */
	WARM_UP_SPARE_NS = 5000,
	MEMORY_RETRY_NS = 1000000,
	/* So long it sleeps at most while something is to come: CLOCK_TAI may be set meanwhile. */
	LONGEST_SLEEP_NS = 100000000,
	/* The lead goes up by this after a wake-up that was too late for it, and down by a fraction of it
	 * after each that was not: it settles where one in LATE_ONE_IN is too late. */
	LEAD_STEP_NS = 5000,
	LATE_ONE_IN = 500,
	SHORTEST_LEAD_NS = 20000,
	/* Until the first that is too late it goes down by this part of itself: it begins far above what a
	 * punctual machine needs. */
	FIRST_DESCENT = 256,
	EVENTS_AT_ONCE = 64,
};

/* Waits for a doorbell or a command, at most timeout_ns (-1: for ever). Returns how many came. */
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

/* A sleep ended so late. */
static void lead_learn(struct loop *loop, int64_t late_ns)
{
	int64_t longest_ns = loop->config.spin_ns;
	int64_t shortest_ns = longest_ns < SHORTEST_LEAD_NS ? longest_ns : SHORTEST_LEAD_NS;

	/* What is left of the lead must still do for building a frame. */
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

/* Until `lead_ns` before the end of the gap, unless somebody rings. */
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
	/* One that rang takes longer, and says nothing of a look in vain. */
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

/* Whether a look at the doorbells would be over in time, as far as can be told. */
static bool poll_fits(const struct loop *loop, int64_t gap_ns)
{
	return gap_ns > POLL_SPARE * loop->wait.poll_ns + POLL_LAST_NS;
}

/* Once for each departure, when it is near and warming up will be over before it. */
static bool warm_up_due(const struct loop *loop, int64_t now_tai_ns, int64_t departure_tai_ns)
{
	int64_t left_ns = departure_tai_ns - now_tai_ns;

	return departure_tai_ns != KTSN_SHAPER_NEVER && departure_tai_ns != loop->wait.warmed_tai_ns &&
	       left_ns <= loop->wait.lead_ns && left_ns > 2 * loop->wait.warm_up_ns + WARM_UP_SPARE_NS;
}

/* What the next departure needs: the port of the uplink, or the thread of a receiver of this node, which
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

/* Awake, and nothing due for a while. */
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

/* The loop would stay awake, and has been for so long that it must not. */
static void rest_take(struct loop *loop, int64_t now_tai_ns, int64_t gap_ns, bool ready)
{
	if (ready || rest_must_be_deaf(loop) || gap_ns < loop->rest.lead_ns + loop->rest.slice_ns) {
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
	if (commands_peek(&loop->commands, 0))
		event_tai_ns = now_tai_ns;
	/* No departure will give memory back: the port has it all, and does not say when it returns it. */
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
