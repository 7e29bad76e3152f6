/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that are joined or cut on their way into a ring: threads, fork, close, refusals and full rings.
 * The test takes the place of ktsnd and of the kernel path. test/netns compares the resulting datagrams with
 * the kernel's.
 */
#include "clock.h"
#include "flow_end.h"
#include "flow_table.h"
#include "next.h"
#include "ring_pair.h"
#include "route.h"
#include "send.h"
#include "space_notifier.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "unit_test.h"

#ifndef SCM_TXTIME
#define SCM_TXTIME 61
#endif

enum { SLOTS = 64, PAYLOAD = 64, NUMBER = 5, THREADS = 4, ROUNDS = 20000, TXTIME = 1000 };

/* A process with one socket that ktsnd knows; ktsnd has its eventfd. */
static struct {
	struct ring_pair pair;
	struct session session;
	struct flow *flow; /* referenced by the table and by the test */
	int fd;
	bool session_lost;
	uint32_t payload_max_bytes;
	long kernel_results; /* bytes or -errno for each call that reaches the kernel */
	int kernel_calls;
} process;

struct session *__wrap_session_existing(void);
void __wrap_session_check(struct session *session, enum ktsn_clock clock, bool thoroughly);
void __wrap_session_doorbell_ring(struct session *session);

struct session *__wrap_session_existing(void)
{
	return process.session_lost ? NULL : &process.session;
}

void __wrap_session_check(struct session *session, enum ktsn_clock clock, bool thoroughly)
{
}

void __wrap_session_doorbell_ring(struct session *session)
{
}

long route_find(struct flow *flow, int fd, const struct ktsn_app_key *key, int flags, struct route *route)
{
	route->session = &process.session;
	route->destination = (struct destination){.route = KTSN_APP_ROUTE_TSN,
						  .payload_max_bytes = process.payload_max_bytes};
	return 0;
}

ssize_t next_sendmsg(int fd, const struct msghdr *message, int flags)
{
	process.kernel_calls++;
	if (process.kernel_results >= 0)
		return process.kernel_results;
	errno = (int)-process.kernel_results;
	return -1;
}

static int set_up(void **state)
{
	struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_port = htons(9)};

	nobody.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	memset(&process, 0, sizeof(process));
	process.kernel_results = -ENOTSUP;
	process.payload_max_bytes = PAYLOAD;
	process.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	process.flow = flow_create();
	if (process.fd < 0 || !process.flow || ring_pair_init(&process.pair, SLOTS, PAYLOAD) ||
	    connect(process.fd, (struct sockaddr *)&nobody, sizeof(nobody)))
		return -1;
	process.session.ring = process.pair.producer;
	process.session.number = 1;
	process.flow->number = NUMBER;
	process.flow->kind.domain = AF_INET;
	atomic_store(&process.flow->send_buffer_bytes, UINT32_MAX);
	atomic_store(&process.flow->poll_state.space_fd, eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
	atomic_store(&process.flow->poll_state.space_given, true);
	return flow_share(process.flow, process.fd);
}

/* Closes the last descriptor. */
static void socket_close(void)
{
	flow_put(process.flow);
	flow_put(flow_remove(process.fd));
	close(process.fd);
	process.fd = -1;
}

static int tear_down(void **state)
{
	if (process.fd >= 0)
		socket_close();
	ring_pair_fini(&process.pair);
	return 0;
}

/* With a transmit time. */
static long send_part(const void *data, size_t bytes, int flags)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int64_t))];
		struct cmsghdr align;
	} control = {.align = {.cmsg_len = CMSG_LEN(sizeof(int64_t)),
			       .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_TXTIME}};
	struct iovec iov = {(void *)data, bytes};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	int64_t txtime_ns = TXTIME;

	memcpy(CMSG_DATA(&control.align), &txtime_ns, sizeof(txtime_ns));
	return send_timed(process.flow, process.fd, &message, flags);
}

/* Sends like send(). */
static long send_untimed(const void *data, size_t bytes, int flags)
{
	struct iovec iov = {(void *)data, bytes};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	return cork_send(process.flow, process.fd, &message, flags);
}

/* Takes the next message and frees its slot at once; -1 if there is none. */
static int datagram_take(uint8_t payload[PAYLOAD])
{
	struct ktsn_ring_taken taken;
	int found;

	do
		found = ktsn_ring_take(&process.pair.consumer, &taken);
	while (found == -EAGAIN); /* not known yet */
	if (found != 1)
		return -1;
	memcpy(payload, ktsn_ring_taken_payload(&process.pair.consumer, taken.slot), taken.payload_bytes);
	assert_int_equal(taken.flow, NUMBER);
	assert_int_equal(taken.txtime_ns, TXTIME);
	ktsn_ring_release(&process.pair.consumer, taken.slot);
	return (int)taken.payload_bytes;
}

static void assert_datagram(const char *text)
{
	uint8_t payload[PAYLOAD];

	assert_int_equal(datagram_take(payload), strlen(text));
	assert_memory_equal(payload, text, strlen(text));
}

static void assert_nothing_left(void)
{
	uint8_t payload[PAYLOAD];

	assert_int_equal(datagram_take(payload), -1);
	assert_true(ktsn_ring_has_space(&process.session.ring, SLOTS));
}

/* ktsnd would drop a message that is too long for the lowered MTU. */
TEST_F(message_beyond_a_lowered_mtu_is_refused)
{
	assert_int_equal(send_part("too long", 8, MSG_MORE), 8);
	process.payload_max_bytes = 9;
	assert_int_equal(send_untimed("now", 3, 0), -EMSGSIZE);
	assert_nothing_left();
	assert_int_equal(send_part("fits", 4, MSG_MORE), 4);
	assert_int_equal(send_untimed("again", 5, 0), 5);
	assert_datagram("fitsagain");
}

static void fill_ring(uint32_t slots)
{
	uint32_t slot;

	while (slots--)
		assert_int_equal(ktsn_ring_claim(&process.session.ring, &slot), 0);
}

TEST_F(parts_leave_together_with_the_last)
{
	uint8_t payload[PAYLOAD];

	assert_int_equal(send_part("one", 3, MSG_MORE), 3);
	assert_int_equal(send_part("two", 3, MSG_MORE), 3);
	assert_int_equal(datagram_take(payload), -1);
	assert_int_equal(send_part("three", 5, 0), 5);
	assert_datagram("onetwothree");
	assert_nothing_left();
}

/* A part that carries its thread and number. */
struct part {
	uint32_t thread;
	uint32_t number;
};

static pthread_barrier_t start;
static _Atomic uint32_t ended;

static void *corking_thread(void *thread)
{
	struct part part = {.thread = (uint32_t)(uintptr_t)thread};

	(void)pthread_barrier_wait(&start);
	for (; part.number < 2 * ROUNDS; part.number++)
		if (send_part(&part, sizeof(part), part.number % 2 ? 0 : MSG_MORE) != sizeof(part))
			abort();
	atomic_fetch_add(&ended, 1);
	return NULL;
}

/* Each part arrives whole, in any datagram. */
static void parts_check(const uint8_t *payload, int bytes, uint32_t came[THREADS])
{
	assert_int_equal(bytes % (int)sizeof(struct part), 0);
	for (int at = 0; at < bytes; at += (int)sizeof(struct part)) {
		struct part part;

		memcpy(&part, payload + at, sizeof(part));
		assert_in_range(part.thread, 0, THREADS - 1);
		came[part.thread]++;
		assert_in_range(part.number, 0, 2 * ROUNDS - 1);
	}
}

TEST_F(threads_join_whole_parts)
{
	pthread_t threads[THREADS];
	uint32_t came[THREADS] = {0};
	uint8_t payload[PAYLOAD];
	bool over = false;
	int bytes;

	atomic_store(&ended, 0);
	pthread_barrier_init(&start, NULL, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, corking_thread, (void *)i), 0);
	while (!over) {
		over = atomic_load(&ended) == THREADS;
		while ((bytes = datagram_take(payload)) >= 0)
			parts_check(payload, bytes, came);
		space_slot_freed(&process.session);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(came[i], 2 * ROUNDS);
	}
	assert_nothing_left();
}

/* Runs in the child: returns 0 if the child has begun nothing. */
static int child_after_fork(void)
{
	bool begun;

	flows_forked();
	begun = cork_concerns(process.flow, 0);
	flow_put(process.flow);
	flow_put(flow_remove(process.fd));
	return begun;
}

TEST_F(child_has_no_corked_message_of_its_parent)
{
	int status;
	pid_t child;

	assert_int_equal(send_part("parent", 6, MSG_MORE), 6);
	child = fork();
	if (child == 0)
		_exit(child_after_fork());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	/* The ring is shared: the child has not freed the slot. */
	assert_false(ktsn_ring_has_space(&process.session.ring, SLOTS));
	assert_int_equal(send_part("'s", 2, 0), 2);
	assert_datagram("parent's");
	assert_nothing_left();
}

TEST_F(close_drops_a_corked_message)
{
	assert_int_equal(send_part("never sent", 10, MSG_MORE), 10);
	assert_false(ktsn_ring_has_space(&process.session.ring, SLOTS));
	socket_close();
	assert_nothing_left();
}

/* Otherwise the last part would leave early as a separate datagram. */
TEST_F(corked_message_in_a_lost_ring_is_netdown)
{
	static const int flags[] = {0, MSG_MORE};
	uint8_t payload[PAYLOAD];

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		process.session_lost = false;
		assert_int_equal(send_part("one", 3, MSG_MORE), 3);
		process.session_lost = true;
		assert_int_equal(send_untimed("two", 3, flags[i]), -ENETDOWN);
		assert_false(cork_concerns(process.flow, 0));
	}
	assert_int_equal(process.kernel_calls, 0);
	assert_int_equal(datagram_take(payload), -1);
}

static bool kernel_has_a_beginning_after(size_t bytes, long kernel_results)
{
	static uint8_t data[UINT16_MAX + 1];

	process.kernel_results = 3;
	assert_int_equal(send_untimed("one", 3, MSG_MORE), 3);
	process.kernel_results = kernel_results;
	assert_int_equal(send_untimed(data, bytes, 0), kernel_results);
	return cork_concerns(process.flow, 0);
}

/* Otherwise a following timed message would not be joined with it. */
TEST_F(kernel_keeps_parts_when_it_refuses_one)
{
	assert_true(kernel_has_a_beginning_after(UINT16_MAX + 1, -EMSGSIZE));
	assert_true(kernel_has_a_beginning_after(1, -EOPNOTSUPP));
	assert_false(kernel_has_a_beginning_after(UINT16_MAX, -EMSGSIZE));
	assert_false(kernel_has_a_beginning_after(1, -ENOBUFS));
}

TEST_F(socket_with_ip_options_is_refused)
{
	static const uint8_t no_operation[4] = {1, 1, 1, 1};

	assert_int_equal(setsockopt(process.fd, IPPROTO_IP, IP_OPTIONS, no_operation, sizeof(no_operation)),
			 0);
	datagram_options_read(&process.flow->options, process.fd);
	assert_int_equal(send_part("one", 3, 0), -EOPNOTSUPP);
	assert_int_equal(send_part("one", 3, MSG_MORE), -EOPNOTSUPP);
	assert_false(cork_concerns(process.flow, 0));
	assert_nothing_left();
	assert_int_equal(setsockopt(process.fd, IPPROTO_IP, IP_OPTIONS, NULL, 0), 0);
	datagram_options_read(&process.flow->options, process.fd);
	assert_int_equal(send_part("one", 3, 0), 3);
	assert_datagram("one");
}

/* Three datagrams of ten bytes. */
static long send_three(int flags)
{
	atomic_store(&process.flow->options.segment_bytes, 10);
	return send_part("0123456789abcdefghijABCDEFGHIJ", 30, flags);
}

TEST_F(segments_without_space_are_eagain)
{
	uint8_t payload[PAYLOAD];

	fill_ring(SLOTS - 2);
	assert_int_equal(send_three(MSG_DONTWAIT), -EAGAIN);
	assert_int_equal(datagram_take(payload), -1);
	assert_true(ktsn_ring_has_space(&process.session.ring, 2));
}

TEST_F(segments_wait_for_the_send_timeout)
{
	const struct timeval timeout = {.tv_usec = 30000};
	int64_t began_ms = monotonic_ms();

	assert_int_equal(setsockopt(process.fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)), 0);
	fill_ring(SLOTS - 2);
	assert_int_equal(send_three(0), -EAGAIN);
	assert_true(monotonic_ms() - began_ms >= 25);
	assert_true(ktsn_ring_has_space(&process.session.ring, 2));
}

static void *slot_free_soon(void *slot)
{
	usleep(20000);
	ktsn_ring_unclaim(&process.session.ring, (uint32_t)(uintptr_t)slot);
	space_slot_freed(&process.session);
	return NULL;
}

TEST_F(segments_wait_for_space_for_all)
{
	uint32_t slot;
	pthread_t thread;

	fill_ring(SLOTS - 3);
	assert_int_equal(ktsn_ring_claim(&process.session.ring, &slot), 0);
	assert_int_equal(pthread_create(&thread, NULL, slot_free_soon, (void *)(uintptr_t)slot), 0);
	assert_int_equal(send_three(0), 30);
	pthread_join(thread, NULL);
	for (int i = 0; i < 3; i++) {
		uint8_t payload[PAYLOAD];

		assert_int_equal(datagram_take(payload), 10);
	}
}
