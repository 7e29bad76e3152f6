/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop with gates, classes and strategies, with its real thread and clock and a fake port: which messages
 * leave, in which window and with which priority, and that nothing is lost when all of it changes. Exact
 * departure times depend on the machine and are not checked.
 */
#include "clock.h"
#include "commands.h"
#include "loop_rig.h"
#include "test_random.h"

#include <endian.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "unit_test.h"

#define MS INT64_C(1000000)

enum {
	SLOTS = 256,
	PACKETS = 1024,
	PRIORITIES = LOOP_PRIORITIES,
	TPID = 0x8100,
	HALF_CYCLE_MS = 40,
};

/* One process with one socket, and a destination for each priority. */
struct bench {
	struct rig rig;
	struct rig_ring ring;
	struct loop_flow *flow;
	struct loop_destination *destinations[PRIORITIES];
	const struct counters *counters;
	struct loop_gates *gates; /* the loop's current gates */
	uint32_t gates_given;
};

static void bench_create(struct bench *bench)
{
	memset(bench, 0, sizeof(*bench));
	rig_create(&bench->rig, &(struct rig_config){PACKETS, PACKETS, 10000, 10000});
	rig_ring_open(&bench->rig, &bench->ring, SLOTS);
	bench->flow = rig_flow_open(&bench->rig, &bench->ring, 0, 7, KTSN_CLOCK_TAI);
	bench->counters = loop_counters(bench->rig.loop);
	for (uint32_t i = 0; i < PRIORITIES; i++) {
		bench->destinations[i] =
			rig_destination_open(&bench->rig, &bench->ring, i, bench->flow, DESTINATION_RESOLVED);
		bench->destinations[i]->priority = (uint8_t)i;
	}
}

static void bench_init(struct bench *bench)
{
	bench_create(bench);
	rig_start(&bench->rig);
	rig_wait_commands(&bench->rig);
}

/* Closes everything as when the process ends. All gates but the last have come back. */
static void bench_fini(struct bench *bench)
{
	uint32_t gates_back = bench->gates_given ? bench->gates_given - 1 : 0;

	rig_wait_pending(&bench->rig, 0);
	for (uint32_t i = 0; i < PRIORITIES; i++)
		rig_destination_close(&bench->rig, &bench->ring, i);
	rig_flow_close(&bench->rig, &bench->ring, 0);
	rig_ring_close(&bench->rig, &bench->ring);
	rig_wait_retired(&bench->rig, PRIORITIES + 2 + gates_back);
	assert_int_equal(rig_ring_free_slots(&bench->ring), SLOTS);
	rig_fini(&bench->rig);
	rig_ring_fini(&bench->ring);
	free(bench->gates);
}

static void send_to(struct bench *bench, uint32_t priority, int64_t txtime_tai_ns)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", priority);
	rig_send(&bench->ring, &(struct rig_message){.destination = priority,
						     .clock = KTSN_CLOCK_TAI,
						     .txtime_ns = txtime_tai_ns,
						     .text = text});
}

/* Changes the gates as ktsnd's control thread does. */
static void gates_give(struct bench *bench, const struct ktsn_schedule *schedule)
{
	bench->gates = rig_gates_change(&bench->rig, bench->gates, schedule);
	bench->gates_given++;
}

static void classes_give(struct bench *bench, const struct loop_classes *classes)
{
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_CLASSES, .classes = *classes});
}

static void strategy_give(struct bench *bench, enum ktsn_strategy strategy)
{
	loop_command(bench->rig.loop, &(struct loop_command){.type = COMMAND_STRATEGY, .strategy = strategy});
}

/* ---- classes ---- */

static void priorities_are_counted_in(struct bench *bench, const uint8_t classes[PRIORITIES])
{
	uint64_t expected[KTSN_CLASSES];

	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		expected[class] = counter_read(&bench->counters->classes[class].sent);
	for (uint32_t priority = 0; priority < PRIORITIES; priority++) {
		send_to(bench, priority, clock_tai_ns());
		expected[classes[priority]]++;
	}
	rig_wait_pending(&bench->rig, 0);
	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		rig_wait_counter(&bench->rig, &bench->counters->classes[class].sent, expected[class]);
}

TEST(priorities_select_classes)
{
	/* IEEE Std 802.1Q-2022 table 8-5, eight classes; twice. */
	static const uint8_t standard[PRIORITIES] = {1, 0, 2, 3, 4, 5, 6, 7, 1, 0, 2, 3, 4, 5, 6, 7};
	struct loop_classes reversed = {.pcp = {0}};
	struct bench bench;

	bench_init(&bench);
	priorities_are_counted_in(&bench, standard);
	for (unsigned int priority = 0; priority < PRIORITIES; priority++)
		reversed.of_priority[priority] = (uint8_t)(7 - priority / 2);
	classes_give(&bench, &reversed);
	rig_wait_commands(&bench.rig);
	priorities_are_counted_in(&bench, reversed.of_priority);
	bench_fini(&bench);
}

static void tagged_frames_are_expected(struct bench *bench, size_t first, uint16_t vlan_id,
				       const uint8_t pcps[PRIORITIES])
{
	for (uint32_t priority = 0; priority < PRIORITIES; priority++) {
		uint32_t bytes;
		const uint8_t *frame;

		send_to(bench, priority, clock_tai_ns());
		rig_wait_counter(&bench->rig, &bench->counters->sent, first + priority + 1);
		frame = ktsn_port_fake_sent(bench->rig.port, first + priority, &bytes);
		assert_non_null(frame);
		assert_int_equal(frame[12] << 8 | frame[13], TPID);
		assert_int_equal(frame[14] << 8 | frame[15], pcps[priority] << 13 | vlan_id);
	}
}

TEST(vlan_frames_have_their_code_point)
{
	static const uint8_t standard[PRIORITIES] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7};
	static const uint8_t all_six[PRIORITIES] = {6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6};
	struct loop_classes classes = loop_classes_default();
	struct loop_route route = rig_route(DESTINATION_RESOLVED);
	struct bench bench;

	bench_init(&bench);
	route.tunnel.vlan_id = 100;
	for (uint32_t i = 0; i < PRIORITIES; i++)
		loop_command(bench.rig.loop, &(struct loop_command){.type = COMMAND_DESTINATION_UPDATE,
								    .destination = bench.destinations[i],
								    .route = route});
	rig_wait_commands(&bench.rig);
	tagged_frames_are_expected(&bench, 0, 100, standard);
	memset(classes.pcp, 6, sizeof(classes.pcp));
	classes_give(&bench, &classes);
	rig_wait_commands(&bench.rig);
	tagged_frames_are_expected(&bench, PRIORITIES, 100, all_six);
	bench_fini(&bench);
}

/* ---- gates ---- */

/* The first half of the cycle belongs to class 7, the second to the others. */
static struct ktsn_schedule halves(void)
{
	return (struct ktsn_schedule){
		.gate_enabled = true,
		.gate_states = 0xff,
		.cycle_time_ns = 2 * HALF_CYCLE_MS * MS,
		.entry_count = 2,
		.entries = {{HALF_CYCLE_MS * MS, 0x80}, {HALF_CYCLE_MS * MS, 0x7f}},
	};
}

static void departures_check(struct bench *bench, const struct ktsn_schedule *schedule, int64_t from_tai_ns,
			     uint32_t count)
{
	struct departure records[PRIORITIES * 8];

	rig_departures(&bench->rig, 0, records, PRIORITIES * 8, count);
	for (uint32_t i = 0; i < count; i++) {
		char text[RIG_PAYLOAD_BYTES];
		int64_t departed_tai_ns = records[i].departed_tai_ns;
		bool first_half = departed_tai_ns % schedule->cycle_time_ns < HALF_CYCLE_MS * MS;

		/* Departures and frames have the same order. Priorities 7 and 15 are class 7. */
		rig_sent_text(&bench->rig, i, text);
		assert_true(departed_tai_ns >= records[i].requested_tai_ns);
		assert_true(departed_tai_ns >= from_tai_ns);
		assert_int_equal(first_half, strtoul(text, NULL, 10) % 8 == 7);
	}
}

TEST(frames_leave_in_their_windows)
{
	const struct ktsn_schedule schedule = halves();
	struct bench bench;
	int64_t from_tai_ns;

	bench_init(&bench);
	gates_give(&bench, &schedule);
	rig_wait_commands(&bench.rig);
	from_tai_ns = bench.gates->gates.config_change_tai_ns;
	/* Over two cycles: about half of them ask for a time at which their gate is shut. */
	for (uint32_t i = 0; i < PRIORITIES * 4; i++)
		send_to(&bench, i % PRIORITIES, from_tai_ns + i * 4 * HALF_CYCLE_MS * MS / (PRIORITIES * 4));
	rig_wait_counter(&bench.rig, &bench.counters->sent, PRIORITIES * 4);
	departures_check(&bench, &schedule, from_tai_ns, PRIORITIES * 4);
	assert_true(counter_read(&bench.counters->late_gate) > 0);
	bench_fini(&bench);
}

TEST(overlong_messages_are_dropped)
{
	struct ktsn_schedule schedule = {.gate_enabled = true,
					 .cycle_time_ns = MS,
					 .entry_count = 1,
					 .entries = {{1000000, 0x7f}},
					 .queue_max_sdu_bytes = {[3] = 46}};
	struct bench bench;

	bench_init(&bench);
	gates_give(&bench, &schedule);
	rig_wait_commands(&bench.rig);
	/* From the next cycle on, at most a millisecond away, class 7 has no window and class 3 has a
	 * limit. */
	send_to(&bench, 7, clock_tai_ns() + 3 * MS);
	rig_wait_counter(&bench.rig, &bench.counters->drop_no_window, 1);
	send_to(&bench, 3, clock_tai_ns());
	rig_wait_counter(&bench.rig, &bench.counters->drop_max_sdu, 1);
	send_to(&bench, 4, clock_tai_ns());
	rig_wait_counter(&bench.rig, &bench.counters->sent, 1);
	assert_int_equal(counter_read(&bench.counters->classes[7].dropped), 1);
	assert_int_equal(counter_read(&bench.counters->classes[3].dropped), 1);
	bench_fini(&bench);
}

TEST(each_overrun_is_a_departure)
{
	enum { MESSAGES = 4 * PRIORITIES };
	/* Shorter than the send: most frames are on the link when their gate shuts, and some may not be. */
	const struct ktsn_schedule schedule = {.gate_enabled = true,
					       .cycle_time_ns = 2000,
					       .entry_count = 2,
					       .entries = {{300, 0xff}, {1700, 0}}};
	struct departure records[MESSAGES];
	struct bench bench;
	uint64_t counted = 0, recorded = 0;

	bench_init(&bench);
	gates_give(&bench, &schedule);
	rig_wait_commands(&bench.rig);
	for (uint32_t i = 0; i < MESSAGES; i++)
		send_to(&bench, i % PRIORITIES, clock_tai_ns());
	rig_wait_counter(&bench.rig, &bench.counters->sent, MESSAGES);
	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		counted += counter_read(&bench.counters->classes[class].transmission_overrun);
	rig_departures(&bench.rig, 0, records, MESSAGES, MESSAGES);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		recorded += records[i].overrun;
		assert_int_equal(records[i].flow, 7);
	}
	assert_true(counted > 0);
	assert_int_equal(recorded, counted);
	bench_fini(&bench);
}

TEST(replaced_gates_come_back)
{
	const struct ktsn_schedule schedule = halves();
	struct bench bench;

	bench_init(&bench);
	for (uint32_t i = 0; i < 10; i++)
		gates_give(&bench, &schedule);
	rig_wait_retired(&bench.rig, 9);
	for (uint32_t i = 0; i < 9; i++)
		assert_int_equal(bench.rig.retired[i], LOOP_GATES);
	bench_fini(&bench);
}

TEST(disabled_gates_release_messages)
{
	struct ktsn_schedule shut = {.gate_enabled = true,
				     .cycle_time_ns = 3600000 * MS,
				     .entry_count = 2,
				     .entries = {{4000000000U, 0}, {1000000, 0xff}}};
	struct ktsn_schedule disabled;
	struct bench bench;

	bench_init(&bench);
	/* Shut until the cycle begins, and for four more seconds. */
	shut.base_time_tai_ns = clock_tai_ns() + MS;
	gates_give(&bench, &shut);
	rig_wait_commands(&bench.rig);
	ktsn_schedule_init(&disabled);
	for (uint32_t priority = 0; priority < PRIORITIES; priority++)
		send_to(&bench, priority, clock_tai_ns());
	rig_wait_counter(&bench.rig, &bench.counters->taken, PRIORITIES);
	rig_wait_pending(&bench.rig, PRIORITIES);
	gates_give(&bench, &disabled);
	rig_wait_counter(&bench.rig, &bench.counters->sent, PRIORITIES);
	bench_fini(&bench);
}

/* ---- changes under load ---- */

struct load {
	struct bench *bench;
	_Atomic bool over;
	_Atomic uint64_t sent;
};

static void *load_run(void *argument)
{
	struct load *load = argument;
	struct test_random random = {clock_tai_ns()};

	while (!atomic_load(&load->over)) {
		uint32_t priority = (uint32_t)test_random_below(&random, PRIORITIES);

		send_to(load->bench, priority,
			clock_tai_ns() - MS + (int64_t)test_random_below(&random, 20 * MS));
		atomic_fetch_add(&load->sent, 1);
		if (test_random_below(&random, 20) == 0)
			usleep(200);
	}
	return NULL;
}

static struct loop_classes random_classes(struct test_random *random)
{
	struct loop_classes classes;

	for (uint32_t priority = 0; priority < PRIORITIES; priority++)
		classes.of_priority[priority] = (uint8_t)test_random_below(random, KTSN_CLASSES);
	for (uint32_t class = 0; class < KTSN_CLASSES; class ++)
		classes.pcp[class] = (uint8_t)test_random_below(random, 8);
	return classes;
}

/* Each class is open once in two milliseconds, so no message waits for long. */
static struct ktsn_schedule random_schedule(struct test_random *random)
{
	struct ktsn_schedule schedule = {.gate_enabled = test_random_below(random, 4) > 0,
					 .gate_states = 0xff,
					 .cycle_time_ns = 2 * MS,
					 .entry_count = 4};

	schedule.base_time_tai_ns = clock_tai_ns() - MS + (int64_t)test_random_below(random, 4 * MS);
	for (uint32_t i = 0; i < 4; i++)
		schedule.entries[i] = (struct ktsn_gate_entry){
			500000, (uint8_t)(test_random_next(random) | (i == 3 ? 0xff : 0))};
	return schedule;
}

static void change_something(struct bench *bench, struct test_random *random)
{
	struct loop_classes classes = random_classes(random);
	struct ktsn_schedule schedule = random_schedule(random);

	switch (test_random_below(random, 3)) {
	case 0:
		strategy_give(bench, (enum ktsn_strategy)test_random_below(random, KTSN_STRATEGIES));
		break;
	case 1:
		classes_give(bench, &classes);
		break;
	default:
		gates_give(bench, &schedule);
		break;
	}
	rig_collect(&bench->rig);
}

TEST(changes_under_load_lose_nothing)
{
	struct test_random random = test_random_seeded(__func__);
	struct bench bench;
	struct load load = {.bench = &bench};
	pthread_t thread;

	bench_init(&bench);
	assert_int_equal(pthread_create(&thread, NULL, load_run, &load), 0);
	for (int i = 0; i < 300; i++) {
		change_something(&bench, &random);
		usleep((useconds_t)test_random_below(&random, 4000));
	}
	atomic_store(&load.over, true);
	pthread_join(thread, NULL);
	strategy_give(&bench, KTSN_STRATEGY_TAS);
	rig_wait_counter(&bench.rig, &bench.counters->taken, atomic_load(&load.sent));
	rig_wait_pending(&bench.rig, 0);
	assert_int_equal(counter_read(&bench.counters->taken),
			 counter_read(&bench.counters->sent) + rig_drops(&bench.rig));
	/* Only the two strategies that drop late messages have dropped any. */
	assert_int_equal(rig_drops(&bench.rig), counter_read(&bench.counters->drop_txtime) +
							counter_read(&bench.counters->drop_missed));
	for (unsigned int class = 0; class < KTSN_CLASSES; class ++)
		assert_int_equal(counter_read(&bench.counters->classes[class].pending), 0);
	bench_fini(&bench);
}

/* Always due, and never empty. */
static void *flood_run(void *argument)
{
	struct load *load = argument;

	while (!atomic_load(&load->over)) {
		send_to(load->bench, 0, clock_tai_ns() - MS);
		atomic_fetch_add(&load->sent, 1);
	}
	return NULL;
}

TEST(flood_delays_no_other_ring)
{
	enum { MESSAGES = 100 };
	struct bench bench;
	struct load load = {.bench = &bench};
	struct rig_ring other;
	struct loop_flow *flow;
	pthread_t thread;

	bench_create(&bench);
	rig_ring_open(&bench.rig, &other, SLOTS);
	flow = rig_flow_open(&bench.rig, &other, 0, 8, KTSN_CLOCK_TAI);
	rig_destination_open(&bench.rig, &other, 0, flow, DESTINATION_RESOLVED)->priority = 7;
	rig_start(&bench.rig);
	rig_wait_commands(&bench.rig);
	assert_int_equal(pthread_create(&thread, NULL, flood_run, &load), 0);
	for (uint64_t i = 0; i < MESSAGES; i++) {
		rig_send(&other, &(struct rig_message){.clock = KTSN_CLOCK_TAI,
						       .txtime_ns = clock_tai_ns() + MS,
						       .text = "other"});
		/* It leaves while the flood continues, or this waits in vain. */
		rig_wait_counter(&bench.rig, &bench.counters->classes[7].sent, i + 1);
	}
	atomic_store(&load.over, true);
	pthread_join(thread, NULL);
	rig_wait_counter(&bench.rig, &bench.counters->taken, atomic_load(&load.sent) + MESSAGES);
	rig_wait_pending(&bench.rig, 0);
	rig_destination_close(&bench.rig, &other, 0);
	rig_flow_close(&bench.rig, &other, 0);
	rig_ring_close(&bench.rig, &other);
	rig_wait_retired(&bench.rig, 3);
	bench.rig.retired_count = 0;
	bench_fini(&bench);
	rig_ring_fini(&other);
}

/* The application's time of its call decides, unless a false time would be to its advantage. */
TEST(etf_uses_the_hand_over_time)
{
	const struct {
		int64_t called_ns; /* from now */
		int64_t txtime_ns;
		bool absolute; /* equal to called_ns */
		enum { SENT, MISSED, REFUSED } becomes;
	} cases[] = {
		{.called_ns = -10 * MS, .txtime_ns = -5 * MS, .becomes = MISSED},  /* ktsnd was late */
		{.called_ns = -5 * MS, .txtime_ns = -10 * MS, .becomes = REFUSED}, /* the application was */
		{.called_ns = 0,
		 .txtime_ns = -5 * MS,
		 .absolute = true,
		 .becomes = REFUSED}, /* it does not report the time */
		{.called_ns = 1000 * MS,
		 .txtime_ns = -5 * MS,
		 .becomes = REFUSED}, /* false times of all kinds */
		{.called_ns = INT64_MAX, .txtime_ns = -5 * MS, .absolute = true, .becomes = REFUSED},
		{.called_ns = INT64_MIN, .txtime_ns = -5 * MS, .absolute = true, .becomes = REFUSED},
		{.called_ns = 1, .txtime_ns = -5 * MS, .absolute = true, .becomes = MISSED},
		{.called_ns = 2 * 1000 * MS, .txtime_ns = 1000 * MS, .becomes = SENT},
		{.called_ns = 1, .txtime_ns = 1000 * MS, .absolute = true, .becomes = SENT},
	};
	uint64_t became[REFUSED + 1] = {0};
	struct bench bench;

	bench_create(&bench);
	rig_start(&bench.rig);
	strategy_give(&bench, KTSN_STRATEGY_ETF);
	rig_wait_commands(&bench.rig);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t now_tai_ns = clock_tai_ns();

		rig_send(&bench.ring,
			 &(struct rig_message){
				 .clock = KTSN_CLOCK_TAI,
				 .txtime_ns = now_tai_ns + cases[i].txtime_ns,
				 .text = "handed",
				 .called_tai_ns = cases[i].called_ns + (cases[i].absolute ? 0 : now_tai_ns),
			 });
		became[cases[i].becomes]++;
		if (cases[i].becomes == SENT)
			continue;
		rig_wait_counter(&bench.rig, &bench.counters->drop_missed, became[MISSED]);
		rig_wait_counter(&bench.rig, &bench.counters->drop_txtime, became[REFUSED]);
	}
	rig_wait_counter(&bench.rig, &bench.counters->taken, sizeof(cases) / sizeof(cases[0]));
	rig_wait_pending(&bench.rig, 0);
	/* Messages for a future time are dropped only if the machine slept through it. */
	assert_int_equal(counter_read(&bench.counters->drop_missed) - became[MISSED] +
				 counter_read(&bench.counters->sent),
			 became[SENT]);
	assert_int_equal(counter_read(&bench.counters->drop_txtime), became[REFUSED]);
	bench_fini(&bench);
}
