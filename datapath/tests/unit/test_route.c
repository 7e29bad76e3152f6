/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets of a network namespace in which the pod has no endpoint until later, and destinations to which the
 * pod's routes lead past its networks. The test takes the place of ktsnd.
 */
#include "clock.h"
#include "route.h"

#include "epoll_members.h"
#include "flow_end.h"
#include "ring_pair.h"

#include <errno.h>
#include <stdlib.h>
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
	int registered;                /* of which register the socket */
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
	process.registered += request->type == KTSN_APP_FLOW_OPEN;
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

static const struct ktsn_app_reply off_network = {
	.route = KTSN_APP_ROUTE_KERNEL, .flow = NUMBER, .flags = KTSN_APP_OFF_NETWORK};

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

static uint64_t refused(void)
{
	return atomic_load(&process.session.ring.header->off_network);
}

static long result_to(const struct ktsn_app_key *key)
{
	struct route route = {.session = &process.session};

	return route_find(process.flow, process.fd, key, MSG_DONTWAIT, &route);
}

static long result(void)
{
	return result_to(NULL);
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

TEST_F(messages_off_the_network_are_refused_until_it_has_a_route)
{
	uint64_t count = 0;

	process.answers = off_network;
	for (int64_t began_ms = monotonic_ms(); process.asked < 3; count++) {
		assert_true(monotonic_ms() - began_ms < TIMEOUT_MS);
		assert_int_equal(result(), -ENETUNREACH);
	}
	assert_int_equal(refused(), count);
	process.answers = has_endpoint;
	for (int64_t began_ms = monotonic_ms(); result(); usleep(100))
		assert_true(monotonic_ms() - began_ms < TIMEOUT_MS);
	assert_int_equal(route(), KTSN_APP_ROUTE_TSN);
}

/* The socket's other destinations stay, and so do their numbers. */
TEST_F(only_a_destination_off_the_network_is_asked_for_again)
{
	const struct ktsn_app_key off = {.port_be = 1}, on = {.port_be = 2};

	process.answers = has_endpoint;
	assert_int_equal(result_to(&on), 0);
	process.answers = off_network;
	process.asked = 0;
	for (int64_t began_ms = monotonic_ms(); process.asked < 12; usleep(100)) {
		assert_true(monotonic_ms() - began_ms < TIMEOUT_MS);
		assert_int_equal(result_to(&off), -ENETUNREACH);
		assert_int_equal(result_to(&on), 0);
	}
	assert_int_equal(process.registered, 1);
	process.answers = has_endpoint;
	for (int64_t began_ms = monotonic_ms(); result_to(&off); usleep(100))
		assert_true(monotonic_ms() - began_ms < TIMEOUT_MS);
}

TEST_F(new_number_has_no_reports_of_another_socket)
{
	const struct ktsn_ring_message message = {.flow = NUMBER, .payload_bytes = 1};
	struct ktsn_ring_taken taken;

	assert_int_equal(ring_pair_send(&process.pair, &message, "x", NULL), 0);
	assert_int_equal(ktsn_ring_take(&process.pair.consumer, &taken), 1);
	ktsn_ring_report(&process.pair.consumer, taken.slot, KTSN_REPORT_STAMPS, 0);
	process.answers = has_endpoint;
	assert_int_equal(route(), KTSN_APP_ROUTE_TSN);
	assert_false(ktsn_ring_report_waits(&process.session.ring, NUMBER));
	assert_int_equal(ring_pair_state(&process.pair, taken.slot), KTSN_SLOT_FREE);
}

TEST_F(messages_off_the_network_pass_on_request)
{
	process.answers = off_network;
	setenv("KTSN_OFF_NETWORK", "pass", 1);
	assert_int_equal(route(), KTSN_APP_ROUTE_KERNEL);
	setenv("KTSN_OFF_NETWORK", "refuse", 1);
	assert_int_equal(result(), -ENETUNREACH);
	unsetenv("KTSN_OFF_NETWORK");
	assert_int_equal(refused(), 1);
}

TEST_F(messages_to_the_host_are_the_kernels)
{
	process.answers = off_network;
	process.answers.flags = 0;
	assert_int_equal(route(), KTSN_APP_ROUTE_KERNEL);
	assert_int_equal(refused(), 0);
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
