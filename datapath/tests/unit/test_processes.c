/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit of connections to a pod's application socket, and how a node with pods ends.
 */
#include "container_of.h"
#include "doorbells.h"
#include "pod_thread.h"
#include "process_requests.h"
#include "unix_socket.h"

#include <semaphore.h>

#include "unit_test.h"

#include "node_bench.h"

enum { PROCESSES = 3, ALLOWED = PROCESSES + CONNECTIONS_REFUSED_MAX, QUIET_MS = 200 };

static int set_up(void **state)
{
	const struct uplink uplink = {.interface = "lo", .link_index = 1, .mtu_bytes = 1500};
	const struct quota_limits limits = {PROCESSES, 16, 1 << 20, PACKETS, 0, 0, INT64_MAX};
	struct refusal refusal;

	node_bench_init();
	node_bench_start(&uplink, &limits, UINT64_C(64) << 20);
	assert_int_equal(node_socket_add(&bed.node, "pod", bed.path, &refusal), 0);
	bed.in_pod = true;
	return 0;
}

static int folder_remove(void)
{
	unlink(bed.path);
	return rmdir(bed.folder);
}

static int tear_down(void **state)
{
	node_bench_stop();
	return folder_remove();
}

/* The node has ended. */
static int rest_remove(void **state)
{
	loop_destroy(bed.loop);
	events_destroy(bed.events);
	ktsn_port_destroy(bed.port);
	return folder_remove();
}

static void serve(void)
{
	for (int i = 0; i < 20; i++)
		assert_int_equal(events_run_once(bed.events, 10), 0);
}

/* Reports whether the other side closes the connection within this time. */
static bool is_closed(int fd, int within_ms)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};
	char byte;

	return poll(&wanted, 1, within_ms) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

static void connect_all(int *fds, int count)
{
	for (int i = 0; i < count; i++) {
		fds[i] = unix_connect_at_once(bed.path);
		assert_true(fds[i] >= 0);
	}
	serve();
}

TEST_F(connections_are_limited)
{
	int fds[ALLOWED + 1];

	connect_all(fds, ALLOWED + 1);
	assert_int_equal(bed.node.process_count, ALLOWED);
	assert_int_equal(bed.node.limit_refusals, 1);
	assert_true(is_closed(fds[ALLOWED], TIMEOUT_MS));
	assert_false(is_closed(fds[0], QUIET_MS));
	for (int i = 0; i <= ALLOWED; i++)
		close(fds[i]);
}

TEST_F(full_pod_keeps_its_relay)
{
	int fds[ALLOWED + POD_RELAYS_MAX + 1];

	connect_all(fds, ALLOWED);
	bed.in_pod = false;
	connect_all(fds + ALLOWED, POD_RELAYS_MAX + 1);
	/* The last one exceeds the relay's connections and counts as the pod's. */
	assert_int_equal(bed.node.process_count, ALLOWED + POD_RELAYS_MAX);
	assert_int_equal(bed.node.limit_refusals, 1);
	assert_int_equal(bed.node.pods->relays, POD_RELAYS_MAX);
	assert_int_equal(bed.node.pods->quota->processes, ALLOWED);
	assert_true(is_closed(fds[ALLOWED + POD_RELAYS_MAX], TIMEOUT_MS));
	close(fds[ALLOWED]);
	serve();
	assert_int_equal(bed.node.pods->relays, POD_RELAYS_MAX - 1);
	for (int i = 0; i <= ALLOWED + POD_RELAYS_MAX; i++)
		if (i != ALLOWED)
			close(fds[i]);
}

/* Work of a pod's thread: it blocks until there is something to read, then joins. */
struct joining {
	struct pod_work work;
	struct doorbells *doorbells;
	int held_up_fd, doorbell_fd, set_fd;
	sem_t joined;
};

static void joining_run(struct pod_work *work)
{
	struct joining *joining = container_of(work, struct joining, work);
	char byte;

	(void)!read(joining->held_up_fd, &byte, 1);
	joining->set_fd = doorbell_join(joining->doorbells, joining->doorbell_fd);
	sem_post(&joining->joined);
}

/* As in a successor whose predecessor ended in the middle of the hand-over. */
TEST_WITH(pod_threads_outlive_their_node, set_up, rest_remove)
{
	struct joining joining = {
		.work.run = joining_run, .doorbells = bed.node.doorbells, .doorbell_fd = doorbell_make()};
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	joining.held_up_fd = fds[0];
	sem_init(&joining.joined, 0, 0);
	pod_thread_do(bed.node.pods->thread, &joining.work);
	loop_stop(bed.loop);
	node_fini(&bed.node);
	assert_int_equal(write(fds[1], "", 1), 1);
	sem_wait(&joining.joined);
	assert_true(joining.set_fd >= 0);
	sem_destroy(&joining.joined);
	close(joining.doorbell_fd);
	close(fds[0]);
	close(fds[1]);
}
