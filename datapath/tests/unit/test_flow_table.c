/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libktsn's table of sockets. The process has one table, so each test uses other descriptors.
 */
#include "flow_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "unit_test.h"

enum {
	DESCRIPTORS_MAX = 1 << 20,
	READERS = 3,
	SWAPS = 50000,
	SHARED_FD = 5000,
	MANY = 3000, /* more than one chunk of flows and one page of the table */
};

/* Enters a new flow into the table; the caller holds it, too. */
static struct flow *enter(int fd)
{
	struct flow *flow = flow_create();

	if (flow && flow_share(flow, fd)) {
		assert_true(flow_release(flow));
		flow_dispose(flow);
		return NULL;
	}
	return flow;
}

static void release(struct flow *flow)
{
	if (flow_release(flow))
		flow_dispose(flow);
}

static uint32_t users_of(struct flow *flow)
{
	return atomic_load(&flow->users);
}

TEST(descriptor_without_txtime_has_no_flow)
{
	assert_null(flow_acquire(0));
	assert_null(flow_acquire(1023));
	assert_null(flow_acquire(1024));
	assert_null(flow_remove(7));
}

TEST(descriptors_beyond_the_table_have_no_flow)
{
	static const int descriptors[] = {-1, INT32_MIN, DESCRIPTORS_MAX, INT32_MAX};

	for (size_t i = 0; i < sizeof(descriptors) / sizeof(descriptors[0]); i++) {
		assert_null(enter(descriptors[i]));
		assert_null(flow_acquire(descriptors[i]));
		assert_null(flow_remove(descriptors[i]));
	}
}

TEST(entered_flow_is_found_until_removed)
{
	struct flow *flow = enter(10);

	assert_non_null(flow);
	assert_int_equal(users_of(flow), 2);
	release(flow);
	assert_ptr_equal(flow_acquire(10), flow);
	assert_null(flow_acquire(11));
	assert_int_equal(users_of(flow), 2);
	release(flow);

	assert_ptr_equal(flow_remove(10), flow);
	assert_null(flow_acquire(10));
	assert_null(flow_remove(10));
	assert_int_equal(users_of(flow), 1);
	release(flow);
}

TEST(last_descriptor_can_be_entered)
{
	struct flow *flow = enter(DESCRIPTORS_MAX - 1);

	assert_non_null(flow);
	release(flow);
	assert_ptr_equal(flow_remove(DESCRIPTORS_MAX - 1), flow);
	release(flow);
}

/* One thread closes while sendmsg() runs in another. */
TEST(removed_flow_lives_until_its_last_user)
{
	struct flow *sending, *next;

	release(enter(20));
	sending = flow_acquire(20);
	release(flow_remove(20));
	assert_int_equal(users_of(sending), 1);
	/* The flow is not reused while it is in use. */
	next = enter(20);
	assert_ptr_not_equal(next, sending);
	release(sending);
	release(next);
	release(flow_remove(20));
}

/* After dup() the socket lives until both descriptors are closed. */
TEST(shared_flow_has_two_descriptors)
{
	struct flow *flow = enter(30);

	assert_int_equal(flow_share(flow, 31), 0);
	assert_int_equal(flow_share(flow, DESCRIPTORS_MAX), -ENOMEM);
	assert_int_equal(flow_share(flow, -1), -ENOMEM);
	assert_int_equal(users_of(flow), 3);
	assert_false(flow_release(flow));
	assert_ptr_equal(flow_remove(30), flow);
	assert_false(flow_release(flow));
	assert_null(flow_acquire(30));
	assert_ptr_equal(flow_acquire(31), flow);
	assert_false(flow_release(flow));
	assert_ptr_equal(flow_remove(31), flow);
	/* The last close returns the flow, so that the caller can notify ktsnd. */
	assert_true(flow_release(flow));
	flow_dispose(flow);
}

/* Several threads send their first message through one inherited descriptor. */
struct adopters {
	pthread_barrier_t start;
	_Atomic int entered, exist;
};

enum { ADOPTERS = 4, ADOPTIONS = 2000, ADOPTED_FD = 6000 };

static void *adopt(void *context)
{
	struct adopters *adopters = context;

	for (int i = 0; i < ADOPTIONS; i++) {
		struct flow *flow = flow_create();
		int err;

		pthread_barrier_wait(&adopters->start);
		err = flow_share(flow, ADOPTED_FD + i);
		atomic_fetch_add(err ? &adopters->exist : &adopters->entered, err == -EEXIST || !err);
		release(flow);
	}
	return NULL;
}

TEST(one_thread_enters_a_flow)
{
	struct adopters adopters = {0};
	pthread_t threads[ADOPTERS];

	pthread_barrier_init(&adopters.start, NULL, ADOPTERS);
	for (int i = 0; i < ADOPTERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, adopt, &adopters), 0);
	for (int i = 0; i < ADOPTERS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&adopters.start);
	assert_int_equal(adopters.entered, ADOPTIONS);
	assert_int_equal(adopters.exist, (ADOPTERS - 1) * ADOPTIONS);
	for (int i = 0; i < ADOPTIONS; i++) {
		struct flow *flow = flow_remove(ADOPTED_FD + i);

		assert_int_equal(users_of(flow), 1);
		release(flow);
	}
}

/* The descriptors that flow_each() visited. */
struct visits {
	int count;
	int fd_sum;
};

static bool visit(int fd, struct flow *flow, void *context)
{
	struct visits *visits = context;

	assert_ptr_equal(flow->next_free, flow);
	assert_int_equal(users_of(flow), 2);
	visits->count++;
	visits->fd_sum += fd;
	return flow_release(flow);
}

TEST(each_flow_is_visited_once)
{
	static const int descriptors[] = {0, 50, 1023, 1024, DESCRIPTORS_MAX - 1};
	struct visits visits = {0};
	int fd_sum = 0;

	for (size_t i = 0; i < sizeof(descriptors) / sizeof(descriptors[0]); i++) {
		struct flow *flow = enter(descriptors[i]);

		fd_sum += descriptors[i];
		flow->next_free = flow; /* unused while the flow is in the table: marks the visit */
		release(flow);
	}
	flow_each(visit, &visits);
	assert_int_equal(visits.count, sizeof(descriptors) / sizeof(descriptors[0]));
	assert_int_equal(visits.fd_sum, fd_sum);
	for (size_t i = 0; i < sizeof(descriptors) / sizeof(descriptors[0]); i++)
		release(flow_remove(descriptors[i]));
}

/* Locks that other threads of the parent held are free in the child. */
TEST(locks_are_open_after_fork)
{
	struct flow *flow = enter(60);

	lock_take(&flow->lock);
	flows_forked();
	lock_take(&flow->lock);
	lock_give(&flow->lock);
	release(flow);
	release(flow_remove(60));
}

TEST(reused_flow_is_empty)
{
	struct flow *flow = enter(40), *again;

	lock_take(&flow->lock);
	atomic_store(&flow->session, 9);
	memset(&flow->destinations.connected, 0xff, sizeof(flow->destinations.connected));
	memset(flow->destinations.others, 0xff, sizeof(flow->destinations.others));
	flow->destinations.others_next = 5;
	release(flow_remove(40));
	release(flow);
	again = enter(40);
	assert_ptr_equal(again, flow);
	assert_int_equal(atomic_load(&again->lock.state), 0);
	assert_int_equal(atomic_load(&again->session), 0);
	assert_int_equal(again->destinations.connected.route, 0);
	for (int i = 0; i < FLOW_DESTINATIONS; i++)
		assert_int_equal(again->destinations.others[i].route, 0);
	assert_int_equal(again->destinations.others_next, 0);
	release(again);
	release(flow_remove(40));
}

TEST(many_flows_are_kept_apart)
{
	static struct flow *flows[MANY];

	for (int i = 0; i < MANY; i++) {
		flows[i] = enter(100000 + i);
		assert_non_null(flows[i]);
		flows[i]->number = (uint32_t)i;
		release(flows[i]);
	}
	for (int i = 0; i < MANY; i++) {
		struct flow *flow = flow_acquire(100000 + i);

		assert_ptr_equal(flow, flows[i]);
		assert_int_equal(flow->number, i);
		release(flow);
		release(flow_remove(100000 + i));
	}
}

struct race {
	_Atomic bool over;
	_Atomic uint64_t wrong;
	_Atomic uint64_t hits;
};

/* Uses the flow of the descriptor: it must belong to that descriptor and stay so. */
static void *acquire_many(void *argument)
{
	struct race *race = argument;

	while (!atomic_load(&race->over)) {
		struct flow *flow = flow_acquire(SHARED_FD);

		if (!flow)
			continue;
		lock_take(&flow->lock);
		if (flow->number != SHARED_FD || flow->destinations.connected.number != SHARED_FD)
			atomic_fetch_add(&race->wrong, 1);
		flow->destinations.others_next++;
		lock_give(&flow->lock);
		atomic_fetch_add(&race->hits, 1);
		release(flow);
	}
	return NULL;
}

/* Entered without the lock, as setsockopt() does; readers may get the flow at once. */
static void flow_set_up(int fd)
{
	struct flow *flow = enter(fd);

	lock_take(&flow->lock);
	flow->number = (uint32_t)fd;
	flow->destinations.connected.number = (uint32_t)fd;
	lock_give(&flow->lock);
	release(flow);
}

/* A reader may find a flow without numbers between its entry and its set-up. */
static void *acquire_counting_users(void *argument)
{
	struct race *race = argument;

	while (!atomic_load(&race->over)) {
		struct flow *flow = flow_acquire(SHARED_FD);

		if (!flow)
			continue;
		/* At least this thread's reference; a flow is never reused while it is in use. */
		if (users_of(flow) == 0 || users_of(flow) > READERS + 3)
			atomic_fetch_add(&race->wrong, 1);
		lock_take(&flow->lock);
		flow->destinations.others_next++;
		lock_give(&flow->lock);
		atomic_fetch_add(&race->hits, 1);
		release(flow);
	}
	return NULL;
}

static void race_run(struct race *race, void *(*reader)(void *), void (*swap)(int))
{
	pthread_t readers[READERS];

	for (int i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&readers[i], NULL, reader, race), 0);
	for (int i = 0; i < SWAPS || atomic_load(&race->hits) < SWAPS / 10; i++)
		swap(i);
	atomic_store(&race->over, true);
	for (int i = 0; i < READERS; i++)
		pthread_join(readers[i], NULL);
	assert_true(atomic_load(&race->wrong) == 0);
}

static void stay(int round)
{
	/* Others come and go and reuse the pool's memory. */
	flow_set_up(SHARED_FD + 1);
	release(flow_remove(SHARED_FD + 1));
}

TEST(sender_keeps_its_flow)
{
	struct race race = {0};

	flow_set_up(SHARED_FD);
	race_run(&race, acquire_many, stay);
	release(flow_remove(SHARED_FD));
}

static void come_and_go(int round)
{
	flow_set_up(SHARED_FD);
	release(flow_remove(SHARED_FD));
	/* The free memory is reused for another socket at once. */
	flow_set_up(SHARED_FD + 1);
	release(flow_remove(SHARED_FD + 1));
}

TEST(threads_send_during_close_and_open)
{
	struct race race = {0};

	race_run(&race, acquire_counting_users, come_and_go);
}
