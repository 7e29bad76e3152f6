/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receivers with queues and threads of their own: order, space, the limit for an expensive receiver, and the
 * count of every lost frame.
 */
#include "delivery.h"

#include "receiver_quota.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "unit_test.h"

enum {
	LINKS = 3,
	TIMEOUT_MS = 20000,
	DEAD_LINK = 2,
	FRAME_BYTES_MAX = 1500,
};

/* The receiving end. */
struct bed {
	struct ktsn_deliveries *deliveries;
	struct ktsn_port_receiver *receivers[LINKS];
	_Atomic uint32_t got[LINKS]; /* frames */
	_Atomic uint32_t disordered;
	_Atomic int64_t frame_ns[LINKS]; /* time to receive one frame */
	_Atomic bool shut;               /* receiving blocks */
};

/* Uses the thread's processor time, so that other load does not shorten a frame. */
static int64_t used_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A frame begins with its number and is filled with its last byte. */
static int receive(void *context, uint32_t link_index, const uint8_t *frame, uint32_t bytes)
{
	struct bed *bed = context;
	int64_t until_ns = used_ns() + atomic_load(&bed->frame_ns[link_index]);
	uint32_t number;

	while (atomic_load(&bed->shut))
		usleep(100);
	while (used_ns() < until_ns)
		;
	memcpy(&number, frame, sizeof(number));
	if (number != atomic_load(&bed->got[link_index]) || frame[bytes - 1] != (uint8_t)number)
		atomic_fetch_add(&bed->disordered, 1);
	atomic_fetch_add(&bed->got[link_index], 1);
	return link_index == DEAD_LINK ? -ENETDOWN : 0;
}

static int bed_create(void **state, int64_t stale_after_ns)
{
	struct bed *bed = calloc(1, sizeof(*bed));
	const struct ktsn_delivery_config config = {
		.send = receive, .context = bed, .quota_percent = 50, .stale_after_ns = stale_after_ns};

	*state = bed;
	if (!bed || ktsn_deliveries_create(&bed->deliveries, &config))
		return -1;
	for (uint32_t i = 0; i < LINKS; i++)
		if (ktsn_delivery_begin(bed->deliveries, i, &bed->receivers[i]))
			return -1;
	return 0;
}

/* A frame during which the machine did something else for 20 ms delays the next ones by 8 s. */
static int set_up(void **state)
{
	return bed_create(state, INT64_C(60000000000));
}

static int set_up_impatient(void **state)
{
	return bed_create(state, INT64_C(1000000000));
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	atomic_store(&bed->shut, false);
	/* A thread without a processor may need longer than the call waits. */
	for (int s = 0; bed->deliveries && !ktsn_deliveries_destroy(bed->deliveries); s++)
		if (s * 1000 >= TIMEOUT_MS)
			return -1;
	free(bed);
	return 0;
}

static int put(struct bed *bed, uint32_t link_index, uint32_t number, uint32_t bytes)
{
	uint8_t data[FRAME_BYTES_MAX];
	const struct ktsn_port_frame frame = {.data = data, .bytes = bytes, .link_index = link_index};

	memcpy(data, &number, sizeof(number));
	data[bytes - 1] = (uint8_t)number;
	return ktsn_delivery_put(bed->receivers[link_index], &frame);
}

static void await(const struct bed *bed, uint32_t link_index, uint32_t frames)
{
	for (int ms = 0; atomic_load(&bed->got[link_index]) < frames; ms++) {
		assert_true(ms < TIMEOUT_MS);
		usleep(1000);
	}
}

static struct ktsn_port_delivery_counts counts(const struct bed *bed)
{
	return ktsn_deliveries_counts(bed->deliveries);
}

/* Wraps around the end of the queue at every fill level. */
TEST_F(frames_arrive_in_their_order)
{
	enum { FRAMES = 20000 };
	struct bed *bed = *state;

	for (uint32_t n = 0; n < FRAMES; n++) {
		uint32_t bytes = 60 + (n * 7919) % (FRAME_BYTES_MAX - 60 + 1);

		while (put(bed, 0, n, bytes) == -ENOBUFS)
			usleep(100);
		if (n % 1000 == 0)
			await(bed, 0, n);
	}
	await(bed, 0, FRAMES);
	assert_int_equal(atomic_load(&bed->disordered), 0);
}

TEST_F(frame_is_refused_when_the_queue_is_full)
{
	struct bed *bed = *state;
	uint32_t frames = 0;

	atomic_store(&bed->shut, true);
	while (put(bed, 0, frames, FRAME_BYTES_MAX) == 0)
		frames++;
	assert_in_range(frames, 300, 400);
	assert_int_equal(counts(bed).queued, frames);
	/* Other receivers have queues of their own. */
	assert_int_equal(put(bed, 1, 0, FRAME_BYTES_MAX), 0);
	atomic_store(&bed->shut, false);
	await(bed, 0, frames);
	await(bed, 1, 1);
	assert_int_equal(put(bed, 0, frames, FRAME_BYTES_MAX), 0);
	await(bed, 0, frames + 1);
	assert_int_equal(atomic_load(&bed->disordered), 0);
}

static long page_faults(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_minflt;
}

/* The loop writes into it between two departures. */
TEST_F(queue_memory_is_resident)
{
	struct bed *bed = *state;
	long before;
	uint32_t n = 1;

	atomic_store(&bed->shut, true);
	assert_int_equal(put(bed, 1, 0, FRAME_BYTES_MAX), 0);
	before = page_faults();
	while (put(bed, 1, n, FRAME_BYTES_MAX) == 0)
		n++;
		/* Sanitizers have pages of their own next to these. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	assert_in_range(page_faults() - before, 0, 2);
#else
	(void)before;
#endif
	assert_true(n > 300);
	atomic_store(&bed->shut, false);
	await(bed, 1, n);
}

/* After a frame of 20 ms the next one starts 8 s later at the earliest: 400 times 10 ms of the receiver's
 * share, of which it gets 50 %, less its burst allowance. */
TEST_F(expensive_receiver_delays_no_other)
{
	enum { FRAMES = 100 };
	struct bed *bed = *state;

	atomic_store(&bed->frame_ns[0], 20000000);
	for (uint32_t n = 0; n < FRAMES; n++) {
		assert_int_equal(put(bed, 0, n, 100), 0);
		assert_int_equal(put(bed, 1, n, 100), 0);
	}
	await(bed, 1, FRAMES);
	await(bed, 0, 1);
	/* Its thread may get no processor for a while. */
	for (int ms = 0; !counts(bed).limited; ms++) {
		assert_true(ms < TIMEOUT_MS);
		usleep(1000);
	}
	usleep(200000);
	assert_int_equal(atomic_load(&bed->got[0]), 1);
	assert_int_equal(counts(bed).queued, FRAMES - 1);
	assert_true(counts(bed).cost_ns > 19000000);
	/* A receiver that ends drops and counts the frames that would have to wait. */
	ktsn_delivery_end(bed->receivers[0]);
	while (counts(bed).queued)
		usleep(1000);
	assert_int_equal(counts(bed).failed, FRAMES - 1);
	assert_int_equal(counts(bed).delivered, FRAMES + 1);
}

TEST_WITH(stale_frames_are_dropped, set_up_impatient, tear_down)
{
	enum { FRAMES = 100 };
	struct bed *bed = *state;

	atomic_store(&bed->frame_ns[0], 20000000);
	for (uint32_t n = 0; n < FRAMES; n++)
		assert_int_equal(put(bed, 0, n, 100), 0);
	for (int ms = 0; counts(bed).queued; ms++) {
		assert_true(ms < TIMEOUT_MS);
		usleep(1000);
	}
	assert_int_equal(counts(bed).delivered, 1);
	assert_int_equal(counts(bed).failed, FRAMES - 1);
}

TEST_F(cheap_frames_are_sent_at_the_end)
{
	enum { FRAMES = 1000 };
	struct bed *bed = *state;

	for (uint32_t n = 0; n < FRAMES; n++)
		assert_int_equal(put(bed, 1, n, 100), 0);
	ktsn_delivery_end(bed->receivers[1]);
	await(bed, 1, FRAMES);
	assert_int_equal(counts(bed).failed, 0);
}

TEST_F(frames_refused_by_the_link_are_counted)
{
	struct bed *bed = *state;

	for (uint32_t n = 0; n < 10; n++)
		assert_int_equal(put(bed, DEAD_LINK, n, 100), 0);
	await(bed, DEAD_LINK, 10);
	while (counts(bed).queued)
		usleep(100);
	assert_int_equal(counts(bed).failed, 10);
}

/* As when another ktsnd takes over: earlier frames have arrived or wait until this one continues. */
TEST_F(hold_waits_for_the_queue)
{
	struct bed *bed = *state;

	for (uint32_t n = 0; n < 100; n++)
		assert_int_equal(put(bed, 1, n, 100), 0);
	ktsn_deliveries_hold(bed->deliveries, (int64_t)TIMEOUT_MS * 1000000);
	assert_int_equal(atomic_load(&bed->got[1]), 100);
	assert_int_equal(put(bed, 1, 100, 100), 0);
	usleep(20000);
	assert_int_equal(atomic_load(&bed->got[1]), 100);
	ktsn_deliveries_resume(bed->deliveries);
	await(bed, 1, 101);
	atomic_store(&bed->frame_ns[0], 50000000);
	assert_int_equal(put(bed, 0, 0, 100), 0);
	ktsn_deliveries_hold(bed->deliveries, 1000000);
	assert_int_equal(counts(bed).queued, 1);
	ktsn_deliveries_resume(bed->deliveries);
}

TEST(share_shrinks_with_the_cost_of_frames)
{
	static const struct {
		int64_t cost_ns, every_ns;
	} cases[] = {
		{10000, 20000},           /* 50 % */
		{100000, 200000},         /* 50 % */
		{1000000, 20000000},      /* 5 % */
		{20000000, 8000000000},   /* 0.25 % */
		{900000000, 200000000000} /* counts as 100 ms */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ktsn_receiver_quota quota;
		int64_t at_ns = 0;

		ktsn_receiver_quota_init(&quota, 50, at_ns);
		/* The burst allowance is used up. */
		quota.balance_ns = 0;
		for (int n = 0; n < 100; n++) {
			ktsn_receiver_quota_charge(&quota, cases[i].cost_ns);
			at_ns += ktsn_receiver_quota_wait_ns(&quota, at_ns);
			assert_int_equal(ktsn_receiver_quota_wait_ns(&quota, at_ns), 0);
		}
		assert_in_range((uint64_t)at_ns, (uint64_t)cases[i].every_ns * 99,
				(uint64_t)cases[i].every_ns * 101);
	}
}
