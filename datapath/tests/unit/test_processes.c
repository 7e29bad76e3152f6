/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit of connections to a pod's application socket, and how a node with pods ends.
 */
#include "container_of.h"
#include "doorbells.h"
#include "loop_rig.h"
#include "node.h"
#include "pod_thread.h"
#include "pods.h"
#include "unix_socket.h"

#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit_test.h"

enum { ALLOWED = 3, TIMEOUT_MS = 5000, QUIET_MS = 200 };

struct bed {
	struct rig rig;
	struct events *events;
	struct node node;
	char folder[32], path[64];
};

static bool in_pod;

int __real_socket_netns_cookie(int fd, uint64_t *cookie);
int __wrap_socket_netns_cookie(int fd, uint64_t *cookie);

/* All clients are in ktsnd's namespace, like the node's relays but unlike applications of a pod. */
int __wrap_socket_netns_cookie(int fd, uint64_t *cookie)
{
	int err = __real_socket_netns_cookie(fd, cookie);

	*cookie += in_pod;
	return err;
}

static int set_up(void **state)
{
	static struct bed bed;
	const struct uplink uplink = {.interface = "lo", .link_index = 1, .mtu_bytes = 1500};
	const struct node_shaping shaping = {.classes = loop_classes_default()};
	const struct quota_limits limits = {ALLOWED, 16, 1 << 20, 64, 0, 0, INT64_MAX};
	struct refusal refusal;

	memset(&bed, 0, sizeof(bed));
	snprintf(bed.folder, sizeof(bed.folder), "/tmp/ktsn-XXXXXX");
	assert_non_null(mkdtemp(bed.folder));
	snprintf(bed.path, sizeof(bed.path), "%s/app.sock", bed.folder);
	rig_init(&bed.rig, &(struct rig_config){64, 64, 10000, 10000});
	assert_int_equal(events_create(&bed.events), 0);
	assert_int_equal(node_init(&bed.node, bed.events, bed.rig.loop, &uplink, &shaping, &limits, 64,
				   UINT64_C(64) << 20),
			 0);
	assert_int_equal(node_socket_add(&bed.node, "pod", bed.path, &refusal), 0);
	in_pod = true;
	*state = &bed;
	return 0;
}

/* The node has ended. */
static int rest_remove(void **state)
{
	struct bed *bed = *state;

	in_pod = false;
	events_destroy(bed->events);
	rig_fini(&bed->rig);
	unlink(bed->path);
	return rmdir(bed->folder);
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	loop_stop(bed->rig.loop);
	node_close(&bed->node);
	node_fini(&bed->node);
	return rest_remove(state);
}

static void serve(struct bed *bed)
{
	for (int i = 0; i < 20; i++)
		assert_int_equal(events_run_once(bed->events, 10), 0);
}

/* Reports whether the other side closes the connection within this time. */
static bool is_closed(int fd, int within_ms)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};
	char byte;

	return poll(&wanted, 1, within_ms) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

static void connections_are_limited(void **state)
{
	struct bed *bed = *state;
	int fds[ALLOWED + 1];

	for (int i = 0; i <= ALLOWED; i++) {
		fds[i] = unix_connect_at_once(bed->path);
		assert_true(fds[i] >= 0);
	}
	serve(bed);
	assert_int_equal(bed->node.process_count, ALLOWED);
	assert_int_equal(bed->node.limit_refusals, 1);
	assert_true(is_closed(fds[ALLOWED], TIMEOUT_MS));
	assert_false(is_closed(fds[0], QUIET_MS));
	for (int i = 0; i <= ALLOWED; i++)
		close(fds[i]);
}

static void connect_all(struct bed *bed, int *fds, int count)
{
	for (int i = 0; i < count; i++) {
		fds[i] = unix_connect_at_once(bed->path);
		assert_true(fds[i] >= 0);
	}
	serve(bed);
}

static void full_pod_keeps_its_relay(void **state)
{
	struct bed *bed = *state;
	int fds[ALLOWED + POD_RELAYS_MAX + 1];

	connect_all(bed, fds, ALLOWED);
	in_pod = false;
	connect_all(bed, fds + ALLOWED, POD_RELAYS_MAX + 1);
	/* The last one exceeds the relay's connections and counts as the pod's. */
	assert_int_equal(bed->node.process_count, ALLOWED + POD_RELAYS_MAX);
	assert_int_equal(bed->node.limit_refusals, 1);
	assert_int_equal(bed->node.pods->relays, POD_RELAYS_MAX);
	assert_int_equal(bed->node.pods->quota->processes, ALLOWED);
	assert_true(is_closed(fds[ALLOWED + POD_RELAYS_MAX], TIMEOUT_MS));
	close(fds[ALLOWED]);
	serve(bed);
	assert_int_equal(bed->node.pods->relays, POD_RELAYS_MAX - 1);
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
static void pod_threads_outlive_their_node(void **state)
{
	struct bed *bed = *state;
	struct joining joining = {
		.work.run = joining_run, .doorbells = bed->node.doorbells, .doorbell_fd = doorbell_make()};
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	joining.held_up_fd = fds[0];
	sem_init(&joining.joined, 0, 0);
	pod_thread_do(bed->node.pods->thread, &joining.work);
	loop_stop(bed->rig.loop);
	node_fini(&bed->node);
	assert_int_equal(write(fds[1], "", 1), 1);
	sem_wait(&joining.joined);
	assert_true(joining.set_fd >= 0);
	sem_destroy(&joining.joined);
	close(joining.doorbell_fd);
	close(fds[0]);
	close(fds[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(connections_are_limited, set_up, tear_down),
		cmocka_unit_test_setup_teardown(full_pod_keeps_its_relay, set_up, tear_down),
		cmocka_unit_test_setup_teardown(pod_threads_outlive_their_node, set_up, rest_remove),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
