/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything at once for RUN_MS: processes whose threads send through sockets that are closed and opened
 * again, to destinations that come and go, through a port that refuses and fails, with too little memory.
 * Every sent message is accounted for, none leaves early, and every object comes back.
 */
#include "clock.h"
#include "loop_rig.h"
#include "test_random.h"

#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

#include "unit_test.h"

enum {
	RUN_MS = 1500,
	RINGS = 3,
	THREADS = 4, /* more than rings: two share the first */
	FLOWS = 4,
	SLOTS = 128,
	PACKETS = 200, /* fewer than the rings' slots together */
	PAGE = 1000,
	NS_PER_US = 1000,
};

struct process {
	struct rig_ring ring;
	struct loop_flow *flows[FLOWS];
	struct loop_destination *destinations[FLOWS];
	_Atomic uint32_t numbers[FLOWS]; /* of both flow and destination */
	uint32_t next_number;
};

struct stress {
	struct rig rig;
	struct process processes[RINGS];
	struct test_random random; /* the control thread's */
	uint64_t flows_opened;
	uint64_t departures_read;
	_Atomic bool over;
	_Atomic uint64_t published;
};

struct sender {
	struct stress *stress;
	struct process *process;
	struct test_random random;
	pthread_t id;
};

static void send_one(struct sender *sender, bool timely)
{
	uint32_t socket = (uint32_t)test_random_below(&sender->random, FLOWS + 1);
	uint32_t number =
		socket < FLOWS ? atomic_load(&sender->process->numbers[socket]) : LOOP_FLOWS_PER_RING;
	int64_t offset_us = (int64_t)test_random_below(&sender->random, timely ? 2000 : 6000) - 1000;

	/* One in FLOWS + 1 has no flow and is refused. */
	rig_send(&sender->process->ring,
		 &(struct rig_message){.flow = number,
				       .destination = number,
				       .clock = KTSN_CLOCK_TAI,
				       .txtime_ns = clock_tai_ns() + offset_us * NS_PER_US,
				       .text = "stress"});
	atomic_fetch_add(&sender->stress->published, 1);
}

static void *send_all(void *argument)
{
	struct sender *sender = argument;

	while (!atomic_load(&sender->stress->over)) {
		/* Bursts that fill the ring, and pauses in which the loop falls asleep. */
		for (uint64_t i = test_random_below(&sender->random, 50); i > 0; i--)
			send_one(sender, i % 2);
		usleep((useconds_t)test_random_below(&sender->random, 3000));
	}
	return NULL;
}

static void socket_open(struct stress *stress, struct process *process, uint32_t index)
{
	/* A number is free again when its flow has been retired: the one unused for longest has been. */
	uint32_t number = process->next_number++ % LOOP_FLOWS_PER_RING;

	process->flows[index] =
		rig_flow_open(&stress->rig, &process->ring, number, ++stress->flows_opened, KTSN_CLOCK_TAI);
	process->destinations[index] = rig_destination_open(&stress->rig, &process->ring, number,
							    process->flows[index], DESTINATION_RESOLVED);
	atomic_store(&process->numbers[index], number);
}

/* Pending destinations get an answer first. */
static void socket_close(struct stress *stress, struct process *process, uint32_t index)
{
	rig_destination_update(&stress->rig, process->destinations[index], DESTINATION_RESOLVED);
	rig_destination_close(&stress->rig, &process->ring, atomic_load(&process->numbers[index]));
	rig_flow_close(&stress->rig, &process->ring, atomic_load(&process->numbers[index]));
}

static void port_disturb(struct stress *stress)
{
	uint32_t count = (uint32_t)test_random_below(&stress->random, 5);

	if (test_random_below(&stress->random, 2))
		ktsn_port_fake_limit_next(stress->rig.port, count,
					  (uint32_t)test_random_below(&stress->random, 3));
	else
		ktsn_port_fake_fail_next(stress->rig.port, count);
}

static void check_new_departures(struct stress *stress)
{
	static struct departure records[PAGE];
	uint64_t overwritten;
	uint32_t count = departures_read(loop_departures(stress->rig.loop), stress->departures_read, PAGE,
					 records, &overwritten);

	for (uint32_t i = 0; i < count; i++) {
		assert_true(records[i].departed_tai_ns >= records[i].requested_tai_ns);
		assert_true(records[i].flow > 0 && records[i].flow <= stress->flows_opened);
	}
	stress->departures_read += overwritten + count;
}

static void control_one(struct stress *stress)
{
	struct process *process = &stress->processes[test_random_below(&stress->random, RINGS)];
	uint32_t index = (uint32_t)test_random_below(&stress->random, FLOWS);

	switch (test_random_below(&stress->random, 4)) {
	case 0:
		socket_close(stress, process, index);
		socket_open(stress, process, index);
		break;
	case 1:
		port_disturb(stress);
		break;
	default:
		rig_destination_update(&stress->rig, process->destinations[index],
				       (enum loop_destination_state)test_random_below(&stress->random, 4));
		break;
	}
	check_new_departures(stress);
	rig_collect(&stress->rig);
}

static void all_open(struct stress *stress)
{
	rig_init(&stress->rig, &(struct rig_config){PACKETS, PACKETS, 1000000, 1000000});
	for (int i = 0; i < RINGS; i++) {
		rig_ring_open(&stress->rig, &stress->processes[i].ring, SLOTS);
		for (uint32_t index = 0; index < FLOWS; index++)
			socket_open(stress, &stress->processes[i], index);
	}
}

static void all_close(struct stress *stress)
{
	for (int i = 0; i < RINGS; i++) {
		for (uint32_t index = 0; index < FLOWS; index++)
			socket_close(stress, &stress->processes[i], index);
		rig_ring_close(&stress->rig, &stress->processes[i].ring);
	}
	rig_wait_retired(&stress->rig, (uint32_t)(2 * stress->flows_opened + RINGS));
}

static void senders_run(struct stress *stress)
{
	int64_t end_ns = clock_ns(CLOCK_MONOTONIC) + (int64_t)RUN_MS * 1000 * NS_PER_US;
	struct sender senders[THREADS];

	for (int i = 0; i < THREADS; i++) {
		senders[i] = (struct sender){.stress = stress,
					     .process = &stress->processes[i % RINGS],
					     .random.state = test_random_next(&stress->random)};
		assert_int_equal(pthread_create(&senders[i].id, NULL, send_all, &senders[i]), 0);
	}
	while (clock_ns(CLOCK_MONOTONIC) < end_ns) {
		control_one(stress);
		usleep((useconds_t)test_random_below(&stress->random, 1000));
	}
	atomic_store(&stress->over, true);
	/* Otherwise a sender would wait forever for room in its ring. */
	for (int i = 0; i < RINGS; i++)
		for (uint32_t index = 0; index < FLOWS; index++)
			rig_destination_update(&stress->rig, stress->processes[i].destinations[index],
					       DESTINATION_RESOLVED);
	for (int i = 0; i < THREADS; i++)
		pthread_join(senders[i].id, NULL);
}

TEST(everything_at_once)
{
	static struct stress stress;
	const struct counters *counters;

	stress.random = test_random_seeded("the loop under stress");
	all_open(&stress);
	counters = loop_counters(stress.rig.loop);
	senders_run(&stress);
	rig_wait_counter(&stress.rig, &counters->taken, atomic_load(&stress.published));
	rig_wait_pending(&stress.rig, 0);
	all_close(&stress);
	print_message("# %" PRIu64 " messages, %" PRIu64 " sent, %" PRIu64 " flows\n",
		      counter_read(&counters->taken), counter_read(&counters->sent), stress.flows_opened);
	assert_true(counter_read(&counters->sent) > 0);
	for (int i = 0; i < RINGS; i++)
		assert_int_equal(rig_ring_free_slots(&stress.processes[i].ring), SLOTS);
	rig_fini(&stress.rig);
	for (int i = 0; i < RINGS; i++)
		rig_ring_fini(&stress.processes[i].ring);
}
