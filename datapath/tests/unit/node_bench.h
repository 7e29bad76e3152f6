/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The node of the control thread with a running loop and a fake port, and applications that connect to it.
 * Linked with --wrap=socket_netns_cookie. Include after unit_test.h.
 */
#ifndef KTSN_TEST_NODE_BENCH_H
#define KTSN_TEST_NODE_BENCH_H

#include "client.h"
#include "node.h"
#include "pods.h"
#include "port_fake.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PACKETS = 64, BUFFER_BYTES = 2048, SLOTS = 64, TIMEOUT_MS = 5000 };

static struct node_bench {
	struct events *events;
	struct ktsn_port *port;
	struct loop *loop;
	struct node node;
	char folder[32], path[64];
	bool in_pod; /* the client that connects */
} bed;

int __real_socket_netns_cookie(int fd, uint64_t *cookie);
int __wrap_socket_netns_cookie(int fd, uint64_t *cookie);

/* All clients are in ktsnd's namespace, like the node's relays but unlike applications of a pod. */
int __wrap_socket_netns_cookie(int fd, uint64_t *cookie)
{
	int err = __real_socket_netns_cookie(fd, cookie);

	*cookie += bed.in_pod;
	return err;
}

/* Creates the folder of the node's sockets. */
static inline void node_bench_init(void)
{
	memset(&bed, 0, sizeof(bed));
	strcpy(bed.folder, "/tmp/ktsn-test-XXXXXX");
	assert_non_null(mkdtemp(bed.folder));
	snprintf(bed.path, sizeof(bed.path), "%s/app.sock", bed.folder);
}

static inline void node_bench_start(const struct uplink *uplink, const struct quota_limits *limits,
				    uint64_t rings_bytes_max)
{
	const struct node_shaping shaping = {.classes = loop_classes_default()};
	struct loop_config config = {.packets = PACKETS,
				     .spin_ns = 20000,
				     .late_after_ns = 10000,
				     .stale_after_ns = 100000000,
				     .cpu = -1};
	struct loop_scheduling scheduling;

	bed.in_pod = false;
	bed.port = ktsn_port_fake_create(PACKETS, BUFFER_BYTES);
	assert_non_null(bed.port);
	config.port = config.bridge_port = bed.port;
	assert_int_equal(events_create(&bed.events), 0);
	assert_int_equal(loop_create(&bed.loop, &config), 0);
	assert_int_equal(loop_start(bed.loop, &scheduling), 0);
	assert_int_equal(
		node_init(&bed.node, bed.events, bed.loop, uplink, &shaping, limits, SLOTS, rings_bytes_max),
		0);
}

/* Ends everything in ktsnd's order: a loop that ends does not execute its last commands. */
static inline void node_bench_stop(void)
{
	bed.in_pod = false;
	loop_stop(bed.loop);
	node_close(&bed.node);
	node_fini(&bed.node);
	loop_destroy(bed.loop);
	events_destroy(bed.events);
	ktsn_port_destroy(bed.port);
}

static inline void daemon_work(void)
{
	assert_int_equal(events_run_once(bed.events, 1), 0);
	(void)node_tick(&bed.node);
}

/* Waits until the node has no process and nothing to close. */
static inline void processes_end(void)
{
	for (int ms = 0; bed.node.process_count || bed.node.closing || bed.node.deferred; ms++) {
		assert_true(ms < TIMEOUT_MS);
		daemon_work();
	}
}

static inline int connect_to(const char *path)
{
	struct sockaddr_un address;
	int fd = ktsn_client_socket(0);

	assert_int_equal(ktsn_client_address(&address, path), 0);
	assert_int_equal(ktsn_client_connect(fd, &address), 0);
	return fd;
}

static inline void reply_wait(int fd)
{
	struct pollfd answered = {.fd = fd, .events = POLLIN};

	for (int ms = 0; poll(&answered, 1, 0) == 0; ms++) {
		assert_true(ms < TIMEOUT_MS);
		daemon_work();
	}
}

/* Sends a request, with a descriptor unless passed_fd is -1. Without `fds` those of the reply are closed. */
static inline struct ktsn_app_reply request_answer(int fd, const struct ktsn_app_request *request,
						   int passed_fd, int fds[KTSN_CLIENT_FDS])
{
	const struct ktsn_client_version version = {KTSN_APP_VERSION_OLDEST, KTSN_APP_VERSION,
						    KTSN_APP_VERSION};
	struct ktsn_app_reply reply;

	assert_int_equal(ktsn_client_send(fd, &version, request, passed_fd), 0);
	reply_wait(fd);
	assert_int_equal(ktsn_client_receive(fd, &reply, fds), 0);
	return reply;
}

#endif
