/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving from a ring next to a socket, compared with the kernel: the same call receives each datagram once
 * from the kernel, over the loopback interface, and once from a ring in plain memory. Everything that the
 * application sees is compared byte by byte.
 */
#include "inbox_abi.h"
#include "inbox_options.h"
#include "inbox_read.h"
#include "receive_ring.h"
#include "socket_kind.h"
#include "socket_options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "unit_test.h"

enum { ROOM = 256, HOPS = 64, TOS = 0x28 };

struct rig {
	int fd, sender, family, wire; /* family of the socket, and of the datagrams */
	struct receive_ring ring;
	struct ktsn_receive_control control;
	struct inbox inbox;
	struct sockaddr_storage from;
};

static void address_make(struct sockaddr_storage *address, socklen_t *bytes, int family, int datagram_family)
{
	memset(address, 0, sizeof(*address));
	if (family == AF_INET) {
		struct sockaddr_in *ipv4 = (struct sockaddr_in *)address;

		*ipv4 = (struct sockaddr_in){.sin_family = AF_INET,
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		*bytes = sizeof(*ipv4);
		return;
	}
	((struct sockaddr_in6 *)address)->sin6_family = AF_INET6;
	if (datagram_family == AF_INET6)
		((struct sockaddr_in6 *)address)->sin6_addr = in6addr_loopback;
	*bytes = sizeof(struct sockaddr_in6);
}

static in_port_t port_of(int fd)
{
	struct sockaddr_storage address;
	socklen_t bytes = sizeof(address);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	return ((struct sockaddr_in *)&address)->sin_port;
}

static void options_set(int fd, int level, const int *options, size_t count)
{
	const int on = 1;

	for (size_t i = 0; i < count; i++)
		assert_int_equal(setsockopt(fd, level, options[i], &on, sizeof(on)), 0);
}

/* The socket on which the kernel receives; the ring belongs to it. */
static void rig_begin(struct rig *rig, int family, int wire)
{
	struct sockaddr_storage address;
	socklen_t bytes;
	const int tos = TOS, hops = HOPS;

	memset(rig, 0, sizeof(*rig));
	rig->family = family;
	rig->wire = wire;
	rig->fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	rig->sender = socket(wire, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(rig->fd >= 0 && rig->sender >= 0);
	address_make(&address, &bytes, family, wire);
	assert_int_equal(bind(rig->fd, (struct sockaddr *)&address, bytes), 0);
	address_make(&address, &bytes, wire, wire);
	((struct sockaddr_in *)&address)->sin_port = port_of(rig->fd);
	assert_int_equal(connect(rig->sender, (struct sockaddr *)&address, bytes), 0);
	(void)setsockopt(rig->sender, IPPROTO_IP, ABI_IP_TOS, &tos, sizeof(tos));
	if (wire == AF_INET6) {
		assert_int_equal(setsockopt(rig->sender, IPPROTO_IPV6, ABI_IPV6_TCLASS, &tos, sizeof(tos)),
				 0);
		assert_int_equal(
			setsockopt(rig->sender, IPPROTO_IPV6, IPV6_UNICAST_HOPS, &hops, sizeof(hops)), 0);
	} else {
		assert_int_equal(setsockopt(rig->sender, IPPROTO_IP, ABI_IP_TTL, &hops, sizeof(hops)), 0);
	}
	receive_ring_init(&rig->ring, 0);
	rig->inbox.family = family;
	rig->inbox.cookie = socket_cookie(rig->fd);
	rig->inbox.reader = rig->ring.reader;
	rig->inbox.sleeping = (_Atomic uint32_t *)&rig->control.sleeping;
	rig->inbox.readers = (_Atomic uint32_t *)&rig->control.readers;
	rig->inbox.dropped = (_Atomic uint64_t *)&rig->control.dropped;
	rig->inbox.kernel = (_Atomic uint64_t *)&rig->control.kernel;
	rig->inbox.ended = (_Atomic uint32_t *)&rig->control.ended;
	rig->inbox.renewed_ms = INT64_MAX / 2;
	rig->inbox.ring_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(rig->inbox.ring_fd >= 0);
}

static void rig_end(struct rig *rig)
{
	assert_int_equal(rig->control.sleeping, 0);
	close(rig->fd);
	close(rig->sender);
	close(rig->inbox.ring_fd);
}

static void kernel_put(const struct rig *rig, const char *text)
{
	assert_int_equal(send(rig->sender, text, strlen(text), 0), strlen(text));
}

/* Writes the datagram of kernel_put() as the program at the uplink would. */
static void ring_put(struct rig *rig, const char *text)
{
	struct timespec now;
	struct ktsn_receive_header header = {
		.family = (uint16_t)rig->wire,
		.source_port_be = port_of(rig->sender),
		.tos = TOS,
		.ttl = HOPS,
		.interface = if_nametoindex("lo"),
	};
	const uint64_t increment = 1;

	clock_gettime(CLOCK_TAI, &now);
	header.time_tai_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	if (rig->wire == AF_INET) {
		const uint8_t loopback[4] = {127, 0, 0, 1};

		memcpy(header.source, loopback, sizeof(loopback));
		memcpy(header.destination, loopback, sizeof(loopback));
	} else {
		header.source[15] = header.destination[15] = 1;
	}
	receive_ring_put(&rig->ring, header, text, (uint16_t)strlen(text), 5);
	assert_int_equal(write(rig->inbox.ring_fd, &increment, sizeof(increment)), sizeof(increment));
}

struct call {
	size_t data_bytes, control_bytes;
	socklen_t name_bytes; /* 0: no name */
	int flags;
};

struct answer {
	ssize_t result;
	uint8_t data[ROOM], control[ROOM], name[ROOM];
	struct iovec iov[2];
	struct msghdr message;
};

/* Two pieces; the first is short. */
static void answer_begin(struct answer *answer, const struct call *call)
{
	size_t first = call->data_bytes < 3 ? call->data_bytes : 3;

	memset(answer, 0xa5, sizeof(*answer));
	answer->iov[0] = (struct iovec){answer->data, first};
	answer->iov[1] = (struct iovec){answer->data + first, call->data_bytes - first};
	answer->message = (struct msghdr){.msg_iov = answer->iov,
					  .msg_iovlen = 2,
					  .msg_control = call->control_bytes ? answer->control : NULL,
					  .msg_controllen = call->control_bytes,
					  .msg_name = call->name_bytes ? answer->name : NULL,
					  .msg_namelen = call->name_bytes,
					  .msg_flags = 0x5a5a};
}

/* Time stamps differ but must be close to each other. */
static void stamps_level(struct answer *kernel, struct answer *ring)
{
	for (size_t at = 0; at + CMSG_LEN(16) <= kernel->message.msg_controllen;) {
		struct cmsghdr cmsg;
		int64_t a[2], b[2];

		memcpy(&cmsg, kernel->control + at, sizeof(cmsg));
		if (cmsg.cmsg_level == SOL_SOCKET && cmsg.cmsg_len == CMSG_LEN(16)) {
			memcpy(a, kernel->control + at + CMSG_LEN(0), sizeof(a));
			memcpy(b, ring->control + at + CMSG_LEN(0), sizeof(b));
			assert_in_range(b[0], a[0], a[0] + 5);
			memcpy(ring->control + at + CMSG_LEN(0), a, sizeof(a));
		}
		at += CMSG_ALIGN(cmsg.cmsg_len);
	}
}

static void compare(struct rig *rig, const char *text, const struct call *call)
{
	struct answer kernel, ring;

	answer_begin(&kernel, call);
	answer_begin(&ring, call);
	kernel_put(rig, text);
	kernel.result = recvmsg(rig->fd, &kernel.message, call->flags);
	ring_put(rig, text);
	ring.result = inbox_receive(&rig->inbox, rig->fd, &ring.message, call->flags);
	assert_int_equal(ring.result, kernel.result);
	assert_int_equal(ring.message.msg_flags, kernel.message.msg_flags);
	assert_int_equal(ring.message.msg_namelen, kernel.message.msg_namelen);
	assert_int_equal(ring.message.msg_controllen, kernel.message.msg_controllen);
	stamps_level(&kernel, &ring);
	assert_memory_equal(ring.data, kernel.data, ROOM);
	assert_memory_equal(ring.name, kernel.name, ROOM);
	assert_memory_equal(ring.control, kernel.control, ROOM);
}

static const struct call calls[] = {
	{100, 0, 0, 0},
	{100, 200, sizeof(struct sockaddr_storage), 0},
	{5, 200, 128, 0},
	{5, 200, 128, MSG_TRUNC},
	{0, 0, 128, 0},
	{0, 0, 128, MSG_TRUNC},
	{2, 0, 4, 0},
	{100, 16, 128, 0},
	{100, 8, 128, 0},
	{100, 50, 128, 0},
	{100, 200, 128, MSG_DONTWAIT},
	{100, 200, 128, MSG_WAITALL},
	{100, 200, 128, (int)MSG_CMSG_CLOEXEC},
};

static void calls_compare(struct rig *rig)
{
	assert_true(inbox_options_read(rig->fd, rig->family, (uint32_t *)&rig->inbox.wants));
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		compare(rig, "a datagram", &calls[i]);
		compare(rig, "", &calls[i]);
	}
}

static void family_compare(int family, int wire)
{
	static const int of_socket[][1] = {{ABI_SO_TIMESTAMP_OLD},
					   {ABI_SO_TIMESTAMPNS_OLD},
					   {ABI_SO_TIMESTAMP_NEW},
					   {ABI_SO_TIMESTAMPNS_NEW}};
	static const int of_ipv4[] = {ABI_IP_PKTINFO, ABI_IP_RECVTTL, ABI_IP_RECVTOS};
	static const int of_ipv6[] = {ABI_IPV6_RECVPKTINFO, ABI_IPV6_RECVHOPLIMIT, ABI_IPV6_RECVTCLASS};

	for (size_t stamp = 0; stamp < 5; stamp++)
		for (size_t count = 0; count <= 3; count++) {
			struct rig rig;

			rig_begin(&rig, family, wire);
			if (stamp < 4)
				options_set(rig.fd, SOL_SOCKET, of_socket[stamp], 1);
			options_set(rig.fd, IPPROTO_IP, of_ipv4, count);
			if (family == AF_INET6)
				options_set(rig.fd, IPPROTO_IPV6, of_ipv6, count);
			calls_compare(&rig);
			rig_end(&rig);
		}
}

TEST(ipv4_matches_the_kernel)
{
	family_compare(AF_INET, AF_INET);
}

TEST(ipv6_matches_the_kernel)
{
	family_compare(AF_INET6, AF_INET6);
}

TEST(ipv4_on_ipv6_matches_the_kernel)
{
	family_compare(AF_INET6, AF_INET);
}

static ssize_t text_receive(struct rig *rig, char *text, int flags)
{
	struct iovec iov = {text, ROOM};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t bytes = inbox_receive(&rig->inbox, rig->fd, &message, flags);

	text[bytes > 0 ? bytes : 0] = '\0';
	return bytes;
}

static void expect(struct rig *rig, const char *expected, int flags)
{
	char text[ROOM + 1];

	assert_int_equal(text_receive(rig, text, flags), strlen(expected));
	assert_string_equal(text, expected);
}

static void expect_error(struct rig *rig, int error, int flags)
{
	char text[ROOM + 1];

	assert_int_equal(text_receive(rig, text, flags), -error);
}

TEST(peeks_and_then_takes)
{
	struct rig rig;

	rig_begin(&rig, AF_INET, AF_INET);
	expect_error(&rig, EAGAIN, MSG_DONTWAIT);
	ring_put(&rig, "once");
	assert_int_equal(inbox_next_bytes(&rig.inbox), 4);
	expect(&rig, "once", MSG_PEEK);
	expect(&rig, "once", MSG_PEEK | MSG_DONTWAIT);
	expect(&rig, "once", 0);
	expect_error(&rig, EAGAIN, MSG_DONTWAIT);
	assert_int_equal(inbox_next_bytes(&rig.inbox), -EAGAIN);
	rig_end(&rig);
}

TEST(reads_both_queues_in_turns)
{
	struct rig rig;
	char text[ROOM + 1];
	int ring = 0, kernel = 0;

	rig_begin(&rig, AF_INET, AF_INET);
	for (int i = 0; i < 10; i++) {
		ring_put(&rig, "ring");
		kernel_put(&rig, "kernel");
		rig.control.kernel++;
	}
	for (int i = 0; i < 10; i++) {
		assert_true(text_receive(&rig, text, MSG_DONTWAIT) > 0);
		ring += strcmp(text, "ring") == 0;
		kernel += strcmp(text, "kernel") == 0;
	}
	assert_int_equal(ring, 5);
	assert_int_equal(kernel, 5);
	for (int i = 0; i < 10; i++)
		assert_true(text_receive(&rig, text, MSG_DONTWAIT) > 0);
	expect_error(&rig, EAGAIN, MSG_DONTWAIT);
	rig_end(&rig);
}

/* After the first socket asks for time stamps, the kernel needs a while before it stamps datagrams on
 * arrival (net_enable_timestamp()). Until then it stamps them when they are read. */
static void kernel_stamps_await(struct rig *rig)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	struct timespec read_at, stamp;

	do {
		char data[ROOM], control[CMSG_SPACE(sizeof(stamp))];
		struct iovec iov = {data, sizeof(data)};
		struct msghdr message = {.msg_iov = &iov,
					 .msg_iovlen = 1,
					 .msg_control = control,
					 .msg_controllen = sizeof(control)};

		kernel_put(rig, "first");
		nanosleep(&pause, NULL);
		clock_gettime(CLOCK_REALTIME, &read_at);
		assert_true(recvmsg(rig->fd, &message, MSG_DONTWAIT) > 0);
		assert_non_null(CMSG_FIRSTHDR(&message));
		memcpy(&stamp, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(stamp));
	} while (stamp.tv_sec > read_at.tv_sec ||
		 (stamp.tv_sec == read_at.tv_sec && stamp.tv_nsec >= read_at.tv_nsec));
}

TEST(orders_both_queues_by_time_stamps)
{
	static const int stamps[] = {ABI_SO_TIMESTAMPNS_OLD};
	const struct timespec pause = {.tv_nsec = 2000000};
	const char *const order[] = {"kernel", "ring", "ring", "kernel", "ring", "kernel", "kernel"};
	struct rig rig;

	rig_begin(&rig, AF_INET, AF_INET);
	options_set(rig.fd, SOL_SOCKET, stamps, 1);
	assert_true(inbox_options_read(rig.fd, AF_INET, (uint32_t *)&rig.inbox.wants));
	kernel_stamps_await(&rig);
	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
		if (strcmp(order[i], "ring") == 0) {
			ring_put(&rig, "ring");
		} else {
			kernel_put(&rig, "kernel");
			rig.control.kernel++;
		}
		nanosleep(&pause, NULL);
	}
	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++)
		expect(&rig, order[i], MSG_DONTWAIT);
	rig_end(&rig);
}

TEST(reads_the_kernel_queue_without_a_count)
{
	const struct timespec pause = {.tv_nsec = 30000000};
	struct rig rig;

	rig_begin(&rig, AF_INET, AF_INET);
	expect_error(&rig, EAGAIN, MSG_DONTWAIT);
	nanosleep(&pause, NULL);
	kernel_put(&rig, "uncounted");
	expect(&rig, "uncounted", MSG_DONTWAIT);
	rig_end(&rig);
}

/* Sends to a port without a listener. The error is pending when this returns. */
static void refused_cause(const struct rig *rig)
{
	struct pollfd refused = {.fd = rig->fd};
	struct sockaddr_storage address;
	socklen_t bytes;

	address_make(&address, &bytes, AF_INET, AF_INET);
	((struct sockaddr_in *)&address)->sin_port = htons(1);
	assert_int_equal(connect(rig->fd, (struct sockaddr *)&address, bytes), 0);
	assert_int_equal(send(rig->fd, "x", 1, 0), 1);
	assert_int_equal(poll(&refused, 1, 5000), 1);
}

TEST(returns_the_socket_error)
{
	struct rig rig;

	rig_begin(&rig, AF_INET, AF_INET);
	refused_cause(&rig);
	ring_put(&rig, "behind");
	expect_error(&rig, ECONNREFUSED, 0);
	expect(&rig, "behind", 0);
	rig_end(&rig);
}

TEST(returns_a_reported_socket_error)
{
	struct rig rig;

	rig_begin(&rig, AF_INET, AF_INET);
	refused_cause(&rig);
	/* Makes the next call look at the socket. */
	atomic_store(&rig.inbox.looked_ns, INT64_MAX / 2);
	expect_error(&rig, EAGAIN, MSG_DONTWAIT);
	inbox_error_reported();
	expect_error(&rig, ECONNREFUSED, MSG_DONTWAIT);
	rig_end(&rig);
}

TEST(returns_a_kept_error_first)
{
	struct rig rig;

	rig_begin(&rig, AF_INET, AF_INET);
	ring_put(&rig, "behind");
	inbox_error_keep(&rig.inbox, ECONNREFUSED);
	expect_error(&rig, ECONNREFUSED, 0);
	expect(&rig, "behind", 0);
	rig_end(&rig);
}

TEST(receives_from_the_current_descriptor)
{
	struct rig former, now;

	rig_begin(&former, AF_INET, AF_INET);
	rig_begin(&now, AF_INET, AF_INET);
	expect_error(&former, EAGAIN, MSG_DONTWAIT);
	assert_int_equal(dup2(now.fd, former.fd), former.fd);
	kernel_put(&now, "of the new socket");
	expect(&former, "of the new socket", 0);
	rig_end(&former);
	rig_end(&now);
}

TEST(waits_until_the_timeout)
{
	const struct timeval limit = {.tv_usec = 50000};
	struct timespec began, ended;
	struct rig rig;

	rig_begin(&rig, AF_INET, AF_INET);
	assert_int_equal(setsockopt(rig.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	clock_gettime(CLOCK_MONOTONIC, &began);
	expect_error(&rig, EAGAIN, 0);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	assert_true((ended.tv_sec - began.tv_sec) * 1000 + (ended.tv_nsec - began.tv_nsec) / 1000000 >= 49);
	kernel_put(&rig, "kernel");
	expect(&rig, "kernel", 0);
	rig_end(&rig);
}

TEST(ends_when_shut_down)
{
	struct rig rig;

	rig_begin(&rig, AF_INET, AF_INET);
	ring_put(&rig, "before");
	(void)shutdown(rig.fd, SHUT_RD);
	expect(&rig, "before", 0);
	expect_error(&rig, EAGAIN, MSG_DONTWAIT);
	/* The reader leaves the eventfd unread, like the kernel's descriptor. */
	assert_true(read(rig.inbox.ring_fd, &(uint64_t){0}, 8) == 8);
	expect(&rig, "", 0);
	rig_end(&rig);
}

static void nothing(int signal)
{
}

static void interrupted(int flags, int error)
{
	const struct itimerval soon = {.it_value = {.tv_usec = 30000}};
	const struct timeval limit = {.tv_usec = 200000};
	struct sigaction action = {.sa_handler = nothing, .sa_flags = flags}, before;
	struct rig rig;

	rig_begin(&rig, AF_INET, AF_INET);
	if (error == EAGAIN)
		assert_int_equal(setsockopt(rig.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &soon, NULL);
	expect_error(&rig, EINTR, 0);
	sigaction(SIGALRM, &before, NULL);
	rig_end(&rig);
}

TEST(is_interrupted_by_a_signal)
{
	interrupted(0, EINTR);
}

/* As in the kernel, a call with a time-out is not restarted. */
TEST(timed_wait_is_not_restarted)
{
	interrupted(SA_RESTART, EAGAIN);
}

TEST(refuses_what_the_kernel_refuses)
{
	struct rig rig;
	struct iovec iov = {&rig, SIZE_MAX};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	rig_begin(&rig, AF_INET, AF_INET);
	ring_put(&rig, "stays");
	assert_int_equal(inbox_receive(&rig.inbox, rig.fd, &message, 0), -EINVAL);
	message.msg_iovlen = 1025;
	assert_int_equal(inbox_receive(&rig.inbox, rig.fd, &message, 0), -EMSGSIZE);
	expect(&rig, "stays", 0);
	rig_end(&rig);
}

TEST(leaves_kernel_only_options)
{
	static const int options[][2] = {
		{SOL_SOCKET, ABI_SO_TIMESTAMPING_OLD}, {IPPROTO_IP, ABI_IP_RECVOPTS},
		{IPPROTO_IP, ABI_IP_RECVORIGDSTADDR},  {SOL_UDP, ABI_UDP_GRO},
		{SOL_SOCKET, ABI_SO_PEEK_OFF},
	};
	const int value = 1 << 4; /* SOF_TIMESTAMPING_SOFTWARE; the others are always on */
	uint32_t wants;

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++) {
		struct rig rig;

		rig_begin(&rig, AF_INET, AF_INET);
		assert_true(inbox_options_read(rig.fd, AF_INET, &wants));
		assert_int_equal(setsockopt(rig.fd, options[i][0], options[i][1], &value, sizeof(value)), 0);
		assert_true(inbox_options_concern(options[i][0], options[i][1]));
		assert_false(inbox_options_read(rig.fd, AF_INET, &wants));
		rig_end(&rig);
	}
}
