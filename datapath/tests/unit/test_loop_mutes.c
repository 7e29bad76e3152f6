/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doorbells that rang too often are listened to again: few in a round, so that what is due to others does not wait for
 * thousands. The time is the test's.
 */
#include "doorbells.h"
#include "loop_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#define BEGAN_NS INT64_C(1000000000000)
#define MUTED_NS INT64_C(1000000)

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

/* A doorbell in a second, and no more. */
static int set_up(void **state)
{
	(void)state;
	loop = (struct loop){.unmute_tai_ns = KTSN_SHAPER_NEVER, .quota_next_tai_ns = KTSN_SHAPER_NEVER};
	quota = (struct quota){0};
	atomic_store(&quota.doorbells.interval_ns, INT64_C(1000000000));
	loop.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(loop.epoll_fd >= 0);
	assert_int_equal(doorbells_create(&doorbells, loop.epoll_fd, RINGS / 2), 0);
	for (int i = 0; i < RINGS; i++)
		listen_to(i);
	/* All that is allowed. */
	while (quota_rate_take(&quota.doorbells, BEGAN_NS))
		;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < RINGS; i++)
		doorbell_leave(doorbells, rings[i].doorbell_set_fd, doorbell_fds[i]);
	doorbells_destroy(doorbells);
	close(loop.epoll_fd);
	return 0;
}

static void mute(int first, int behind, int64_t now_tai_ns)
{
	for (int i = first; i < behind; i++)
		quota_doorbell(&loop, &rings[i], now_tai_ns);
}

static int muted(int first, int behind)
{
	int count = 0;

	for (int i = first; i < behind; i++)
		count += rings[i].muted;
	return count;
}

/* Whether the loop hears it, edge-triggered: what rang while it was muted too. */
static bool is_heard(struct loop_ring *ring)
{
	struct epoll_event heard[RINGS];
	int count = epoll_wait(loop.epoll_fd, heard, RINGS, 0);

	for (int i = 0; i < count; i++)
		if (heard[i].data.ptr == ring)
			return true;
	return false;
}

static void few_are_listened_to_again_in_a_round(void **state)
{
	int rounds = 0;

	(void)state;
	mute(0, RINGS, BEGAN_NS);
	assert_int_equal(muted(0, RINGS), RINGS);
	quotas_unmute(&loop, BEGAN_NS + MUTED_NS - 1);
	assert_int_equal(muted(0, RINGS), RINGS);
	for (int before = RINGS; before > 0; rounds++) {
		int after;

		/* There is something to do: the loop does not sleep. */
		assert_true(quotas_next(&loop) <= BEGAN_NS + MUTED_NS + rounds);
		quotas_unmute(&loop, BEGAN_NS + MUTED_NS + rounds);
		after = muted(0, RINGS);
		assert_in_range(before - after, 1, AT_ONCE_MAX);
		/* Those that have waited longest. */
		assert_int_equal(muted(0, RINGS - after), 0);
		before = after;
	}
	assert_true(rounds >= RINGS / AT_ONCE_MAX);
	assert_int_equal(quotas_next(&loop), KTSN_SHAPER_NEVER);
}

static void what_rang_meanwhile_is_heard_then(void **state)
{
	uint64_t one = 1;

	(void)state;
	mute(0, 1, BEGAN_NS);
	assert_int_equal(write(doorbell_fds[0], &one, sizeof(one)), sizeof(one));
	assert_false(is_heard(&rings[0]));
	quotas_unmute(&loop, BEGAN_NS + MUTED_NS);
	assert_true(is_heard(&rings[0]));
}

static void one_that_rings_again_meanwhile_waits_for_the_next_time(void **state)
{
	int64_t now_tai_ns = BEGAN_NS + MUTED_NS;

	(void)state;
	mute(0, RINGS, BEGAN_NS);
	quotas_unmute(&loop, now_tai_ns);
	assert_false(rings[0].muted);
	mute(0, 1, now_tai_ns);
	for (int i = 0; i < RINGS && muted(1, RINGS); i++)
		quotas_unmute(&loop, ++now_tai_ns);
	assert_int_equal(muted(1, RINGS), 0);
	assert_true(rings[0].muted);
	assert_true(quotas_next(&loop) > now_tai_ns);
	quotas_unmute(&loop, quotas_next(&loop));
	assert_false(rings[0].muted);
}

static void rings_that_end_meanwhile_are_forgotten(void **state)
{
	(void)state;
	mute(0, RINGS, BEGAN_NS);
	quotas_unmute(&loop, BEGAN_NS + MUTED_NS);
	for (int i = 0; i < RINGS; i++)
		quota_forget(&loop, &rings[i]);
	assert_int_equal(muted(0, RINGS), 0);
	quotas_unmute(&loop, BEGAN_NS + 2 * MUTED_NS);
	assert_int_equal(quotas_next(&loop), KTSN_SHAPER_NEVER);
	/* And the next begin anew. */
	mute(0, 2, BEGAN_NS + 3 * MUTED_NS);
	quota_forget(&loop, &rings[0]);
	quotas_unmute(&loop, BEGAN_NS + 4 * MUTED_NS);
	assert_int_equal(muted(0, RINGS), 0);
}

/* The application keeps its eventfd after it hung up, and the ring is freed: the set must not name it. */
static void one_that_closes_is_not_listened_to_again(void **state)
{
	uint64_t one = 1;

	(void)state;
	mute(0, 2, BEGAN_NS);
	rings[0].closing = true;
	quotas_unmute(&loop, BEGAN_NS + MUTED_NS);
	assert_int_equal(muted(0, 2), 0);
	assert_int_equal(write(doorbell_fds[0], &one, sizeof(one)), sizeof(one));
	assert_false(is_heard(&rings[0]));
	assert_int_equal(write(doorbell_fds[1], &one, sizeof(one)), sizeof(one));
	assert_true(is_heard(&rings[1]));
}

static void a_clock_that_is_set_back_leaves_none_muted(void **state)
{
	(void)state;
	mute(0, RINGS, BEGAN_NS);
	quotas_clock_set_back(&loop);
	for (int i = 0; i < RINGS && muted(0, RINGS); i++)
		quotas_unmute(&loop, i);
	assert_int_equal(muted(0, RINGS), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(few_are_listened_to_again_in_a_round),
		TEST(what_rang_meanwhile_is_heard_then),
		TEST(one_that_rings_again_meanwhile_waits_for_the_next_time),
		TEST(rings_that_end_meanwhile_are_forgotten),
		TEST(one_that_closes_is_not_listened_to_again),
		TEST(a_clock_that_is_set_back_leaves_none_muted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
