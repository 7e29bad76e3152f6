/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Untimed rings are marked when the loop completes a round: a few in each round, so that a departure does not
 * wait for all of them.
 */
#include "loop_state.h"
#include "watch.h"

#include "unit_test.h"

#define BEGAN_NS     INT64_C(1000000000000)
#define MS           INT64_C(1000000)
#define SLEEP_NS     (1000 * MS)
#define RELAY_AGE_NS (20 * MS)

enum { RINGS = 50, AT_ONCE_MAX = 8 };

static struct loop loop;
static struct loop_ring rings[RINGS];
static struct ktsn_ring_header headers[RINGS];

static int set_up(void **state)
{
	loop = (struct loop){.round.began_tai_ns = BEGAN_NS};
	for (int i = 0; i < RINGS; i++) {
		rings[i] = (struct loop_ring){.untimed = true, .opened = true};
		rings[i].consumer.header = &headers[i];
		alive_begin(&loop, &rings[i]);
		assert_true(atomic_load(&headers[i].alive_ns) > 0);
	}
	return 0;
}

/* The number of remaining rings that this round marks. */
static int round_tells(int first)
{
	int marked = 0;

	for (int i = first; i < RINGS; i++)
		atomic_store(&headers[i].alive_ns, 0);
	alive_update(&loop);
	for (int i = first; i < RINGS; i++)
		marked += atomic_load(&headers[i].alive_ns) > 0;
	return marked;
}

TEST_WITH(each_round_marks_a_few_rings, set_up, NULL)
{
	bool marked[RINGS] = {false};
	int rounds = 0, sum = 0;

	assert_true(alive_sleep_max(&loop, SLEEP_NS) < RELAY_AGE_NS);
	for (; sum < RINGS; rounds++) {
		int count = round_tells(0);

		assert_in_range(count, 1, AT_ONCE_MAX);
		sum += count;
		for (int i = 0; i < RINGS; i++)
			marked[i] |= atomic_load(&headers[i].alive_ns) > 0;
		/* The rest follows soon. */
		if (sum < RINGS)
			assert_true(alive_sleep_max(&loop, SLEEP_NS) < RELAY_AGE_NS / RINGS);
	}
	for (int i = 0; i < RINGS; i++)
		assert_true(marked[i]);
	/* Again after a while. */
	assert_int_equal(round_tells(0), 0);
	loop.round.began_tai_ns += 2 * MS;
	assert_true(round_tells(0) > 0);
}

TEST_WITH(ended_rings_are_not_marked, set_up, NULL)
{
	enum { LAST = 3 };

	assert_true(round_tells(0) > 0);
	for (int i = 0; i < RINGS - LAST; i++)
		alive_end(&loop, &rings[i]);
	assert_int_equal(round_tells(RINGS - LAST), LAST);
	for (int i = RINGS - LAST; i < RINGS; i++)
		alive_end(&loop, &rings[i]);
	alive_update(&loop);
	assert_true(alive_sleep_max(&loop, SLEEP_NS) == SLEEP_NS);
}

TEST_WITH(rings_show_gated_priorities, set_up, NULL)
{
	static struct loop_gates gates;
	struct ktsn_schedule schedule;

	assert_int_equal(atomic_load(&headers[0].gated), 0);
	/* Without a schedule, a new ring keeps the mark of another ktsnd. */
	ktsn_gates_init(&gates.gates);
	loop.shaping.gates = &gates;
	atomic_store(&headers[2].gated, 0x8);
	alive_end(&loop, &rings[2]);
	alive_begin(&loop, &rings[2]);
	assert_int_equal(atomic_load(&headers[2].gated), 0x8);
	ktsn_schedule_init(&schedule);
	schedule.gate_states = 0xfe;
	ktsn_gates_init(&gates.gates);
	ktsn_gates_change(&gates.gates, &schedule, BEGAN_NS, &gates.gates);
	loop.shaping = (struct loop_shaping){.gates = &gates, .classes.of_priority = {0, 1, 0}};
	loop.shaping.strategy = KTSN_STRATEGY_TAS;
	loop.shaping.classes.of_priority[15] = 7;
	loop.round.began_tai_ns += 2 * MS;
	alive_update(&loop);
	assert_int_equal(atomic_load(&headers[0].gated), 0x7ffd);
	/* A new ring is marked at once. */
	atomic_store(&headers[1].gated, 0);
	alive_end(&loop, &rings[1]);
	alive_begin(&loop, &rings[1]);
	assert_int_equal(atomic_load(&headers[1].gated), 0x7ffd);
	/* Other strategies have no gates. */
	loop.shaping.strategy = KTSN_STRATEGY_STRICT_PRIORITY;
	loop.alive.left = 0;
	loop.round.began_tai_ns += 2 * MS;
	for (int round = 0; round <= RINGS / AT_ONCE_MAX; round++)
		alive_update(&loop);
	assert_int_equal(atomic_load(&headers[0].gated), 0);
}
