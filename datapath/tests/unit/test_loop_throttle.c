/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Throttled doorbells are heard again: a few in each round, so that messages of others do not wait for
 * thousands of them. The test sets the clock.
 */
#include "doorbells.h"
#include "loop_state.h"
#include "watch.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "unit_test.h"

#define BEGAN_NS     INT64_C(1000000000000)
#define THROTTLED_NS INT64_C(1000000)

enum { RINGS = 200, AT_ONCE_MAX = 64 };

static struct loop loop;
static struct quota quota;
static struct loop_ring rings[RINGS];
static struct doorbells *doorbells;
static int doorbell_fds[RINGS];

static void listen_to(int i)
{
	rings[i] = (struct loop_ring){.quota = &quota};
	doorbell_fds[i] = doorbell_make();
	assert_true(doorbell_fds[i] >= 0);
	rings[i].doorbell_set_fd = doorbell_join(doorbells, doorbell_fds[i]);
	assert_true(rings[i].doorbell_set_fd >= 0);
	doorbell_listen(&loop, &rings[i], true);
}

/* One ring per second is allowed. */
static int set_up(void **state)
{
	loop = (struct loop){.throttle.until_tai_ns = KTSN_SHAPER_NEVER};
	quota = (struct quota){0};
	atomic_store(&quota.doorbells.interval_ns, INT64_C(1000000000));
	loop.wait.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(loop.wait.epoll_fd >= 0);
	assert_int_equal(doorbells_create(&doorbells, loop.wait.epoll_fd, RINGS / 2), 0);
	for (int i = 0; i < RINGS; i++)
		listen_to(i);
	/* Uses the whole allowance. */
	while (quota_rate_take(&quota.doorbells, BEGAN_NS))
		;
	return 0;
}

static int tear_down(void **state)
{
	for (int i = 0; i < RINGS; i++)
		doorbell_leave(doorbells, rings[i].doorbell_set_fd, doorbell_fds[i]);
	doorbells_destroy(doorbells);
	close(loop.wait.epoll_fd);
	return 0;
}

static void throttle(int first, int behind, int64_t now_tai_ns)
{
	for (int i = first; i < behind; i++)
		throttle_doorbell(&loop, &rings[i], now_tai_ns);
}

static int throttled_count(int first, int behind)
{
	int count = 0;

	for (int i = first; i < behind; i++)
		count += rings[i].throttled;
	return count;
}

/* Reports whether the loop hears it, edge-triggered; includes rings while it was throttled. */
static bool is_heard(struct loop_ring *ring)
{
	struct epoll_event events[RINGS];
	int count = epoll_wait(loop.wait.epoll_fd, events, RINGS, 0);

	for (int i = 0; i < count; i++)
		if (events[i].data.ptr == ring)
			return true;
	return false;
}

TEST_F(each_round_hears_a_few_again)
{
	int rounds = 0;

	throttle(0, RINGS, BEGAN_NS);
	assert_int_equal(throttled_count(0, RINGS), RINGS);
	throttle_release(&loop, BEGAN_NS + THROTTLED_NS - 1);
	assert_int_equal(throttled_count(0, RINGS), RINGS);
	for (int before = RINGS; before > 0; rounds++) {
		int after;

		/* There is work: the loop does not sleep. */
		assert_true(throttle_next(&loop) <= BEGAN_NS + THROTTLED_NS + rounds);
		throttle_release(&loop, BEGAN_NS + THROTTLED_NS + rounds);
		after = throttled_count(0, RINGS);
		assert_in_range(before - after, 1, AT_ONCE_MAX);
		/* The doorbells that have waited longest come first. */
		assert_int_equal(throttled_count(0, RINGS - after), 0);
		before = after;
	}
	assert_true(rounds >= RINGS / AT_ONCE_MAX);
	assert_int_equal(throttle_next(&loop), KTSN_SHAPER_NEVER);
}

TEST_F(earlier_rings_are_heard)
{
	uint64_t increment = 1;

	throttle(0, 1, BEGAN_NS);
	assert_int_equal(write(doorbell_fds[0], &increment, sizeof(increment)), sizeof(increment));
	assert_false(is_heard(&rings[0]));
	throttle_release(&loop, BEGAN_NS + THROTTLED_NS);
	assert_true(is_heard(&rings[0]));
}

TEST_F(second_ring_waits_for_the_next_turn)
{
	int64_t now_tai_ns = BEGAN_NS + THROTTLED_NS;

	throttle(0, RINGS, BEGAN_NS);
	throttle_release(&loop, now_tai_ns);
	assert_false(rings[0].throttled);
	throttle(0, 1, now_tai_ns);
	for (int i = 0; i < RINGS && throttled_count(1, RINGS); i++)
		throttle_release(&loop, ++now_tai_ns);
	assert_int_equal(throttled_count(1, RINGS), 0);
	assert_true(rings[0].throttled);
	assert_true(throttle_next(&loop) > now_tai_ns);
	throttle_release(&loop, throttle_next(&loop));
	assert_false(rings[0].throttled);
}

TEST_F(ended_rings_are_removed)
{
	throttle(0, RINGS, BEGAN_NS);
	throttle_release(&loop, BEGAN_NS + THROTTLED_NS);
	for (int i = 0; i < RINGS; i++)
		throttle_forget(&loop, &rings[i]);
	assert_int_equal(throttled_count(0, RINGS), 0);
	throttle_release(&loop, BEGAN_NS + 2 * THROTTLED_NS);
	assert_int_equal(throttle_next(&loop), KTSN_SHAPER_NEVER);
	/* The next allowance begins. */
	throttle(0, 2, BEGAN_NS + 3 * THROTTLED_NS);
	throttle_forget(&loop, &rings[0]);
	throttle_release(&loop, BEGAN_NS + 4 * THROTTLED_NS);
	assert_int_equal(throttled_count(0, RINGS), 0);
}

/* The application keeps its eventfd after it hung up, and the ring is freed: the set must not contain it. */
TEST_F(closed_doorbell_is_not_heard)
{
	uint64_t increment = 1;

	throttle(0, 2, BEGAN_NS);
	rings[0].closing = true;
	throttle_release(&loop, BEGAN_NS + THROTTLED_NS);
	assert_int_equal(throttled_count(0, 2), 0);
	assert_int_equal(write(doorbell_fds[0], &increment, sizeof(increment)), sizeof(increment));
	assert_false(is_heard(&rings[0]));
	assert_int_equal(write(doorbell_fds[1], &increment, sizeof(increment)), sizeof(increment));
	assert_true(is_heard(&rings[1]));
}

TEST_F(clock_set_back_unblocks_throttled)
{
	throttle(0, RINGS, BEGAN_NS);
	throttle_clock_set_back(&loop);
	for (int i = 0; i < RINGS && throttled_count(0, RINGS); i++)
		throttle_release(&loop, i);
	assert_int_equal(throttled_count(0, RINGS), 0);
}
