/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rings the loop polls, and when: rings that rang, rings of periodic flows that are expected to send
 * about now, and rings in which messages were left. The cost of a round and of a sleep grows with these, not
 * with the number of rings or flows.
 *
 *                 threshold                   expected
 *   --------------------+------------------------+----------> transmit times of a ring's messages
 *     ring the doorbell | the loop polls in time
 *
 * Each ring has a threshold for its doorbell: a little before the time of the next message that any of its
 * flows is expected to send. At that time the loop polls the ring, whether or not the doorbell rang. The loop
 * writes the threshold when it changes, once a message.
 *
 * With a strategy that sends at once every message rings, since the kernel would send each in the call. It is
 * not known beforehand when such a message is handed over, so nothing is expected then.
 *
 * Each flow has at most one entry in the queue of expectations. When the flow is expected later, the entry
 * stays and is queued again when its time comes: nothing has to be taken out of the middle.
 */
#include "watch.h"

#include "clock.h"
#include "container_of.h"
#include "leftist_heap.h"
#include "loop_state.h"
#include "outcome.h"
#include "pool.h"
#include "round.h"

#include <assert.h>
#include <sys/epoll.h>

/* ---- doorbells: one that rings more often than its pod may is not listened to for a while ---- */

enum {
	/* A throttled doorbell stays disarmed for at least this long. */
	THROTTLED_NS = 1000000,
	/* Doorbells that are armed again in a round. */
	RELEASE_AT_ONCE = 32,
};

/* Edge-triggered: a doorbell that rang stays readable, because its eventfd is never read. */
void doorbell_listen(const struct loop *loop, struct loop_ring *ring, bool listen)
{
	struct epoll_event doorbell = {.events = listen ? EPOLLIN | EPOLLET : 0, .data.ptr = ring};

	if (ring->doorbell_set_fd >= 0)
		(void)epoll_ctl(loop->wait.epoll_fd, EPOLL_CTL_MOD, ring->doorbell_set_fd, &doorbell);
}

void throttle_doorbell(struct loop *loop, struct loop_ring *ring, int64_t now_tai_ns)
{
	if (ring->throttled || ring->closed || quota_rate_take(&ring->quota->doorbells, now_tai_ns))
		return;
	counter_add(&loop->counters.share_doorbells, 1);
	doorbell_listen(loop, ring, false);
	ring->throttled = true;
	ring_list_add(&loop->throttle.rings, &ring->throttle_entry);
	loop->throttle.count++;
	if (loop->throttle.until_tai_ns == KTSN_SHAPER_NEVER)
		loop->throttle.until_tai_ns = now_tai_ns + THROTTLED_NS;
}

static void throttle_end(struct loop *loop, struct loop_ring *ring)
{
	ring->throttled = false;
	ring_list_remove(&loop->throttle.rings, &ring->throttle_entry);
	loop->throttle.count--;
}

/* Arms some doorbells again, those that were throttled first. */
static void release_some(struct loop *loop)
{
	for (uint32_t count = 0; loop->throttle.release_left && count < RELEASE_AT_ONCE; count++) {
		struct loop_ring *ring = container_of(loop->throttle.rings, struct loop_ring, throttle_entry);

		throttle_end(loop, ring);
		loop->throttle.release_left--;
		/* A doorbell that rang meanwhile rings now. A ring that closes stays disarmed: it is freed
		 * while the application may still ring, and its set is used for another ring. */
		if (!ring->closing)
			doorbell_listen(loop, ring, true);
	}
}

/* Arms all doorbells together, or they could wake the loop once for each. Doorbells that are throttled
 * meanwhile wait for the next time. */
void throttle_release(struct loop *loop, int64_t now_tai_ns)
{
	if (now_tai_ns < loop->throttle.until_tai_ns)
		return;
	if (!loop->throttle.release_left)
		loop->throttle.release_left = loop->throttle.count;
	release_some(loop);
	if (!loop->throttle.release_left)
		loop->throttle.until_tai_ns =
			loop->throttle.rings ? now_tai_ns + THROTTLED_NS : KTSN_SHAPER_NEVER;
}

void throttle_forget(struct loop *loop, struct loop_ring *ring)
{
	if (!ring->throttled)
		return;
	throttle_end(loop, ring);
	/* The ring may have been one of those. */
	if (loop->throttle.release_left > loop->throttle.count)
		loop->throttle.release_left = loop->throttle.count;
}

void throttle_clock_set_back(struct loop *loop)
{
	if (loop->throttle.rings)
		loop->throttle.until_tai_ns = 0;
}

int64_t throttle_next(const struct loop *loop)
{
	return loop->throttle.until_tai_ns;
}

/* ---- heartbeat of untimed rings ---- */
enum {
	/* Not in each round: the relay reads the cache line that is written. */
	UPDATE_EVERY_NS = 1000000,
	/* Rings in a round, so that departures need not wait for all of them. */
	UPDATE_AT_ONCE = 8,
	/* A relay sees a heartbeat at least every 20 ms, also while other rings are written. */
	SLEEP_MAX_NS = 15000000,
	SLEEP_MAX_UPDATING_NS = 20000,
};

/* Returns the priorities whose gate is closed at times (bit p: priority p). Only a Time-Aware Shaper has
 * gates. */
static uint32_t gated_priorities(const struct loop *loop)
{
	const struct loop_shaping *shaping = &loop->shaping;
	uint32_t classes = 0, gated = 0;

	if (shaping->gates && shaping->strategy == KTSN_STRATEGY_TAS)
		classes = ktsn_gates_closing(&shaping->gates->gates, loop->round.began_tai_ns);
	for (unsigned int priority = 0; classes && priority < LOOP_PRIORITIES; priority++)
		gated |= (classes >> shaping->classes.of_priority[priority] & 1) << priority;
	return gated;
}

/* Until a schedule is set, a ring that was handed back keeps the priorities of the previous ktsnd: this one
 * gets the node's schedule some time after it started. */
static bool has_schedule(const struct loop *loop)
{
	const struct loop_gates *gates = loop->shaping.gates;

	return gates &&
	       (gates->gates.last_change_tai_ns || gates->gates.config_change_tai_ns != KTSN_WINDOW_NEVER);
}

static void heartbeat_write(const struct loop_alive *alive, struct loop_ring *ring, int64_t now_ns)
{
	struct ktsn_ring_header *header = ring->consumer.header;

	if (alive->gates_known)
		atomic_store_explicit(&header->gated, alive->gated, memory_order_relaxed);
	/* Pairs with the loads in gated_note() and heartbeat_renew() of the relay. */
	atomic_store_explicit(&header->alive_ns, now_ns, memory_order_release);
}

static void gated_update(struct loop *loop)
{
	loop->alive.gated = gated_priorities(loop);
	loop->alive.gates_known = has_schedule(loop);
}

void alive_begin(struct loop *loop, struct loop_ring *ring)
{
	ring_list_add(&loop->alive.rings, &ring->untimed_entry);
	loop->alive.count++;
	gated_update(loop);
	heartbeat_write(&loop->alive, ring, clock_ns(CLOCK_MONOTONIC));
}

void alive_end(struct loop *loop, struct loop_ring *ring)
{
	if (!ring->untimed || !ring->opened)
		return;
	ring_list_remove(&loop->alive.rings, &ring->untimed_entry);
	loop->alive.count--;
}

static void next_write(struct loop_alive *alive, int64_t now_ns)
{
	heartbeat_write(alive, container_of(alive->rings, struct loop_ring, untimed_entry), now_ns);
	alive->rings = alive->rings->next;
	alive->left--;
}

static void some_write(struct loop_alive *alive, int64_t now_ns)
{
	for (int i = 0; i < UPDATE_AT_ONCE && alive->rings && alive->left; i++)
		next_write(alive, now_ns);
	/* The remaining rings may have ended. */
	if (!alive->rings)
		alive->left = 0;
}

void alive_update(struct loop *loop)
{
	struct loop_alive *alive = &loop->alive;
	int64_t age_ns = loop->round.began_tai_ns - alive->updated_tai_ns;

	if (!alive->left && alive->rings && (age_ns < 0 || age_ns >= UPDATE_EVERY_NS)) {
		alive->updated_tai_ns = loop->round.began_tai_ns;
		gated_update(loop);
		alive->left = alive->count;
	}
	if (alive->left)
		some_write(alive, clock_ns(CLOCK_MONOTONIC));
}

int64_t alive_sleep_max(const struct loop *loop, int64_t longest_ns)
{
	int64_t most_ns = loop->alive.left ? SLEEP_MAX_UPDATING_NS : SLEEP_MAX_NS;

	return loop->alive.rings && longest_ns > most_ns ? most_ns : longest_ns;
}

enum {
	/* Messages of longer periods use the doorbell. */
	PERIOD_MAX_NS = 1000000000,
	/* Expected flows that are handled in a round. */
	DUE_AT_ONCE = 32,
};

/* ---- rings to poll ---- */

void watch_ring(struct loop *loop, struct loop_ring *ring)
{
	struct quota *quota = ring->quota;

	if (ring->watched || ring->closed)
		return;
	ring->watched = true;
	if (!quota->rings) {
		ring_list_add(&loop->watch.quotas, &quota->watch);
		loop->watch.quota_count++;
	}
	ring_list_add(&quota->rings, &ring->watch);
}

static void unwatch(struct loop *loop, struct loop_ring *ring)
{
	struct quota *quota = ring->quota;

	if (!ring->watched)
		return;
	ring->watched = false;
	ring_list_remove(&quota->rings, &ring->watch);
	if (quota->rings)
		return;
	ring_list_remove(&loop->watch.quotas, &quota->watch);
	loop->watch.quota_count--;
}

const struct quota *watch_quota(const struct loop *loop)
{
	return container_of(loop->watch.quotas, const struct quota, watch);
}

struct loop_ring *watch_turn(struct loop *loop)
{
	struct quota *quota = container_of(loop->watch.quotas, struct quota, watch);
	struct loop_ring *ring = container_of(quota->rings, struct loop_ring, watch);

	loop->watch.quotas = loop->watch.quotas->next;
	quota->rings = quota->rings->next;
	return ring;
}

bool watch_ready(const struct loop *loop, int64_t now_tai_ns)
{
	const struct ring_list_link *link = loop->watch.quotas;

	/* Messages that wait for memory or for their pod's quota cannot be taken yet. */
	if (!link || loop->pool.is_short)
		return false;
	do {
		if (!quota_exhausted(loop, container_of(link, struct quota, watch), now_tai_ns))
			return true;
		link = link->next;
	} while (link != loop->watch.quotas);
	return false;
}

/* ---- doorbells ---- */

static void doorbell_write(struct loop *loop, struct loop_ring *ring)
{
	const struct clock_offsets *offsets = loop_offsets(loop);
	int64_t before_ns[KTSN_CLOCKS];

	for (int clock = 0; clock < KTSN_CLOCKS; clock++)
		before_ns[clock] = ring->threshold_tai_ns == KTSN_SHAPER_NEVER
					   ? KTSN_DOORBELL_ALWAYS
					   : ring->threshold_tai_ns - offsets->to_tai_ns[clock];
	ktsn_ring_doorbell_set(&ring->consumer, before_ns);
	counter_add(&loop->watch.doorbells_set, 1);
}

static void doorbell_update(struct loop *loop, struct loop_ring *ring)
{
	int64_t before_tai_ns = ring->threshold_tai_ns;

	/* The loop polls the ring during the whole lead before, and the lead shrinks only slowly. */
	ring->threshold_tai_ns =
		ring->expected ? ring->expected->txtime_tai_ns - loop->wait.lead_ns / 2 : KTSN_SHAPER_NEVER;
	if (ring->threshold_tai_ns == before_tai_ns || ring->closed)
		return;
	doorbell_write(loop, ring);
	/* A message that was sent before its producer could see the later threshold did not ring. */
	if (ring->threshold_tai_ns > before_tai_ns && ktsn_ring_ready(&ring->consumer))
		watch_ring(loop, ring);
}

void watch_polled(struct loop *loop, struct loop_ring *ring, bool backlog)
{
	ring->backlog = backlog;
	if (backlog)
		watch_ring(loop, ring);
	else
		unwatch(loop, ring);
	doorbell_update(loop, ring);
}

void watch_end(struct loop *loop, struct loop_ring *ring)
{
	throttle_forget(loop, ring);
	unwatch(loop, ring);
}

/* ---- expectations ---- */

static void entry_queue(struct loop *loop, struct loop_flow *flow)
{
	struct expectation *expectation = &flow->expectation;
	struct loop_ring *ring = flow->ring;

	expectation->entry.txtime_tai_ns = expectation->of_ring.txtime_tai_ns = expectation->expected_tai_ns;
	/* With equal times, queue and heap must have the same first entry. */
	expectation->entry.order = expectation->of_ring.order = ++loop->watch.expectations_queued;
	ktsn_txtime_queue_push(&loop->watch.expectations, &expectation->entry, expectation->last_tai_ns);
	ring->expected = ktsn_leftist_heap_push(ring->expected, &expectation->of_ring);
	expectation->queued = true;
	ring->expectations++;
}

void watch_message(struct loop *loop, struct loop_flow *flow, int64_t txtime_tai_ns)
{
	struct expectation *expectation = &flow->expectation;
	int64_t period_ns = txtime_tai_ns - expectation->last_tai_ns;

	expectation->last_tai_ns = txtime_tai_ns;
	if (ktsn_strategy_sends_at_once(loop->shaping.strategy))
		return;
	if (period_ns <= 0 || period_ns > PERIOD_MAX_NS || flow->closed)
		return;
	expectation->expected_tai_ns = txtime_tai_ns + period_ns;
	if (!expectation->queued)
		entry_queue(loop, flow);
}

int64_t watch_next(const struct loop *loop, int64_t now_tai_ns)
{
	const struct ktsn_shaper_packet *first = ktsn_txtime_queue_first(&loop->watch.expectations);

	if (!first)
		return KTSN_SHAPER_NEVER;
	return first->txtime_tai_ns > now_tai_ns ? first->txtime_tai_ns : now_tai_ns;
}

static struct loop_flow *entry_pop(struct loop *loop)
{
	struct loop_flow *flow = container_of(ktsn_txtime_queue_pop(&loop->watch.expectations),
					      struct loop_flow, expectation.entry);
	struct loop_ring *ring = flow->ring;

	assert(ring->expected == &flow->expectation.of_ring);
	ring->expected = ktsn_leftist_heap_pop(ring->expected);
	ring->expectations--;
	flow->expectation.queued = false;
	return flow;
}

/* The ring is polled even if the message was taken already: other flows of the ring rely on it. */
static void expectation_end(struct loop *loop, struct loop_flow *flow, int64_t until_tai_ns)
{
	struct loop_ring *ring = flow->ring;

	if (flow->expectation.expected_tai_ns > until_tai_ns && !flow->closed)
		entry_queue(loop, flow);
	else
		flow_retire_if_done(loop, flow);
	watch_ring(loop, ring);
	ring_retire_if_done(loop, ring);
}

void watch_reset(struct loop *loop)
{
	/* The expected times are void: poll the rings of all flows, and learn the times again. */
	while (ktsn_txtime_queue_first(&loop->watch.expectations))
		expectation_end(loop, entry_pop(loop), KTSN_SHAPER_NEVER);
}

void watch_due(struct loop *loop, int64_t until_tai_ns)
{
	const struct ktsn_shaper_packet *first;

	for (int i = 0; i < DUE_AT_ONCE && (first = ktsn_txtime_queue_first(&loop->watch.expectations)) &&
			first->txtime_tai_ns <= until_tai_ns;
	     i++)
		expectation_end(loop, entry_pop(loop), until_tai_ns);
}
