/* SPDX-License-Identifier: Apache-2.0 */
#include "alive.h"

#include "clock.h"
#include "container_of.h"
#include "loop_state.h"

enum {
	/* Not in each round: each ring is a line that its relay reads. */
	TELL_EVERY_NS = 1000000,
	/* So many in a round, or a departure would wait for all that there are. */
	TELL_AT_ONCE = 8,
	/* A relay hears at least every 20 ms, also while the next are told. */
	SLEEP_MAX_NS = 15000000,
	SLEEP_MAX_TELLING_NS = 20000,
};

/* Bit p: the gate of priority p is closed at times. Only a Time-Aware Shaper has gates. */
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

/* Until a schedule is set, a ring that was handed back keeps what the former ktsnd wrote: this one gets the
 * node's schedule some time after it started. */
static bool has_schedule(const struct loop *loop)
{
	const struct loop_gates *gates = loop->shaping.gates;

	return gates &&
	       (gates->gates.last_change_tai_ns || gates->gates.config_change_tai_ns != KTSN_WINDOW_NEVER);
}

static void ring_tell(const struct loop_alive *alive, struct loop_ring *ring, int64_t now_ns)
{
	struct ktsn_ring_header *header = ring->consumer.header;

	if (alive->gates_known)
		atomic_store_explicit(&header->gated, alive->gated, memory_order_relaxed);
	/* Pairs with the loads in gated_note() and heartbeat_renew() of the relay. */
	atomic_store_explicit(&header->alive_ns, now_ns, memory_order_release);
}

static void gates_note(struct loop *loop)
{
	loop->alive.gated = gated_priorities(loop);
	loop->alive.gates_known = has_schedule(loop);
}

void alive_begin(struct loop *loop, struct loop_ring *ring)
{
	ring_list_add(&loop->alive.rings, &ring->untimed_entry);
	loop->alive.count++;
	gates_note(loop);
	ring_tell(&loop->alive, ring, clock_ns(CLOCK_MONOTONIC));
}

void alive_end(struct loop *loop, struct loop_ring *ring)
{
	if (!ring->untimed || !ring->opened)
		return;
	ring_list_remove(&loop->alive.rings, &ring->untimed_entry);
	loop->alive.count--;
}

static void next_tell(struct loop_alive *alive, int64_t now_ns)
{
	ring_tell(alive, container_of(alive->rings, struct loop_ring, untimed_entry), now_ns);
	alive->rings = alive->rings->next;
	alive->left--;
}

static void some_tell(struct loop_alive *alive, int64_t now_ns)
{
	for (int i = 0; i < TELL_AT_ONCE && alive->rings && alive->left; i++)
		next_tell(alive, now_ns);
	/* The rest of them may have ended. */
	if (!alive->rings)
		alive->left = 0;
}

void alive_tell(struct loop *loop)
{
	struct loop_alive *alive = &loop->alive;
	int64_t age_ns = loop->round.began_tai_ns - alive->told_tai_ns;

	if (!alive->left && alive->rings && (age_ns < 0 || age_ns >= TELL_EVERY_NS)) {
		alive->told_tai_ns = loop->round.began_tai_ns;
		gates_note(loop);
		alive->left = alive->count;
	}
	if (alive->left)
		some_tell(alive, clock_ns(CLOCK_MONOTONIC));
}

int64_t alive_sleep_max(const struct loop *loop, int64_t longest_ns)
{
	int64_t most_ns = loop->alive.left ? SLEEP_MAX_TELLING_NS : SLEEP_MAX_NS;

	return loop->alive.rings && longest_ns > most_ns ? most_ns : longest_ns;
}
