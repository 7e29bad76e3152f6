/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait for space in a send, and what wakes them. The test takes the place of ktsnd.
 */
#include "epoll_record.h"
#include "flow_end.h"
#include "flow_table.h"
#include "internal_fds.h"
#include "ring_pair.h"
#include "sleepers.h"
#include "slots.h"
#include "space_notifier.h"
#include "space_wait.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#include "unit_test.h"

#define MINUTE_NS (60 * INT64_C(1000000000))

enum { THREADS = 200, SLOTS = 64, NUMBER = 5, OWN_FD = 700 };

/* A process with one socket that ktsnd knows; ktsnd has its eventfd. */
static struct {
	struct ring_pair pair;
	struct session session;
	struct flow *flow;
	int space_fd;
	uint32_t slots[SLOTS];
} process;

static int set_up(void **state)
{
	memset(&process, 0, sizeof(process));
	process.flow = flow_create();
	process.space_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (!process.flow || process.space_fd < 0 || ring_pair_init(&process.pair, SLOTS, 64))
		return -1;
	process.session.ring = process.pair.producer;
	process.flow->number = NUMBER;
	atomic_store(&process.flow->poll_state.space_fd, process.space_fd);
	atomic_store(&process.flow->poll_state.space_given, true);
	for (uint32_t i = 0; i < SLOTS; i++)
		if (ktsn_ring_claim(&process.session.ring, &process.slots[i]))
			return -1;
	return 0;
}

static int tear_down(void **state)
{
	space_found(&process.flow->poll_state);
	close(process.space_fd);
	flow_dispose(process.flow);
	ring_pair_fini(&process.pair);
	return 0;
}

/* The loop's announcement, followed by the work of the pod's thread. */
static bool space_notifications(void)
{
	uint64_t count;

	if (!ktsn_ring_space_polled(&process.pair.consumer) ||
	    ktsn_ring_space_pollers(&process.pair.consumer, 0) != UINT64_C(1) << NUMBER)
		return false;
	(void)!read(process.space_fd, &count, sizeof(count));
	return true;
}

static void wait_for_a_slot(struct sleepers *sleepers)
{
	uint32_t slot;

	sleeper_announce(sleepers);
	while (ktsn_ring_claim(&process.session.ring, &slot))
		assert_int_equal(space_wait(&process.session, process.flow, MINUTE_NS), 0);
	atomic_fetch_add(&sleepers->woken, 1);
}

/* A thread that finds no slot sleeps again and is notified of the next one. */
TEST_F(threads_get_slots_one_by_one)
{
	struct sleepers sleepers = {.wait = wait_for_a_slot, .call = SYS_ppoll};

	sleepers_start(&sleepers, THREADS);
	sleepers_await_asleep(&sleepers);
	for (uint32_t given = 1; given <= THREADS; given++) {
		/* The only free slot, so it is the one that a thread takes. */
		ktsn_ring_report_done(&process.session.ring, process.slots[0]);
		(void)space_notifications();
		sleepers_await_woken(&sleepers, given);
	}
	sleepers_join(&sleepers);
}

TEST_F(earlier_slot_is_seen)
{
	ktsn_ring_report_done(&process.session.ring, process.slots[0]);
	assert_int_equal(space_wait(&process.session, process.flow, MINUTE_NS), 0);
}

static void *slot_free_soon(void *unused)
{
	usleep(20000);
	ktsn_ring_report_done(&process.session.ring, process.slots[0]);
	space_slot_freed(&process.session);
	return unused;
}

/* Reading the error queue frees slots without ktsnd. */
TEST_F(own_freed_slot_ends_the_wait)
{
	pthread_t thread;

	assert_int_equal(flow_share(process.flow, OWN_FD), 0);
	assert_int_equal(pthread_create(&thread, NULL, slot_free_soon, NULL), 0);
	assert_int_equal(space_wait(&process.session, process.flow, MINUTE_NS), 0);
	pthread_join(thread, NULL);
	assert_ptr_equal(flow_remove(OWN_FD), process.flow);
	(void)flow_release(process.flow);
}

/* A send without space. While it fails, the slot becomes free. */
static long attempt_without_space(void *attempts)
{
	if (++*(int *)attempts > 1)
		return 1;
	ktsn_ring_report_done(&process.session.ring, process.slots[0]);
	return -EAGAIN;
}

/* epoll reports a full socket as writable to a loop that changes its sets by io_uring. */
TEST_F(send_of_a_process_with_an_io_uring_waits_a_moment)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), attempts = 0;

	process.session.socket_fd = -1;
	assert_int_equal(space_try(&process.session, process.flow, fd, 0, attempt_without_space, &attempts),
			 -EAGAIN);
	assert_int_equal(attempts, 1);
	epoll_unseen_set();
	assert_int_equal(ktsn_ring_claim(&process.session.ring, &process.slots[0]), 0);
	attempts = 0;
	assert_int_equal(space_try(&process.session, process.flow, fd, 0, attempt_without_space, &attempts),
			 1);
	assert_int_equal(attempts, 2);
	close(fd);
}

/* Like calls that read the error queue. */
static void *slots_give_back_on_and_on(void *stop)
{
	while (!atomic_load((_Atomic bool *)stop)) {
		struct flow *flow = flow_acquire(OWN_FD);

		space_slot_freed(&process.session);
		flow_put(flow);
	}
	return NULL;
}

static struct flow *waiting_flow(int fd)
{
	struct flow *flow = flow_create();

	assert_non_null(flow);
	flow->number = NUMBER;
	atomic_store(&flow->poll_state.space_fd, internal_fd_keep(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)));
	space_await(&process.session, flow);
	assert_int_equal(flow_share(flow, fd), 0);
	return flow;
}

/* The last user of the socket ends its wait, even if that is the thread that only looks for sockets to
 * wake. */
TEST_F(closed_socket_ends_the_wait)
{
	enum { FD = 701, CLOSES = 40000 };
	_Atomic bool stop = false;
	pthread_t thread;

	/* Sockets are looked for, and woken, all the time. */
	ktsn_ring_report_done(&process.session.ring, process.slots[0]);
	space_await(&process.session, process.flow);
	assert_int_equal(flow_share(process.flow, OWN_FD), 0);
	assert_int_equal(pthread_create(&thread, NULL, slots_give_back_on_and_on, &stop), 0);
	for (int i = 0; i < CLOSES; i++) {
		flow_put(waiting_flow(FD));
		flow_put(flow_remove(FD));
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	assert_ptr_equal(flow_remove(OWN_FD), process.flow);
	(void)flow_release(process.flow);
	space_found(&process.flow->poll_state);
	assert_false(space_awaited_any());
}

static void *shut_down_soon(void *unused)
{
	usleep(20000);
	atomic_store(&process.flow->write_shut_down, true);
	space_notify(process.flow);
	return unused;
}

TEST_F(shutdown_ends_the_wait)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, shut_down_soon, NULL), 0);
	assert_int_equal(space_wait(&process.session, process.flow, MINUTE_NS), 0);
	pthread_join(thread, NULL);
	assert_int_equal(space_wait(&process.session, process.flow, MINUTE_NS), 0);
}

static void nothing_to_be_done(int signal)
{
}

static void *signal_soon(void *thread)
{
	usleep(20000);
	pthread_kill(*(pthread_t *)thread, SIGUSR1);
	return NULL;
}

TEST_F(signals_and_time_end_the_wait)
{
	struct sigaction action = {.sa_handler = nothing_to_be_done, .sa_flags = SA_RESTART};
	pthread_t self = pthread_self(), thread;

	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	assert_int_equal(pthread_create(&thread, NULL, signal_soon, &self), 0);
	assert_int_equal(space_wait(&process.session, process.flow, MINUTE_NS), -EINTR);
	pthread_join(thread, NULL);
	assert_int_equal(space_wait(&process.session, process.flow, 1000000), -ETIMEDOUT);
}

/* A program that closes unknown descriptors, or has none left. */
TEST_F(wait_polls_without_a_notifier)
{
	atomic_store(&process.flow->poll_state.space_fd, 9999);
	assert_int_equal(space_wait(&process.session, process.flow, MINUTE_NS), -ETIMEDOUT);
}

TEST_F(slots_come_all_or_none)
{
	struct slots slots = {.count = 0};

	ktsn_ring_unclaim(&process.session.ring, process.slots[0]);
	ktsn_ring_unclaim(&process.session.ring, process.slots[1]);
	assert_int_equal(slots_claim(&process.session, process.flow, 3, &slots), -EAGAIN);
	assert_int_equal(slots.count, 0);
	assert_true(ktsn_ring_has_space(&process.session.ring, 2));
	/* Two slots are no space for a send of three, and the socket is not notified of them. */
	assert_false(space_available(&process.session, process.flow));
	ktsn_ring_unclaim(&process.session.ring, process.slots[2]);
	assert_true(space_available(&process.session, process.flow));
	assert_int_equal(slots_claim(&process.session, process.flow, 3, &slots), 0);
	assert_int_equal(slots.count, 3);
	/* A failed claim of several slots leaves the free ones. */
	assert_int_equal(slots_claim(&process.session, process.flow, 4, &slots), -EAGAIN);
	assert_int_equal(slots.count, 3);
	slots_give_back(&process.session, &slots, 0);
	assert_true(ktsn_ring_has_space(&process.session.ring, 3));
}

TEST_F(too_many_slots_are_refused)
{
	struct slots slots = {.count = 0};

	assert_int_equal(slots_claim(&process.session, process.flow, SLOTS + 1, &slots), -ENOBUFS);
}

/* As in the kernel, the last send may exceed the send buffer, and none begins after that. */
TEST_F(full_send_buffer_refuses)
{
	struct slots slots = {.count = 0};

	ktsn_ring_unclaim(&process.session.ring, process.slots[0]);
	atomic_store(&process.flow->send_buffer_bytes, 1000);
	atomic_store(&process.flow->sent_bytes, 1000);
	assert_int_equal(slots_claim(&process.session, process.flow, 1, &slots), -EAGAIN);
	atomic_store(&process.flow->sent_bytes, 999);
	assert_int_equal(slots_claim(&process.session, process.flow, 1, &slots), 0);
	slots_give_back(&process.session, &slots, 0);
}
