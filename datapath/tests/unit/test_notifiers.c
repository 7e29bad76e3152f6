/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptors through which ktsnd notifies applications: their effects, and which are refused.
 */
#include "flow_notifications.h"

#include "clock.h"
#include "loop.h"
#include "outcome.h"
#include "port_fake.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "unit_test.h"

/* As the library creates them. */
struct pair {
	struct events *events;
	struct pod_threads *threads;
	struct process process;
	struct flow flow;
	int error_fd, far_fd;
	uint8_t name[KTSN_APP_NOTIFIER_NAME_BYTES];
};

static int set_up(void **state)
{
	const struct sockaddr any = {.sa_family = AF_UNIX};
	struct pair *pair = calloc(1, sizeof(*pair));
	struct sockaddr_un name;
	socklen_t bytes = sizeof(name);
	int fds[2];

	*state = pair;
	if (!pair || socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) || bind(fds[0], &any, sizeof(any.sa_family)) ||
	    bind(fds[1], &any, sizeof(any.sa_family)) ||
	    getsockname(fds[0], (struct sockaddr *)&name, &bytes))
		return -1;
	pair->error_fd = fds[0];
	pair->far_fd = fds[1];
	memcpy(pair->name, name.sun_path, sizeof(pair->name));
	pair->flow.process = &pair->process;
	if (events_create(&pair->events) || pod_threads_create(&pair->threads, pair->events))
		return -1;
	return pod_thread_start(pair->threads, &pair->process.thread);
}

/* Waits until the pod's thread has finished its work. */
static void thread_await(const struct pair *pair)
{
	while (pod_thread_backlog(pair->process.thread))
		usleep(100);
}

static void notify(struct pair *pair, uint32_t why)
{
	flow_notify(&pair->flow, why);
	thread_await(pair);
}

/* As FLOW_WAKE does. */
static int take(struct pair *pair, uint32_t why, const void *name, int fd)
{
	struct notifier *notifier;
	int err = notifier_create(why, name, fd, &notifier);

	if (!err)
		flow_notifier_set(&pair->flow, notifier);
	return err;
}

static int tear_down(void **state)
{
	struct pair *pair = *state;

	flow_notifiers_close(&pair->flow);
	pod_thread_put(pair->process.thread);
	pod_threads_destroy(pair->threads);
	events_destroy(pair->events);
	close(pair->error_fd);
	close(pair->far_fd);
	free(pair);
	return 0;
}

static short events_of(int fd, short events)
{
	struct pollfd poll_fd = {.fd = fd, .events = events};

	return poll(&poll_fd, 1, 0) > 0 ? poll_fd.revents : 0;
}

static void error_end(const struct pair *pair)
{
	int error;
	socklen_t bytes = sizeof(error);

	assert_int_equal(getsockopt(pair->error_fd, SOL_SOCKET, SO_ERROR, &error, &bytes), 0);
	assert_int_equal(error, ECONNRESET);
}

TEST_F(error_can_be_raised_repeatedly)
{
	struct pair *pair = *state;
	struct epoll_event event = {.events = EPOLLET};
	int edges = epoll_create1(0);

	assert_int_equal(epoll_ctl(edges, EPOLL_CTL_ADD, pair->error_fd, &event), 0);
	assert_int_equal(take(pair, NOTIFY_REPORT, pair->name, dup(pair->far_fd)), 0);
	assert_int_equal(events_of(pair->error_fd, 0), 0);
	for (int i = 0; i < 3; i++) {
		notify(pair, NOTIFY_REPORT);
		assert_int_equal(events_of(pair->error_fd, 0), POLLERR);
		/* An edge each time, read or not. */
		notify(pair, NOTIFY_REPORT);
		assert_int_equal(epoll_wait(edges, &event, 1, 0), 1);
		assert_int_equal(epoll_wait(edges, &event, 1, 0), 0);
		error_end(pair);
		assert_int_equal(events_of(pair->error_fd, 0), 0);
	}
	close(edges);
}

/* An application that fills the socket's queue, reads from it, or closes its end does not block ktsnd. */
TEST_F(application_cannot_block_error_notification)
{
	struct pair *pair = *state;
	char byte;

	(void)fcntl(pair->far_fd, F_SETFL, 0);
	assert_int_equal(take(pair, NOTIFY_REPORT, pair->name, dup(pair->far_fd)), 0);
	for (int i = 0; i < 100; i++)
		(void)send(pair->error_fd, "x", 1, MSG_DONTWAIT);
	notify(pair, NOTIFY_REPORT);
	assert_int_equal(events_of(pair->error_fd, 0), POLLERR);
	assert_int_equal(recv(pair->far_fd, &byte, 1, MSG_DONTWAIT), -1);
	close(pair->error_fd);
	notify(pair, NOTIFY_REPORT);
	pair->error_fd = dup(pair->far_fd);
}

TEST_F(sockets_with_other_peers_are_refused)
{
	struct pair *pair = *state;
	struct sockaddr_un path = {.sun_family = AF_UNIX};
	int stream = socket(AF_UNIX, SOCK_STREAM, 0), udp = socket(AF_INET, SOCK_DGRAM, 0);
	int bound = socket(AF_UNIX, SOCK_DGRAM, 0), unbound = socket(AF_UNIX, SOCK_DGRAM, 0);

	snprintf(path.sun_path, sizeof(path.sun_path), "/tmp/ktsn-test-notifiers-%d", (int)getpid());
	assert_int_equal(bind(bound, (const struct sockaddr *)&path, sizeof(path)), 0);
	unlink(path.sun_path);
	assert_int_equal(take(pair, NOTIFY_REPORT, pair->name, bound), -EINVAL);
	assert_int_equal(take(pair, NOTIFY_REPORT, pair->name, unbound), -EINVAL);
	assert_int_equal(take(pair, NOTIFY_REPORT, pair->name, stream), -EINVAL);
	assert_int_equal(take(pair, NOTIFY_REPORT, pair->name, udp), -EINVAL);
	assert_int_equal(take(pair, NOTIFY_REPORT, pair->name, -1), -EINVAL);
	assert_int_equal(take(pair, 7, pair->name, pair->far_fd), -EINVAL);
	assert_int_equal(take(pair, NOTIFY_REPORT, "/dev/l", pair->far_fd), -EINVAL);
	assert_null(pair->flow.error_notifier);
	close(stream);
	close(udp);
	close(bound);
	close(unbound);
}

TEST_F(space_empties_an_eventfd)
{
	struct pair *pair = *state;
	uint64_t full = UINT64_MAX - 1;
	int fd = eventfd(0, EFD_NONBLOCK), pipe_fds[2];

	assert_int_equal(take(pair, NOTIFY_SPACE, NULL, dup(fd)), 0);
	assert_int_equal(write(fd, &full, sizeof(full)), sizeof(full));
	assert_int_equal(events_of(fd, POLLOUT), 0);
	notify(pair, NOTIFY_SPACE);
	assert_int_equal(events_of(fd, POLLOUT), POLLOUT);
	/* Already empty, and the application has made reading it block. */
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	notify(pair, NOTIFY_SPACE);
	assert_int_equal(pipe(pipe_fds), 0);
	assert_int_equal(take(pair, NOTIFY_SPACE, NULL, pipe_fds[0]), -EINVAL);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	close(fd);
}

/* As the loop pushes them for each slot that becomes free. */
static void all_push(struct node *node, struct loop_flow *loop_flows, int count)
{
	for (int i = 0; i < count; i++)
		notification_push(node->loop, &loop_flows[i], NOTIFY_SPACE);
	notifications_serve(node);
}

static int resting_count(const struct loop_flow *loop_flows, int count)
{
	int resting = 0;

	for (int i = 0; i < count; i++)
		resting += atomic_load(&loop_flows[i].notify) != 0;
	return resting;
}

enum { SOCKETS = 250, AT_ONCE_MAX = 100 };

TEST_F(notifications_are_limited_per_pod)
{
	struct pair *pair = *state;
	struct ktsn_port *port = ktsn_port_fake_create(64, 2048);
	struct loop_config config = {.packets = 64, .cpu = -1, .port = port, .bridge_port = port};
	struct flow *flows = calloc(SOCKETS, sizeof(*flows));
	struct loop_flow *loop_flows = calloc(SOCKETS, sizeof(*loop_flows));
	struct node node = {.notifications_deferred = NULL};
	uint32_t quotas = 0;
	int64_t began_tai_ns = clock_tai_ns();

	assert_int_equal(loop_create(&node.loop, &config), 0);
	pair->process.quota = quota_create(&(struct quota_limits){.processes = 1}, &quotas);
	for (int i = 0; i < SOCKETS; i++) {
		flows[i] = (struct flow){.process = &pair->process, .loop = &loop_flows[i]};
		loop_flows[i].object.owner = &flows[i];
	}
	all_push(&node, loop_flows, SOCKETS);
	assert_true(resting_count(loop_flows, SOCKETS) > SOCKETS - AT_ONCE_MAX);
	/* Delayed notifiers are notified in the end, except one that is freed before. */
	notifications_forget(&node, &flows[0]);
	while (notifications_tick(&node) > 0)
		usleep(1000);
	assert_int_equal(resting_count(loop_flows + 1, SOCKETS - 1), 0);
	assert_true(clock_tai_ns() - began_tai_ns > 10000000);
	/* A separate socket is counted, too, however many slots become free. */
	all_push(&node, &loop_flows[1], 1);
	all_push(&node, &loop_flows[1], 1);
	assert_true(resting_count(&loop_flows[1], 1) == 1 ||
		    clock_tai_ns() - flows[1].notified_tai_ns > 1000000);
	quota_put(pair->process.quota);
	loop_destroy(node.loop);
	ktsn_port_destroy(port);
	free(loop_flows);
	free(flows);
}
