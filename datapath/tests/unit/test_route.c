/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of a network namespace in which the pod has no endpoint until later. The test takes the place of
 * ktsnd.
 */
#include "clock.h"
#include "route.h"

#include "epoll_members.h"
#include "flow_end.h"
#include "ring_pair.h"

#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "unit_test.h"

enum { SLOTS = 4, PAYLOAD = 64, NUMBER = 5, TIMEOUT_MS = 5000 };

/* A process with one connected socket that ktsnd may know. */
static struct {
	struct ring_pair pair;
	struct session session;
	struct flow *flow;
	int fd;
	int asked;                     /* the number of requests to ktsnd */
	bool silent;                   /* no answer */
	struct ktsn_app_reply answers; /* otherwise this answer */
} process;

int __wrap_session_get(struct session **session);
int __wrap_session_request(struct session *session, const struct ktsn_app_request *request, int fd_to_pass,
			   struct ktsn_app_reply *reply);

int __wrap_session_get(struct session **session)
{
	*session = &process.session;
	return 0;
}

int __wrap_session_request(struct session *session, const struct ktsn_app_request *request, int fd_to_pass,
			   struct ktsn_app_reply *reply)
{
	process.asked++;
	*reply = process.answers;
	return process.silent ? -ETIMEDOUT : 0;
}

void epoll_members_catch_up(struct flow *flow, int fd)
{
}

static const struct ktsn_app_reply no_endpoint = {
	.status = -EPERM, .route = KTSN_APP_ROUTE_KERNEL, .flow = KTSN_APP_NONE};
static const struct ktsn_app_reply has_endpoint = {
	.route = KTSN_APP_ROUTE_TSN, .flow = NUMBER, .destination = 1, .payload_max_bytes = PAYLOAD};

static int set_up(void **state)
{
	memset(&process, 0, sizeof(process));
	process.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	process.flow = flow_create();
	if (process.fd < 0 || !process.flow || ring_pair_init(&process.pair, SLOTS, PAYLOAD))
		return -1;
	process.session.ring = process.pair.producer;
	process.session.number = 1;
	process.flow->kind.domain = AF_INET;
	process.answers = no_endpoint;
	return 0;
}

static int tear_down(void **state)
{
	flow_put(process.flow);
	close(process.fd);
	ring_pair_fini(&process.pair);
	return 0;
}

static uint32_t route(void)
{
	struct route route = {.session = &process.session};

	assert_int_equal(route_find(process.flow, process.fd, NULL, MSG_DONTWAIT, &route), 0);
	assert_ptr_equal(route.session, &process.session);
	return route.destination.route;
}

/* Keeps sending until ktsnd has been asked this often. */
static void send_until_asked(int times, uint32_t expected)
{
	int64_t began_ms = monotonic_ms();

	while (process.asked < times) {
		assert_true(monotonic_ms() - began_ms < TIMEOUT_MS);
		assert_int_equal(route(), expected);
		usleep(100);
	}
}

TEST_F(later_endpoint_gets_the_messages)
{
	send_until_asked(3, KTSN_APP_ROUTE_KERNEL);
	process.answers = has_endpoint;
	for (int64_t began_ms = monotonic_ms(); route() == KTSN_APP_ROUTE_KERNEL; usleep(100))
		assert_true(monotonic_ms() - began_ms < TIMEOUT_MS);
	assert_int_equal(route(), KTSN_APP_ROUTE_TSN);
	/* From here on it knows. */
	process.asked = 0;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(route(), KTSN_APP_ROUTE_TSN);
	assert_int_equal(process.asked, 0);
}

TEST_F(requests_are_limited)
{
	int64_t began_ms = monotonic_ms();

	/* With the first message, with the first after the reply, and then every 100 ms of a clock that
	 * ticks at least every 10 ms. */
	send_until_asked(4, KTSN_APP_ROUTE_KERNEL);
	assert_true(monotonic_ms() - began_ms >= 180);
}

TEST_F(kernel_sends_without_an_answer)
{
	assert_int_equal(route(), KTSN_APP_ROUTE_KERNEL);
	process.silent = true;
	send_until_asked(3, KTSN_APP_ROUTE_KERNEL);
	process.silent = false;
	process.answers = (struct ktsn_app_reply){.status = -ENETDOWN, .flow = KTSN_APP_NONE};
	send_until_asked(4, KTSN_APP_ROUTE_KERNEL);
}
