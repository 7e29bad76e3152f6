/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue that Open vSwitch does not fetch. The test takes the place of Open vSwitch, the clock and DPDK's
 * alarms.
 */
#include "vhost_stall.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "unit_test.h"

#define MS INT64_C(1000000)

enum {
	COUNT = 8,
	BUFFERS = 4,
	BUFFER_BYTES = 256,
	GAP_BYTES = 64,
	VIRTIO_HEADER_BYTES = 12,
	FRAME_BYTES = 80
};

static const int64_t begin_ns = INT64_C(1000000000);

static struct vhost_descriptor ring[COUNT];
static uint8_t memory[BUFFERS * (BUFFER_BYTES + GAP_BYTES)];
static uintptr_t first[BUFFERS];
static struct vhost_stall stall;
static uint32_t available, fetched, withdrawn, astray, reports;
static int64_t now_ns, due_ns;
static void (*due_run)(void *);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	assert_int_equal(clock, CLOCK_MONOTONIC);
	*time = (struct timespec){.tv_sec = now_ns / 1000000000, .tv_nsec = now_ns % 1000000000};
	return 0;
}

int rte_eal_alarm_set(uint64_t us, void (*run)(void *argument), void *argument);
int rte_eal_alarm_set(uint64_t us, void (*run)(void *argument), void *argument)
{
	assert_ptr_equal(argument, &stall);
	due_ns = now_ns + (int64_t)us * 1000;
	due_run = run;
	return 0;
}

int rte_eal_alarm_cancel(void (*run)(void *argument), void *argument);
int rte_eal_alarm_cancel(void (*run)(void *argument), void *argument)
{
	assert_ptr_equal(argument, &stall);
	assert_ptr_equal(run, due_run);
	due_run = NULL;
	return 1;
}

static struct vhost_descriptor *ring_get(void *context)
{
	return context;
}

static void withdraw(uint32_t frames, uint32_t left_alone, void *context)
{
	assert_ptr_equal(context, ring);
	withdrawn += frames;
	astray += left_alone;
	reports++;
}

static void begin(int64_t stale_after_ns)
{
	memset(ring, 0, sizeof(ring));
	memset(memory, 0xee, sizeof(memory));
	for (uint32_t i = 0; i < BUFFERS; i++)
		first[i] = (uintptr_t)memory + i * (BUFFER_BYTES + GAP_BYTES);
	available = 0;
	fetched = 0;
	withdrawn = 0;
	astray = 0;
	reports = 0;
	now_ns = begin_ns;
	stall = (struct vhost_stall){.ring = ring_get,
				     .withdrawn = withdraw,
				     .context = ring,
				     .ring_count = COUNT,
				     .buffers = {first, BUFFERS, BUFFER_BYTES},
				     .stale_after_ns = stale_after_ns};
	assert_int_equal(vhost_stall_begin(&stall), 0);
}

/* The first lap has the bit set. */
static void queue_at(uint64_t address, uint32_t bytes)
{
	struct vhost_descriptor *at = &ring[available % COUNT];

	at->address = address;
	at->bytes = bytes;
	at->id = (uint16_t)(available % COUNT);
	atomic_store(&at->flags, available / COUNT % 2 == 0 ? VHOST_AVAILABLE : VHOST_USED);
	available++;
}

static void queue(void)
{
	queue_at(first[available % BUFFERS] + GAP_BYTES, VIRTIO_HEADER_BYTES + FRAME_BYTES);
}

static void fetch(void)
{
	struct vhost_descriptor *at = &ring[fetched % COUNT];

	atomic_store(&at->flags, fetched / COUNT % 2 == 0 ? VHOST_AVAILABLE | VHOST_USED : 0);
	fetched++;
}

/* Runs the next check. */
static void look(void)
{
	void (*run)(void *argument) = due_run;

	now_ns = due_ns;
	run(&stall);
}

static void look_until(int64_t end_ns)
{
	while (due_ns <= end_ns)
		look();
	now_ns = end_ns;
}

static bool is_overwritten(uint32_t buffer)
{
	const uint8_t *frame = (const uint8_t *)first[buffer] + GAP_BYTES + VIRTIO_HEADER_BYTES;

	return frame[0] == 0x01 && frame[1] == 0x80 && frame[12] == 0x88 && frame[14] == 0 &&
	       frame[FRAME_BYTES - 1] == 0 && frame[FRAME_BYTES] == 0xee;
}

static bool is_untouched(void)
{
	for (size_t i = 0; i < sizeof(memory); i++)
		if (memory[i] != 0xee)
			return false;
	return true;
}

/* At any time between two checks, and with any --stale-after. */
TEST(frames_are_overwritten_before_stale)
{
	static const int64_t stale_after_ns[] = {10 * MS, 100 * MS, 150 * MS, 10000 * MS};

	for (unsigned int i = 0; i < sizeof(stale_after_ns) / sizeof(stale_after_ns[0]); i++)
		for (int64_t queued_ns = 0; queued_ns < 20 * MS; queued_ns += MS) {
			begin(stale_after_ns[i]);
			look_until(begin_ns + queued_ns);
			queue();
			look_until(begin_ns + queued_ns + stale_after_ns[i] - 1);
			assert_int_equal(withdrawn, 1);
			assert_true(is_overwritten(0));
			/* Not so early that it could have left in time. */
			begin(stale_after_ns[i]);
			look_until(begin_ns + queued_ns);
			queue();
			look_until(begin_ns + queued_ns + stale_after_ns[i] * 2 / 5);
			assert_int_equal(withdrawn, 0);
		}
}

/* However long --stale-after is. */
TEST(stall_is_noticed_within_40_ms)
{
	static const int64_t stale_after_ns[] = {100 * MS, 1000 * MS, 10000 * MS};

	for (unsigned int i = 0; i < sizeof(stale_after_ns) / sizeof(stale_after_ns[0]); i++) {
		begin(stale_after_ns[i]);
		look();
		queue();
		assert_false(vhost_stalled(&stall));
		look_until(now_ns + 40 * MS);
		assert_true(vhost_stalled(&stall));
		assert_true(is_untouched());
	}
}

TEST(fetched_queue_is_untouched)
{
	begin(100 * MS);
	for (int i = 0; i < 100; i++) {
		queue();
		queue();
		look();
		fetch();
		fetch();
		assert_false(vhost_stalled(&stall));
	}
	assert_int_equal(reports, 0);
	assert_true(is_untouched());
}

TEST(port_resumes_after_a_fetch)
{
	begin(100 * MS);
	for (int i = 0; i < BUFFERS; i++)
		queue();
	look_until(begin_ns + 500 * MS);
	assert_true(vhost_stalled(&stall));
	assert_int_equal(withdrawn, BUFFERS);
	assert_int_equal(reports, 1);
	for (uint32_t i = 0; i < BUFFERS; i++)
		assert_true(is_overwritten(i));
	fetch();
	look();
	assert_false(vhost_stalled(&stall));
	while (fetched < available)
		fetch();
	look();
	/* The next stall. */
	memset(memory, 0xee, sizeof(memory));
	queue();
	look_until(now_ns + 500 * MS);
	assert_int_equal(withdrawn, BUFFERS + 1);
	assert_true(is_overwritten(0));
}

TEST(frame_is_withdrawn_once)
{
	begin(100 * MS);
	for (int i = 0; i < 4; i++)
		queue();
	look_until(begin_ns + 500 * MS);
	assert_int_equal(withdrawn, 4);
	fetch();
	look();
	assert_false(vhost_stalled(&stall));
	memset(memory, 0xee, sizeof(memory));
	queue();
	look_until(now_ns + 500 * MS);
	assert_int_equal(withdrawn, 4 + 1);
	assert_int_equal(reports, 2);
	assert_true(is_overwritten(0));
	for (uint32_t i = 1; i < BUFFERS; i++)
		assert_false(is_overwritten(i));
	/* In addition to those that were overwritten. */
	for (int i = 0; i < 4; i++)
		fetch();
	queue();
	look();
	fetch();
	queue();
	queue();
	look_until(now_ns + 500 * MS);
	assert_int_equal(withdrawn, 5 + 2);
}

/* Open vSwitch can write to the queue's memory. */
TEST(foreign_descriptor_is_untouched)
{
	static uint8_t other[BUFFER_BYTES];
	const uint64_t inside = (uintptr_t)memory;
	const struct {
		uint64_t address;
		uint32_t bytes;
	} bad[] = {
		{(uintptr_t)other, sizeof(other)},
		{inside - 1, FRAME_BYTES},
		{inside, BUFFER_BYTES + 1},
		{inside + 1, BUFFER_BYTES},
		{inside + BUFFER_BYTES - 16, FRAME_BYTES},
		{inside + BUFFER_BYTES + 1, 30}, /* between two buffers: DPDK's header */
		{inside + sizeof(memory) - GAP_BYTES, FRAME_BYTES},
		{1, FRAME_BYTES},
		{UINT64_MAX - 16, UINT32_MAX},
		{inside, UINT32_MAX},
		{inside, VIRTIO_HEADER_BYTES},
		{UINT64_MAX, 40},
	};

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin(100 * MS);
		queue_at(bad[i].address, bad[i].bytes);
		look_until(begin_ns + 500 * MS);
		assert_int_equal(withdrawn, 1);
		assert_int_equal(astray, 1);
		assert_true(is_untouched());
		assert_int_equal(other[0] | other[VIRTIO_HEADER_BYTES], 0);
	}
	begin(100 * MS);
	queue_at((uintptr_t)memory, BUFFER_BYTES);
	queue_at(first[BUFFERS - 1] + BUFFER_BYTES - 40, 40);
	look_until(begin_ns + 500 * MS);
	assert_int_equal(withdrawn, 2);
	assert_int_equal(astray, 0);
	/* All frames that were taken last are withdrawn. */
	begin(100 * MS);
	queue();
	queue_at((uintptr_t)other, sizeof(other));
	queue();
	look_until(begin_ns + 500 * MS);
	assert_int_equal(withdrawn, 3);
	assert_int_equal(astray, 1);
}

TEST(no_check_without_a_connection)
{
	begin(100 * MS);
	queue();
	look_until(begin_ns + 50 * MS);
	assert_true(vhost_stalled(&stall));
	stall.context = NULL;
	look();
	assert_false(vhost_stalled(&stall));
	look_until(begin_ns + 500 * MS);
	assert_int_equal(reports, 0);
	vhost_stall_end(&stall);
	assert_null(due_run);
}
