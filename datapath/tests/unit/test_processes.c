/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to the application socket of a pod, of which it may have so many.
 */
#include "loop_rig.h"
#include "node.h"
#include "pods.h"
#include "unix_socket.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { ALLOWED = 3, PATIENCE_MS = 5000, QUIET_MS = 200 };

struct bed {
	struct rig rig;
	struct events *events;
	struct node node;
	char folder[32], path[64];
};

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
	*state = &bed;
	return 0;
}

static int tear_down(void **state)
{
	struct bed *bed = *state;

	node_close(&bed->node);
	loop_stop(bed->rig.loop);
	node_fini(&bed->node);
	events_destroy(bed->events);
	rig_fini(&bed->rig);
	rmdir(bed->folder);
	return 0;
}

static void serve(struct bed *bed)
{
	for (int i = 0; i < 20; i++)
		assert_int_equal(events_run_once(bed->events, 10), 0);
}

/* Whether the other side has closed it within that time. */
static bool is_closed(int fd, int within_ms)
{
	struct pollfd wanted = {.fd = fd, .events = POLLIN};
	char byte;

	return poll(&wanted, 1, within_ms) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

static void no_more_than_allowed_are_served(void **state)
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
	assert_true(is_closed(fds[ALLOWED], PATIENCE_MS));
	assert_false(is_closed(fds[0], QUIET_MS));
	for (int i = 0; i <= ALLOWED; i++)
		close(fds[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_more_than_allowed_are_served, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
