/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel never stops a loop that rests, and a busy loop hears its doorbells. The loop runs in a simulated
 * machine: the clock advances with each reading and by the length of a frame, a sleep ends late, and the
 * kernel charges all time that is not sleep and stops a loop that has used up the runtime of a period. The
 * load of the real machine changes nothing.
 */
#include "loop_rig.h"

#include "clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "unit_test.h"

#define BEGAN_NS INT64_C(1000000000000)
#define MS       INT64_C(1000000)

enum {
	LOOK_NS = 50,
	CALL_NS = 300,
	FRAME_NS = 4000,
	/* Falling asleep and waking up, which are charged. A timer that is nearer expires before the
	 * thread sleeps. */
	SLEEP_COST_NS = 8000,
	SHORTEST_NS = 6000,
	/* Every sleep ends this late, and one in LATE_ONE_IN later, the first among them: the loop then
	 * keeps its lead. */
	LATE_NS = 8000,
	VERY_LATE_NS = 50000,
	LATE_ONE_IN = 200,
	SLOTS = 4096,
	FLOW = 1,
};

/* The loop thread's, except for the first part. */
static struct {
	/* Set by the test before the loop runs. */
	pthread_t test;
	const struct ktsn_port *port;
	int64_t runtime_ns, period_ns; /* 0: the kernel never stops the loop */
	int64_t gone_at_ns, gone_ns;   /* then the processor is away for this long */
	bool gone_by_kernel;
	bool punctual;     /* no sleep ends very late */
	int64_t paused_ns; /* and soon after by the machine for this long */
	struct loop
		*granted_all; /* notified in its next rest that the kernel no longer stops it; NULL: not */
	/* Results. */
	int64_t looked_ns, asleep_ns, stopped_ns;
	int64_t frames, sleeps;
	int64_t charged_ns; /* by the kernel, up to the last reading */
	int64_t used_ns;    /* of the budget */
	int64_t period_end_ns;
	int64_t waited_ns;
	int64_t longest_rest_ns; /* without hearing doorbells, before the last message left */
	int64_t doorbells_ns,
		longest_deaf_ns; /* the last look at the doorbells, and the longest time without one */
	_Atomic int stops;
} world;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *asked, struct timespec *left);
int __real_epoll_pwait2(int fd, struct epoll_event *events, int most, const struct timespec *timeout,
			const sigset_t *mask);
int __wrap_epoll_pwait2(int fd, struct epoll_event *events, int most, const struct timespec *timeout,
			const sigset_t *mask);
ssize_t __wrap_pread64(int fd, void *buffer, size_t bytes, off_t offset);

static int64_t awake_ns(void)
{
	return world.looked_ns + (int64_t)ktsn_port_fake_sent_count(world.port) * FRAME_NS;
}

static int64_t now_ns(void)
{
	return BEGAN_NS + awake_ns() + world.asleep_ns + world.stopped_ns;
}

/* As in kernel/sched/rt.c: each period takes off one runtime. */
static void periods_pass(void)
{
	while (now_ns() >= world.period_end_ns) {
		world.period_end_ns += world.period_ns;
		world.used_ns -= world.used_ns < world.runtime_ns ? world.used_ns : world.runtime_ns;
	}
}

static void charge(void)
{
	int64_t charged_ns = awake_ns();

	world.used_ns += charged_ns - world.charged_ns;
	world.charged_ns = charged_ns;
	if (!world.period_ns)
		return;
	periods_pass();
	while (world.used_ns > world.runtime_ns) {
		int64_t stopped_ns = world.period_end_ns - now_ns();

		atomic_fetch_add(&world.stops, 1);
		world.stopped_ns += stopped_ns;
		world.waited_ns += stopped_ns;
		periods_pass();
	}
}

static void be_gone(void)
{
	if (!world.gone_ns || now_ns() < world.gone_at_ns)
		return;
	world.stopped_ns += world.gone_ns;
	if (world.gone_by_kernel)
		world.waited_ns += world.gone_ns;
	world.gone_ns = world.paused_ns;
	world.gone_at_ns = now_ns() + 20 * MS;
	world.gone_by_kernel = false;
	world.paused_ns = 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	int64_t time_ns;

	if (pthread_equal(pthread_self(), world.test) || !world.port)
		return __real_clock_gettime(clock, now);
	world.looked_ns += LOOK_NS;
	charge();
	be_gone();
	time_ns = clock == CLOCK_THREAD_CPUTIME_ID ? awake_ns() : now_ns();
	*now = (struct timespec){.tv_sec = time_ns / NS_PER_SECOND, .tv_nsec = time_ns % NS_PER_SECOND};
	return 0;
}

static void world_sleep(int64_t asked_ns)
{
	bool very_late = !world.punctual && world.sleeps++ % LATE_ONE_IN == 0;

	world.looked_ns += SLEEP_COST_NS;
	if (asked_ns >= SHORTEST_NS)
		world.asleep_ns += asked_ns + (very_late ? VERY_LATE_NS : LATE_NS);
	charge();
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *asked, struct timespec *left)
{
	if (world.granted_all)
		loop_budget_set(world.granted_all, 0, 0);
	world.granted_all = NULL;
	if (asked->tv_nsec > world.longest_rest_ns && ktsn_port_fake_sent_count(world.port) < SLOTS)
		world.longest_rest_ns = asked->tv_nsec;
	world_sleep(asked->tv_sec * NS_PER_SECOND + asked->tv_nsec);
	return 0;
}

int __wrap_epoll_pwait2(int fd, struct epoll_event *events, int most, const struct timespec *timeout,
			const sigset_t *mask)
{
	const struct timespec at_once = {0};
	int count = __real_epoll_pwait2(fd, events, most, timeout ? &at_once : NULL, mask);

	world.looked_ns += CALL_NS;
	if (now_ns() > BEGAN_NS + 10 * MS && now_ns() - world.doorbells_ns > world.longest_deaf_ns)
		world.longest_deaf_ns = now_ns() - world.doorbells_ns;
	world.doorbells_ns = now_ns();
	if (count == 0 && timeout->tv_sec + timeout->tv_nsec > 0)
		world_sleep(timeout->tv_sec * NS_PER_SECOND + timeout->tv_nsec);
	return count;
}

/* The value in schedstat, the only one that the loop reads. */
ssize_t __wrap_pread64(int fd, void *buffer, size_t bytes, off_t offset)
{
	return snprintf(buffer, bytes, "%lld %lld 1\n", (long long)awake_ns(), (long long)world.waited_ns);
}

struct bench {
	struct rig rig;
	struct rig_ring ring;
};

/* A ring full of messages, `spacing_ns` apart. */
static struct bench *bench_create(int64_t spacing_ns)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	struct loop_flow *flow;

	assert_non_null(bench);
	memset(&world, 0, sizeof(world));
	world.test = pthread_self();
	rig_create(&bench->rig, &(struct rig_config){SLOTS, SLOTS, 10000, NS_PER_SECOND});
	rig_ring_open(&bench->rig, &bench->ring, SLOTS);
	flow = rig_flow_open(&bench->rig, &bench->ring, 0, FLOW, KTSN_CLOCK_TAI);
	rig_destination_open(&bench->rig, &bench->ring, 0, flow, DESTINATION_RESOLVED);
	for (int i = 0; i < SLOTS; i++)
		rig_send(&bench->ring, &(struct rig_message){.clock = KTSN_CLOCK_TAI,
							     .txtime_ns = BEGAN_NS + 5 * MS + i * spacing_ns,
							     .text = "m"});
	return bench;
}

/* The budget that the kernel grants, and where in the kernel's period the loop begins. */
static void kernel_grants(int64_t runtime_ns, int64_t period_ns, int64_t phase_ns)
{
	world.runtime_ns = runtime_ns;
	world.period_ns = period_ns;
	world.period_end_ns = BEGAN_NS + phase_ns;
}

static void loop_gets_budget(const struct bench *bench)
{
	loop_budget_set(bench->rig.loop, (uint32_t)(world.runtime_ns / 1000),
			(uint32_t)(world.period_ns / 1000));
}

/* Lets all messages leave. */
static void bench_run(struct bench *bench)
{
	world.port = bench->rig.port;
	rig_start(&bench->rig);
	rig_wait_counter(&bench->rig, &loop_counters(bench->rig.loop)->sent, SLOTS);
}

/* The same under a budget that the loop knows; `phase_ns` from its beginning, the first period ends.
 * Returns the loop's status of the budget. */
static struct loop_budget_use bench_run_granted(struct bench *bench, int64_t runtime_ns, int64_t period_ns,
						int64_t phase_ns)
{
	kernel_grants(runtime_ns, period_ns, phase_ns);
	loop_gets_budget(bench);
	bench_run(bench);
	return loop_budget_use(bench->rig.loop);
}

/* Counts messages that left later than that; *most_ns is the lateness of the last of them. */
static int late_count(struct bench *bench, int64_t late_ns, int64_t *most_ns)
{
	int late = 0;

	*most_ns = 0;
	for (int i = 0; i < SLOTS; i++) {
		struct departure departure;
		int64_t error_ns;

		rig_departures(&bench->rig, i, &departure, 1, 1);
		error_ns = departure.departed_tai_ns - departure.requested_tai_ns;
		late += error_ns > late_ns;
		if (error_ns > *most_ns)
			*most_ns = error_ns;
	}
	return late;
}

static void bench_destroy(struct bench *bench)
{
	rig_application_close(&bench->rig, &bench->ring);
	rig_wait_retired(&bench->rig, 3);
	rig_fini(&bench->rig);
	rig_ring_fini(&bench->ring);
	free(bench);
}

/* The rig's lead is 60 us: gaps of 70 us are too short for an ordinary sleep. */
TEST(loop_rests_between_departures)
{
	for (int64_t phase_ns = 0; phase_ns < 50 * MS; phase_ns += 20 * MS) {
		struct bench *bench = bench_create(70000);
		struct loop_budget_use use;
		int64_t most_ns;

		use = bench_run_granted(bench, 475 * MS / 10, 50 * MS, phase_ns);
		assert_int_equal(atomic_load(&world.stops), 0);
		assert_int_equal(use.stops, 0);
		assert_true(use.rests > 0);
		assert_int_equal(use.rests_forced, 0);
		/* Only the rests that ended very late. */
		assert_true(late_count(bench, 10000, &most_ns) < SLOTS / 100);
		assert_true(most_ns < 100000);
		assert_in_range(use.most_used_ns, 40 * MS, 475 * MS / 10);
		bench_destroy(bench);
	}
}

/* The loop learns from rests: at first no gap is long enough for its initial lead. */
TEST(punctual_machine_sleeps_in_short_gaps)
{
	struct bench *bench = bench_create(70000);
	int64_t most_ns;

	world.punctual = true;
	(void)bench_run_granted(bench, 950 * MS, 1000 * MS, 0);
	/* Only those before the loop had learnt the lead of its rests. */
	assert_true(late_count(bench, 1000, &most_ns) < SLOTS / 100);
	assert_true(most_ns < 20000);
	bench_destroy(bench);
	/* Awake all the time except for its rests, it would use almost the whole budget. */
	assert_true(world.looked_ns + (int64_t)SLOTS * FRAME_NS < SLOTS * INT64_C(70000) * 7 / 10);
}

/* No rest of that length fits into a gap of 12 us, of which a frame takes 4. */
TEST(loop_rests_without_long_gaps)
{
	for (int64_t phase_ns = 0; phase_ns < 10 * MS; phase_ns += 4 * MS) {
		struct bench *bench = bench_create(12000);
		struct loop_budget_use use;
		int64_t most_ns;

		use = bench_run_granted(bench, 95 * MS / 10, 10 * MS, phase_ns);
		assert_int_equal(atomic_load(&world.stops), 0);
		assert_true(use.rests_forced > 0);
		/* A stop would last half a millisecond. */
		(void)late_count(bench, 0, &most_ns);
		assert_true(most_ns < 150000);
		bench_destroy(bench);
	}
}

/* With a backlog there is no gap. Many short rests delay each message less than a long one. */
TEST(rests_are_short_with_a_backlog)
{
	struct bench *bench = bench_create(3000);
	struct loop_budget_use use;

	use = bench_run_granted(bench, 475 * MS / 10, 50 * MS, 0);
	bench_destroy(bench);
	assert_int_equal(atomic_load(&world.stops), 0);
	assert_true(use.rests_forced > 0);
	assert_in_range(world.longest_rest_ns, 1, 40000);
}

/* A container may have a fifth of a processor: a loop that is awake for 75 of 200 us would use more. */
TEST(small_budget_sleeps_longer)
{
	struct bench *bench = bench_create(200000);
	struct loop_budget_use use;

	use = bench_run_granted(bench, 20 * MS, 100 * MS, 0);
	assert_int_equal(atomic_load(&world.stops), 0);
	assert_true(use.most_used_ns <= 20 * MS);
	assert_true(use.rests > 0);
	bench_destroy(bench);
}

/* While the loop rests. */
TEST(budget_may_end_anytime)
{
	struct bench *bench = bench_create(12000);

	kernel_grants(95 * MS / 10, 10 * MS, 0);
	loop_gets_budget(bench);
	world.period_ns = 0;
	world.granted_all = bench->rig.loop;
	bench_run(bench);
	assert_int_equal(loop_budget_use(bench->rig.loop).period_ns, 0);
	bench_destroy(bench);
	/* It did rest. */
	assert_null(world.granted_all);
}

/* A doorbell must not wait for a gap that never comes while a departure is always near. */
TEST(doorbells_between_dense_departures)
{
	struct bench *bench = bench_create(15000);
	int64_t most_ns;

	bench_run(bench);
	assert_int_equal(late_count(bench, 1000, &most_ns), 0);
	bench_destroy(bench);
	assert_true(world.longest_deaf_ns > 0);
	assert_true(world.longest_deaf_ns < 30000);
}

/* A loop that does not rest is stopped; otherwise the tests above would show nothing. */
TEST(loop_without_known_budget_is_stopped)
{
	struct bench *bench = bench_create(70000);
	int64_t most_ns;

	kernel_grants(475 * MS / 10, 50 * MS, 0);
	bench_run(bench);
	assert_true(atomic_load(&world.stops) > 0);
	assert_true(late_count(bench, MS, &most_ns) > 0);
	bench_destroy(bench);
}

TEST(stops_differ_from_machine_pauses)
{
	for (int by_kernel = 0; by_kernel < 2; by_kernel++) {
		struct bench *bench = bench_create(70000);
		struct loop_budget_use use;

		world.gone_at_ns = BEGAN_NS + 100 * MS;
		world.gone_ns = 45 * MS;
		world.gone_by_kernel = by_kernel;
		use = bench_run_granted(bench, 950 * MS, 1000 * MS, 0);
		assert_int_equal(use.stops, by_kernel);
		assert_int_equal(use.host_pauses, !by_kernel);
		if (by_kernel)
			assert_in_range(use.stopped_ns, 44 * MS, 46 * MS);
		bench_destroy(bench);
	}
}

/* The time during which it was stopped is not counted again. */
TEST(pause_soon_after_a_stop_is_a_pause)
{
	struct bench *bench = bench_create(70000);
	struct loop_budget_use use;

	world.gone_at_ns = BEGAN_NS + 100 * MS;
	world.gone_ns = 45 * MS;
	world.gone_by_kernel = true;
	world.paused_ns = 45 * MS;
	use = bench_run_granted(bench, 950 * MS, 1000 * MS, 0);
	assert_int_equal(use.stops, 1);
	assert_int_equal(use.host_pauses, 1);
	bench_destroy(bench);
}

/* A status with the old budget's use and the new budget would be inconsistent. */
TEST(use_belongs_to_the_current_budget)
{
	struct bench *bench = bench_create(12000);
	struct loop_budget_use use;

	use = bench_run_granted(bench, 40 * MS, 50 * MS, 0);
	assert_true(use.most_used_ns > 5 * MS);
	loop_budget_set(bench->rig.loop, 5000, 10000);
	rig_send(&bench->ring, &(struct rig_message){.clock = KTSN_CLOCK_TAI, .txtime_ns = 0, .text = "m"});
	rig_wait_counter(&bench->rig, &loop_counters(bench->rig.loop)->sent, SLOTS + 1);
	use = loop_budget_use(bench->rig.loop);
	assert_int_equal(use.period_ns, 10 * MS);
	assert_true(use.most_used_ns <= 5 * MS);
	bench_destroy(bench);
}
