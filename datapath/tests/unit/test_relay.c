/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The relay with a ktsnd that is slow, refuses, is too old, ends, or has no room. The tests take the place of
 * ktsnd and of the kernel that captures frames. The relay runs in a thread of its own, so that each request
 * is answered when the test wants it.
 */
#include "clock.h"
#include "relay.h"
#include "ring_consumer.h"
#include "ring_memory.h"
#include "source_tap.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit_test.h"

#include "../fd_message.h"

enum {
	SLOTS = 64,
	MTU_BYTES = 1500,
	TIMEOUT_MS = 20000,
	FLOW = 7,         /* the first number that the tests assign */
	DESTINATION = 40, /* likewise */
	PRIORITY = 5,
};

#define TXTIME_NS INT64_C(0x178a010203040506)

static char folder[] = "/tmp/ktsn-relay-XXXXXX";
static const struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "app.sock"};

static struct relay relay;
static struct source_tap tap;
static struct ktsn_capture_heartbeat heartbeat_map;
static pthread_t thread;

/* The tests' side. */
static struct outside {
	int listener;
	int tap; /* the test writes frames here, as the kernel does */
	int packet_fd, counters_fd;
	struct relay_counters *counters;
	struct ktsn_ring_memory memory[RELAY_KINDS];
	struct ktsn_ring_consumer ring[RELAY_KINDS];
	int doorbell[RELAY_KINDS];
	int connection[RELAY_KINDS];
} outside;

/* ---- the relay and its environment ---- */

static int folder_enter(void **state)
{
	return mkdtemp(folder) ? chdir(folder) : -1;
}

static int folder_remove(void **state)
{
	unlink(address.sun_path);
	return chdir("/") || rmdir(folder);
}

static void listen_again(void)
{
	outside.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	unlink(address.sun_path);
	assert_int_equal(bind(outside.listener, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(outside.listener, 8), 0);
}

static void *run(void *unused)
{
	(void)relay_run(&relay);
	return NULL;
}

/* Before the relay runs. */
static void relay_prepare(bool all)
{
	int taps[2];

	memset(&relay, 0, sizeof(relay));
	memset(&heartbeat_map, 0, sizeof(heartbeat_map));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, taps), 0);
	outside.tap = taps[0];
	outside.packet_fd = eventfd(0, EFD_CLOEXEC);
	outside.counters_fd = memfd_create("counters", MFD_CLOEXEC);
	assert_int_equal(relay_counters_open(outside.counters_fd, &outside.counters), 0);
	listen_again();
	relay.all = all;
	relay.bypass.fd = -1;
	source_tap_init(&tap, taps[1]);
	relay.source = &tap.source;
	relay.counters = outside.counters;
	relay.heartbeat = &heartbeat_map;
	relay.setup = (struct session_setup){
		.socket_name = address.sun_path,
		.packet_fd = outside.packet_fd,
		.counters = outside.counters,
		.version_oldest = KTSN_APP_VERSION_OLDEST,
		.version_newest = KTSN_APP_VERSION,
	};
	assert_int_equal(relay_init(&relay), 0);
}

static void relay_begin(void)
{
	assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
}

static void session_end(int kind)
{
	struct session *session = &relay.sessions[kind];

	session_disconnect(session);
	if (session->ring.header) {
		munmap(session->ring.header, session->ring_bytes);
		close(session->ring_fd);
		close(session->doorbell_fd);
	}
	if (session->space_fd >= 0)
		close(session->space_fd);
	if (outside.memory[kind].address)
		ktsn_ring_memory_destroy(&outside.memory[kind]);
	if (outside.connection[kind] > 0)
		close(outside.connection[kind]);
	if (outside.doorbell[kind] > 0)
		close(outside.doorbell[kind]);
	outside.doorbell[kind] = 0;
}

static void relay_end(void)
{
	close(outside.tap);
	assert_int_equal(pthread_join(thread, NULL), 0);
	for (int kind = 0; kind < RELAY_KINDS; kind++)
		session_end(kind);
	close(tap.source.fd);
	close(relay.epoll_fd);
	close(relay.signal_fd);
	munmap(outside.counters, sizeof(*outside.counters));
	close(outside.counters_fd);
	close(outside.packet_fd);
	close(outside.listener);
	memset(&outside, 0, sizeof(outside));
}

static void count_await(const _Atomic uint64_t *counter, uint64_t value)
{
	for (int i = 0; i < TIMEOUT_MS && atomic_load(counter) != value; i++)
		usleep(1000);
	assert_int_equal(atomic_load(counter), value);
}

/* ---- ktsnd ---- */

static void readable_await(int fd)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};

	assert_int_equal(poll(&readable, 1, TIMEOUT_MS), 1);
}

static int connection_accept(void)
{
	int fd;

	readable_await(outside.listener);
	fd = accept4(outside.listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* Returns the descriptor that came with it, or -1. */
static int request_receive(int connection, enum ktsn_app_type type, struct ktsn_app_request *request)
{
	size_t count;
	int fd = -1;

	readable_await(connection);
	assert_int_equal(
		fd_message_receive(connection, request, sizeof(*request), &fd, 1, &count, MSG_CMSG_CLOEXEC),
		sizeof(*request));
	assert_int_equal(request->magic, KTSN_APP_MAGIC);
	assert_int_equal(request->type, type);
	return fd;
}

static struct ktsn_app_reply reply_to(const struct ktsn_app_request *request)
{
	return (struct ktsn_app_reply){
		.magic = KTSN_APP_MAGIC,
		.version = KTSN_APP_VERSION,
		.type = request->type,
		.number = request->number,
		.flow = KTSN_APP_NONE,
		.destination = KTSN_APP_NONE,
	};
}

static void reply_send(int connection, const struct ktsn_app_reply *reply, const int *fds, size_t count)
{
	assert_int_equal(fd_message_send(connection, reply, sizeof(*reply), fds, count, 0), sizeof(*reply));
}

static void status_send(int connection, const struct ktsn_app_request *request, int status)
{
	struct ktsn_app_reply reply = reply_to(request);

	reply.status = status;
	reply_send(connection, &reply, NULL, 0);
}

/* Its content belongs to ktsnd, even while the test looks for it. */
static void ring_give(int kind, const struct ktsn_app_request *hello)
{
	struct ktsn_app_reply reply = reply_to(hello);
	struct ktsn_ring_memory *memory = &outside.memory[kind];
	int fds[2];

	assert_int_equal(ktsn_ring_memory_create(memory, ktsn_ring_geometry_make(SLOTS, MTU_BYTES)), 0);
	ktsn_ring_consumer_init(&outside.ring[kind], memory->address, memory->geometry.slot_count,
				memory->geometry.slot_bytes);
	if (outside.doorbell[kind] > 0)
		close(outside.doorbell[kind]);
	outside.doorbell[kind] = eventfd(0, EFD_CLOEXEC);
	fds[0] = memory->fd;
	fds[1] = outside.doorbell[kind];
	reply.ring_bytes = memory->bytes;
	reply_send(outside.connection[kind], &reply, fds, 2);
}

static void hello_serve(int kind)
{
	struct ktsn_app_request hello;

	outside.connection[kind] = connection_accept();
	(void)request_receive(outside.connection[kind], KTSN_APP_HELLO, &hello);
	assert_int_equal(hello.version, relay.setup.version_newest);
	assert_int_equal(hello.flags, kind == RELAY_UNTIMED ? KTSN_APP_UNTIMED : 0);
	ring_give(kind, &hello);
}

static bool is_same_file(int fd, int other)
{
	struct stat status, expected;

	return fstat(fd, &status) == 0 && fstat(other, &expected) == 0 && status.st_ino == expected.st_ino;
}

/* Takes the request for the flow with this number (KTSN_APP_NONE: a new one). */
static void flow_serve(int kind, uint32_t wanted, uint32_t number, enum ktsn_clock clock, uint8_t flags)
{
	struct ktsn_app_request request;
	int fd = request_receive(outside.connection[kind], KTSN_APP_FLOW_OPEN, &request);
	struct ktsn_app_reply reply = reply_to(&request);

	assert_true(is_same_file(fd, outside.packet_fd));
	close(fd);
	assert_int_equal(request.flow, wanted);
	assert_int_equal(request.destination, KTSN_APP_NONE);
	assert_int_equal(request.clock, clock);
	assert_int_equal(request.flags, KTSN_APP_FRAMES | flags);
	reply.flow = number;
	reply_send(outside.connection[kind], &reply, NULL, 0);
}

/* Returns the eventfd through which the relay is notified. */
static int space_serve(uint32_t flow)
{
	struct ktsn_app_request request;
	int fd = request_receive(outside.connection[RELAY_TIMED], KTSN_APP_FLOW_WAKE, &request);

	assert_true(fd >= 0);
	assert_int_equal(request.flags, KTSN_APP_WAKE_SPACE);
	assert_int_equal(request.flow, flow);
	status_send(outside.connection[RELAY_TIMED], &request, 0);
	return fd;
}

static const uint8_t macs[FRAME_ADDRESSES_BYTES] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1};

static struct ktsn_app_request destination_receive(int kind, uint32_t flow, uint32_t wanted)
{
	struct ktsn_app_request request;

	assert_int_equal(request_receive(outside.connection[kind], KTSN_APP_DESTINATION, &request), -1);
	assert_int_equal(request.flow, flow);
	assert_int_equal(request.destination, wanted);
	assert_int_equal(request.family, AF_PACKET);
	assert_memory_equal(request.address, macs, sizeof(macs));
	return request;
}

static void destination_reply_for(int kind, const struct ktsn_app_request *request, uint32_t number,
				  uint32_t mtu_bytes)
{
	struct ktsn_app_reply reply = reply_to(request);

	reply.destination = number;
	reply.route = KTSN_APP_ROUTE_TSN;
	reply.payload_max_bytes = mtu_bytes;
	reply_send(outside.connection[kind], &reply, NULL, 0);
}

static void destination_reply(int kind, const struct ktsn_app_request *request, uint32_t number)
{
	destination_reply_for(kind, request, number, MTU_BYTES);
}

static void destination_serve(int kind, uint32_t flow, uint32_t wanted, uint32_t number)
{
	const struct ktsn_app_request request = destination_receive(kind, flow, wanted);

	destination_reply(kind, &request, number);
}

static void route_serve(void)
{
	flow_serve(RELAY_TIMED, KTSN_APP_NONE, FLOW, KTSN_CLOCK_TAI, 0);
	close(space_serve(FLOW));
	destination_serve(RELAY_TIMED, FLOW, KTSN_APP_NONE, DESTINATION);
}

/* Answers everything that the first timed frame needs. */
static void first_serve(void)
{
	hello_serve(RELAY_TIMED);
	route_serve();
}

static struct ktsn_ring_taken frame_await(int kind)
{
	struct ktsn_ring_taken taken;
	int took = 0;

	for (int i = 0; i < TIMEOUT_MS && took <= 0; i++) {
		took = ktsn_ring_take(&outside.ring[kind], &taken);
		if (took <= 0)
			usleep(1000);
	}
	assert_int_equal(took, 1);
	return taken;
}

static uint8_t first_byte_await(int kind)
{
	return ktsn_ring_taken_payload(&outside.ring[kind], frame_await(kind).slot)[0];
}

static const struct ktsn_ring_slot *slot_of(int kind, const struct ktsn_ring_taken *taken)
{
	const struct ktsn_ring_consumer *ring = &outside.ring[kind];

	return ktsn_ring_slot_at(ring->header, ring->slots_offset, ring->slot_bytes, taken->slot);
}

/* ---- frames ---- */

static const struct virtio_net_hdr nothing_left;

/* An EtherType of IPv4 and this many bytes that begin with `first`. */
static void frame_put(const void *in_front, size_t in_front_bytes, uint8_t first, size_t payload_bytes)
{
	static uint8_t bytes[FRAME_BYTES_MAX];
	uint8_t *at = bytes;

	at = (uint8_t *)memcpy(at, &nothing_left, sizeof(nothing_left)) + sizeof(nothing_left);
	at = (uint8_t *)memcpy(at, in_front, in_front_bytes) + in_front_bytes;
	at = (uint8_t *)memcpy(at, macs, sizeof(macs)) + sizeof(macs);
	at = (uint8_t *)memcpy(at, "\x08\x00", 2) + 2;
	memset(at, 0, payload_bytes);
	at[0] = first;
	assert_true(send(outside.tap, bytes, (size_t)(at + payload_bytes - bytes), MSG_NOSIGNAL) > 0);
}

static void timed_put_as(uint8_t label, uint8_t first, size_t payload_bytes)
{
	uint8_t record[KTSN_RECORD_BYTES] = {0};
	static const uint8_t after_addresses[] = {0x88, 0xb5, KTSN_RECORD_VERSION};
	static const uint8_t time[] = {0x17, 0x8a, 1, 2, 3, 4, 5, 6};

	memcpy(record, macs, sizeof(macs));
	memcpy(record + KTSN_RECORD_AT_ETHERTYPE, after_addresses, sizeof(after_addresses));
	record[KTSN_RECORD_AT_WHAT] = label;
	memcpy(record + KTSN_RECORD_AT_TIME, time, sizeof(time));
	frame_put(record, sizeof(record), first, payload_bytes);
}

static void timed_put(uint8_t first)
{
	timed_put_as(PRIORITY, first, 46);
}

static void untimed_put(uint8_t first)
{
	frame_put("", 0, first, 46);
}

/* Answers everything that comes before the first untimed frame. */
static void untimed_serve(void)
{
	hello_serve(RELAY_TIMED);
	hello_serve(RELAY_UNTIMED);
	flow_serve(RELAY_UNTIMED, KTSN_APP_NONE, FLOW, KTSN_CLOCK_TAI, 0);
}

/* ---- tests ---- */

static int set_up(void **state)
{
	relay_prepare(false);
	relay_begin();
	return 0;
}

static int untimed_set_up(void **state)
{
	relay_prepare(true);
	relay_begin();
	untimed_serve();
	return 0;
}

static int tear_down(void **state)
{
	relay_end();
	return 0;
}

#define UNTIMED_TEST(name) TEST_WITH(name, untimed_set_up, tear_down)

TEST_F(timed_frame_reaches_the_ring)
{
	struct ktsn_ring_taken taken;

	timed_put(0xa1);
	first_serve();
	taken = frame_await(RELAY_TIMED);
	assert_int_equal(taken.flow, FLOW);
	assert_int_equal(taken.destination, DESTINATION);
	assert_int_equal(taken.txtime_ns, TXTIME_NS);
	assert_int_equal(taken.payload_bytes, 46);
	assert_int_equal(ktsn_ring_taken_payload(&outside.ring[RELAY_TIMED], taken.slot)[0], 0xa1);
	assert_int_equal(slot_of(RELAY_TIMED, &taken)->priority, PRIORITY);
	assert_memory_equal(&slot_of(RELAY_TIMED, &taken)->ethertype_be, "\x08\x00", 2);
	/* The next one needs no request, and the doorbell rings if ktsnd has asked for it. */
	timed_put(0xa2);
	taken = frame_await(RELAY_TIMED);
	assert_int_equal(taken.destination, DESTINATION);
	readable_await(outside.doorbell[RELAY_TIMED]);
	count_await(&outside.counters->handed[RELAY_TIMED], 2);
	assert_int_equal(outside.counters->read[RELAY_TIMED], 2);
	assert_int_equal(outside.counters->connected, 1);
}

TEST_F(each_clock_and_deadline_has_a_flow)
{
	timed_put(1);
	first_serve();
	timed_put_as(KTSN_RECORD_MONOTONIC << KTSN_RECORD_CLOCK_SHIFT, 2, 46);
	flow_serve(RELAY_TIMED, KTSN_APP_NONE, 3, KTSN_CLOCK_MONOTONIC, 0);
	destination_serve(RELAY_TIMED, 3, KTSN_APP_NONE, 50);
	timed_put_as(KTSN_RECORD_DEADLINE, 3, 46);
	flow_serve(RELAY_TIMED, KTSN_APP_NONE, 4, KTSN_CLOCK_TAI, KTSN_APP_DEADLINE);
	destination_serve(RELAY_TIMED, 4, KTSN_APP_NONE, 51);
	count_await(&outside.counters->handed[RELAY_TIMED], 3);
}

UNTIMED_TEST(untimed_frames_have_their_ring)
{
	struct ktsn_ring_taken taken;

	untimed_put(0xb1);
	destination_serve(RELAY_UNTIMED, FLOW, KTSN_APP_NONE, DESTINATION);
	taken = frame_await(RELAY_UNTIMED);
	assert_true(taken.txtime_ns > 0);
	assert_int_equal(taken.payload_bytes, 46);
	assert_int_equal(slot_of(RELAY_UNTIMED, &taken)->priority, 0);
	count_await(&outside.counters->handed[RELAY_UNTIMED], 1);
}

static unsigned long long heartbeat(void)
{
	return atomic_load((_Atomic unsigned long long *)&heartbeat_map.at_ns);
}

/* While ktsnd's loop completes rounds. */
static void heartbeat_await(struct ktsn_ring_header *header)
{
	for (int i = 0; i < TIMEOUT_MS && heartbeat() == 0; i++) {
		atomic_store(&header->alive_ns, monotonic_ns());
		usleep(1000);
	}
	assert_int_not_equal(heartbeat(), 0);
}

UNTIMED_TEST(heartbeat_follows_ktsnd)
{
	struct ktsn_ring_header *header;

	count_await(&outside.counters->connected, 3);
	/* Time for some heartbeats; there must be none because ktsnd's loop has never completed a round. */
	usleep(100000);
	assert_int_equal(heartbeat(), 0);
	header = outside.memory[RELAY_UNTIMED].address;
	heartbeat_await(header);
}

/* ktsnd runs without the pod's endpoint: it would drop the frames that are diverted. */
TEST_WITH(heartbeat_waits_for_the_flow, NULL, tear_down)
{
	struct ktsn_app_request request;
	struct ktsn_ring_header *header;

	relay_prepare(true);
	relay_begin();
	hello_serve(RELAY_TIMED);
	hello_serve(RELAY_UNTIMED);
	header = outside.memory[RELAY_UNTIMED].address;
	/* The relay keeps asking. */
	for (int i = 0; i < 4; i++) {
		atomic_store(&header->alive_ns, monotonic_ns());
		close(request_receive(outside.connection[RELAY_UNTIMED], KTSN_APP_FLOW_OPEN, &request));
		status_send(outside.connection[RELAY_UNTIMED], &request, i % 2 ? -EMFILE : -ENETDOWN);
	}
	assert_int_equal(heartbeat(), 0);
	flow_serve(RELAY_UNTIMED, KTSN_APP_NONE, FLOW, KTSN_CLOCK_TAI, 0);
	heartbeat_await(header);
}

/* The gates that ktsnd reported apply while it is away: a frame whose gate closes at times does not leave
 * by the bridge. */
TEST(gated_frame_does_not_bypass)
{
	struct ktsn_ring_header *header;
	int bridge[2];
	char frame[64];

	relay_prepare(true);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, bridge), 0);
	relay.bypass.fd = bridge[0];
	relay.stale_left = 0;
	relay_begin();
	untimed_serve();
	header = outside.memory[RELAY_UNTIMED].address;
	atomic_store(&header->gated, 1);
	heartbeat_await(header);
	assert_int_equal(atomic_load((_Atomic unsigned long long *)&heartbeat_map.gated), 1);
	close(outside.listener);
	for (int kind = 0; kind < RELAY_KINDS; kind++)
		close(outside.connection[kind]);
	count_await(&outside.counters->connected, 0);
	untimed_put(1);
	count_await(&outside.counters->dropped[RELAY_DROP_NO_DAEMON], 1);
	assert_int_equal(outside.counters->gated, 1);
	/* Neither does a higher priority, which the sender chooses. */
	timed_put_as(PRIORITY | KTSN_RECORD_UNTIMED << KTSN_RECORD_CLOCK_SHIFT, 2, 46);
	count_await(&outside.counters->dropped[RELAY_DROP_NO_DAEMON], 2);
	/* A gate that closes for higher priorities does not matter. */
	atomic_store(&header->gated, 2);
	untimed_put(2);
	count_await(&outside.counters->bypassed, 1);
	assert_true(recv(bridge[1], frame, sizeof(frame), 0) > 0);
	assert_int_equal(recv(bridge[1], frame, sizeof(frame), 0), -1);
	listen_again();
	memset(outside.connection, 0, sizeof(outside.connection));
	relay_end();
	close(bridge[0]);
	close(bridge[1]);
}

TEST_WITH(old_untimed_frames_are_stale, NULL, tear_down)
{
	enum { WAITED = 100 };

	relay_prepare(true);
	for (int i = 0; i < WAITED; i++)
		untimed_put(0);
	timed_put(1);
	relay_begin();
	untimed_serve();
	route_serve();
	(void)frame_await(RELAY_TIMED);
	count_await(&outside.counters->dropped[RELAY_DROP_STALE], WAITED);
	/* Later frames are sent. */
	untimed_put(2);
	destination_serve(RELAY_UNTIMED, FLOW, KTSN_APP_NONE, DESTINATION);
	(void)frame_await(RELAY_UNTIMED);
	assert_int_equal(outside.counters->dropped[RELAY_DROP_STALE], WAITED);
}

TEST_F(frame_without_record_is_dropped)
{
	hello_serve(RELAY_TIMED);
	untimed_put(1);
	count_await(&outside.counters->dropped[RELAY_DROP_UNEXPECTED], 1);
}

TEST_F(old_ktsnd_is_logged_and_awaited)
{
	struct ktsn_app_request hello;
	struct ktsn_app_reply reply;
	int fd;

	timed_put(0xc1);
	fd = connection_accept();
	(void)request_receive(fd, KTSN_APP_HELLO, &hello);
	reply = reply_to(&hello);
	reply.status = -EPROTONOSUPPORT;
	reply.version = KTSN_APP_VERSION_OLDEST - 1;
	reply_send(fd, &reply, NULL, 0);
	close(fd);
	count_await(&outside.counters->too_old, 1);
	assert_int_equal(outside.counters->protocol, KTSN_APP_VERSION_OLDEST - 1);
	/* It was upgraded. */
	first_serve();
	(void)frame_await(RELAY_TIMED);
	count_await(&outside.counters->too_old, 0);
}

static void version_refuse(int kind, enum ktsn_app_type type, uint16_t asked, uint16_t spoken)
{
	struct ktsn_app_request request;
	struct ktsn_app_reply reply;
	int fd = request_receive(outside.connection[kind], type, &request);

	assert_int_equal(request.version, asked);
	if (fd >= 0)
		close(fd);
	reply = reply_to(&request);
	reply.status = -EPROTONOSUPPORT;
	reply.version = spoken;
	reply_send(outside.connection[kind], &reply, NULL, 0);
}

/* The relay of the next release with this release's ktsnd. */
static void relay_begin_newer(void)
{
	relay_prepare(false);
	relay.setup.version_newest = KTSN_APP_VERSION + 1;
	relay_begin();
}

static void hello_serve_older(void)
{
	struct ktsn_app_request hello;

	outside.connection[RELAY_TIMED] = connection_accept();
	version_refuse(RELAY_TIMED, KTSN_APP_HELLO, KTSN_APP_VERSION + 1, KTSN_APP_VERSION);
	(void)request_receive(outside.connection[RELAY_TIMED], KTSN_APP_HELLO, &hello);
	assert_int_equal(hello.version, KTSN_APP_VERSION);
	ring_give(RELAY_TIMED, &hello);
}

TEST_WITH(relay_negotiates_an_older_version, NULL, tear_down)
{
	relay_begin_newer();
	timed_put(0xc1);
	hello_serve_older();
	route_serve();
	(void)frame_await(RELAY_TIMED);
	assert_int_equal(outside.counters->too_old, 0);
	assert_int_equal(outside.counters->protocol, KTSN_APP_VERSION);
}

/* A connection is handed over to an older ktsnd. */
TEST_WITH(requests_are_repeated_for_an_older_ktsnd, NULL, tear_down)
{
	relay_begin_newer();
	timed_put(0xc1);
	hello_serve(RELAY_TIMED);
	version_refuse(RELAY_TIMED, KTSN_APP_FLOW_OPEN, KTSN_APP_VERSION + 1, KTSN_APP_VERSION);
	route_serve();
	(void)frame_await(RELAY_TIMED);
}

static void ktsnd_ends(void)
{
	close(outside.connection[RELAY_TIMED]);
	close(outside.listener);
	unlink(address.sun_path);
	count_await(&outside.counters->connected, 0);
}

/* The first ktsnd ends after the relay has handed it a frame, and another frame waits in the ring. */
static void ktsnd_ends_with_a_ring(void)
{
	timed_put(0xd1);
	first_serve();
	(void)frame_await(RELAY_TIMED);
	ktsnd_ends();
	timed_put(0xd2);
	count_await(&outside.counters->handed[RELAY_TIMED], 2);
	listen_again();
	outside.connection[RELAY_TIMED] = connection_accept();
}

static void ring_returns(void)
{
	struct ktsn_app_request request;
	struct ktsn_app_reply reply;
	int fd, doorbell;

	fd = request_receive(outside.connection[RELAY_TIMED], KTSN_APP_HAND_BACK, &request);
	assert_true(is_same_file(fd, outside.memory[RELAY_TIMED].fd));
	assert_int_equal(request.flags, 0);
	close(fd);
	doorbell = eventfd(0, EFD_CLOEXEC);
	reply = reply_to(&request);
	reply_send(outside.connection[RELAY_TIMED], &reply, &doorbell, 1);
	flow_serve(RELAY_TIMED, FLOW, FLOW, KTSN_CLOCK_TAI, 0);
	close(space_serve(FLOW));
	destination_serve(RELAY_TIMED, FLOW, DESTINATION, DESTINATION);
	(void)request_receive(outside.connection[RELAY_TIMED], KTSN_APP_RESUME, &request);
	status_send(outside.connection[RELAY_TIMED], &request, 0);
	count_await(&outside.counters->handed_back, 1);
	assert_int_equal(frame_await(RELAY_TIMED).destination, DESTINATION);
	/* The new doorbell rings. */
	timed_put(0xd3);
	readable_await(doorbell);
	close(doorbell);
}

TEST_F(ring_is_handed_to_the_next_ktsnd)
{
	ktsnd_ends_with_a_ring();
	ring_returns();
}

TEST_WITH(ring_is_handed_to_an_older_ktsnd, NULL, tear_down)
{
	relay_begin_newer();
	ktsnd_ends_with_a_ring();
	version_refuse(RELAY_TIMED, KTSN_APP_HAND_BACK, KTSN_APP_VERSION + 1, KTSN_APP_VERSION);
	ring_returns();
}

/* A ktsnd that is too new for the relay is followed by a compatible one. */
TEST_F(ring_waits_for_a_compatible_ktsnd)
{
	ktsnd_ends_with_a_ring();
	version_refuse(RELAY_TIMED, KTSN_APP_HAND_BACK, KTSN_APP_VERSION, KTSN_APP_VERSION + 1);
	close(outside.connection[RELAY_TIMED]);
	outside.connection[RELAY_TIMED] = connection_accept();
	ring_returns();
}

TEST_F(permanent_refusal_delays_no_ring)
{
	struct ktsn_app_request request;
	struct ktsn_app_reply reply;
	int doorbell = eventfd(0, EFD_CLOEXEC);

	timed_put(1);
	first_serve();
	(void)frame_await(RELAY_TIMED);
	ktsnd_ends();
	listen_again();
	outside.connection[RELAY_TIMED] = connection_accept();
	close(request_receive(outside.connection[RELAY_TIMED], KTSN_APP_HAND_BACK, &request));
	reply = reply_to(&request);
	reply_send(outside.connection[RELAY_TIMED], &reply, &doorbell, 1);
	flow_serve(RELAY_TIMED, FLOW, FLOW, KTSN_CLOCK_TAI, 0);
	close(space_serve(FLOW));
	request = destination_receive(RELAY_TIMED, FLOW, DESTINATION);
	status_send(outside.connection[RELAY_TIMED], &request, -EPERM);
	/* Over the same connection. */
	(void)request_receive(outside.connection[RELAY_TIMED], KTSN_APP_RESUME, &request);
	status_send(outside.connection[RELAY_TIMED], &request, 0);
	count_await(&outside.counters->handed_back, 1);
	close(doorbell);
}

TEST_F(refused_ring_is_replaced)
{
	struct ktsn_app_request request;
	int fd;

	timed_put(1);
	first_serve();
	(void)frame_await(RELAY_TIMED);
	ktsnd_ends();
	listen_again();
	fd = connection_accept();
	close(request_receive(fd, KTSN_APP_HAND_BACK, &request));
	status_send(fd, &request, -EPERM);
	close(fd);
	ktsn_ring_memory_destroy(&outside.memory[RELAY_TIMED]);
	hello_serve(RELAY_TIMED);
	count_await(&outside.counters->connected, 1);
	timed_put(2);
	route_serve();
	(void)frame_await(RELAY_TIMED);
}

TEST_F(foreign_source_is_remembered)
{
	struct ktsn_app_request request;

	timed_put(1);
	hello_serve(RELAY_TIMED);
	flow_serve(RELAY_TIMED, KTSN_APP_NONE, FLOW, KTSN_CLOCK_TAI, 0);
	close(space_serve(FLOW));
	request = destination_receive(RELAY_TIMED, FLOW, KTSN_APP_NONE);
	/* Both are read before ktsnd answers, and long before the refusal expires. */
	timed_put(2);
	status_send(outside.connection[RELAY_TIMED], &request, -EPERM);
	count_await(&outside.counters->dropped[RELAY_DROP_SOURCE], 2);
}

TEST_F(late_reply_counts)
{
	struct ktsn_app_request request;

	timed_put(0xe1);
	hello_serve(RELAY_TIMED);
	flow_serve(RELAY_TIMED, KTSN_APP_NONE, FLOW, KTSN_CLOCK_TAI, 0);
	close(space_serve(FLOW));
	request = destination_receive(RELAY_TIMED, FLOW, KTSN_APP_NONE);
	count_await(&outside.counters->backlog, 1);
	destination_reply(RELAY_TIMED, &request, DESTINATION);
	assert_int_equal(frame_await(RELAY_TIMED).destination, DESTINATION);
	count_await(&outside.counters->backlog, 0);
}

TEST_F(refused_flow_delays_no_open_one)
{
	struct ktsn_app_request request;

	timed_put(1);
	first_serve();
	(void)frame_await(RELAY_TIMED);
	timed_put_as(KTSN_RECORD_DEADLINE, 2, 46);
	close(request_receive(outside.connection[RELAY_TIMED], KTSN_APP_FLOW_OPEN, &request));
	/* Both are there when ktsnd answers. */
	timed_put_as(KTSN_RECORD_DEADLINE, 3, 46);
	timed_put(4);
	status_send(outside.connection[RELAY_TIMED], &request, -EMFILE);
	count_await(&outside.counters->dropped[RELAY_DROP_NO_FLOW], 2);
	assert_int_equal(first_byte_await(RELAY_TIMED), 4);
}

/* Runs the relay's rounds in this thread until the counter has the value. The test sees which frames do
 * not wait. */
static void rounds_until(const _Atomic uint64_t *counter, uint64_t value)
{
	for (int i = 0; i < TIMEOUT_MS && atomic_load(counter) != value; i++)
		assert_int_equal(relay_round(&relay), 0);
	assert_int_equal(atomic_load(counter), value);
}

/* Waits until the relay has sent something over this connection, or has connected. */
static void rounds_until_readable(int fd)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};

	for (int i = 0; i < TIMEOUT_MS && poll(&readable, 1, 0) == 0; i++)
		assert_int_equal(relay_round(&relay), 0);
	assert_int_equal(poll(&readable, 1, 0), 1);
}

static void timed_session_serve_by_rounds(void)
{
	rounds_until_readable(outside.listener);
	hello_serve(RELAY_TIMED);
	rounds_until(&outside.counters->connected, 1);
}

static int rounds_set_up(void **state)
{
	relay_prepare(true);
	return 0;
}

static int rounds_tear_down(void **state)
{
	relay_begin();
	relay_end();
	return 0;
}

#define ROUNDS_TEST(name) TEST_WITH(name, rounds_set_up, rounds_tear_down)

/* Makes the relay know it, as if ktsnd had answered. */
static void route_add(int kind)
{
	struct session *session = &relay.sessions[kind];
	struct destination_key key = {.flow = KTSN_CLOCK_TAI};
	struct destination *destination;

	memcpy(key.addresses, macs, sizeof(macs));
	session->flows[KTSN_CLOCK_TAI] = (struct session_flow){.open = true, .number = FLOW};
	session->space_asked = true;
	destination = destinations_add(&session->destinations, &key);
	destination->number = DESTINATION;
	destination->payload_max_bytes = MTU_BYTES;
}

ROUNDS_TEST(timed_frames_pass_an_untimed_request)
{
	struct ktsn_app_request request;

	timed_session_serve_by_rounds();
	route_add(RELAY_TIMED);
	hello_serve(RELAY_UNTIMED);
	rounds_until(&outside.counters->connected, 3);
	flow_serve(RELAY_UNTIMED, KTSN_APP_NONE, FLOW, KTSN_CLOCK_TAI, 0);
	untimed_put(1);
	untimed_put(2);
	rounds_until_readable(outside.connection[RELAY_UNTIMED]);
	request = destination_receive(RELAY_UNTIMED, FLOW, KTSN_APP_NONE);
	timed_put(3);
	rounds_until(&outside.counters->handed[RELAY_TIMED], 1);
	/* In their order, and none is lost. */
	assert_int_equal(outside.counters->handed[RELAY_UNTIMED], 0);
	destination_reply(RELAY_UNTIMED, &request, DESTINATION);
	rounds_until(&outside.counters->handed[RELAY_UNTIMED], 2);
	assert_int_equal(first_byte_await(RELAY_UNTIMED), 1);
	assert_int_equal(first_byte_await(RELAY_UNTIMED), 2);
}

/* The request for the ring, and those after a restart, are answered at any later time. */
ROUNDS_TEST(timed_frames_pass_a_joining_untimed_session)
{
	struct ktsn_app_request request;
	struct ktsn_app_reply reply;
	int doorbell = eventfd(0, EFD_CLOEXEC);

	timed_session_serve_by_rounds();
	route_add(RELAY_TIMED);
	timed_put(1);
	rounds_until(&outside.counters->handed[RELAY_TIMED], 1);
	hello_serve(RELAY_UNTIMED);
	rounds_until(&outside.counters->connected, 3);
	rounds_until_readable(outside.connection[RELAY_UNTIMED]);
	flow_serve(RELAY_UNTIMED, KTSN_APP_NONE, FLOW, KTSN_CLOCK_TAI, 0);
	while (!relay.sessions[RELAY_UNTIMED].flows[KTSN_CLOCK_TAI].open)
		assert_int_equal(relay_round(&relay), 0);
	route_add(RELAY_UNTIMED);
	close(outside.connection[RELAY_UNTIMED]);
	rounds_until_readable(outside.listener);
	outside.connection[RELAY_UNTIMED] = connection_accept();
	close(request_receive(outside.connection[RELAY_UNTIMED], KTSN_APP_HAND_BACK, &request));
	assert_int_equal(request.flags, KTSN_APP_UNTIMED);
	timed_put(2);
	rounds_until(&outside.counters->handed[RELAY_TIMED], 2);
	reply = reply_to(&request);
	reply_send(outside.connection[RELAY_UNTIMED], &reply, &doorbell, 1);
	rounds_until_readable(outside.connection[RELAY_UNTIMED]);
	timed_put(3);
	rounds_until(&outside.counters->handed[RELAY_TIMED], 3);
	flow_serve(RELAY_UNTIMED, FLOW, FLOW, KTSN_CLOCK_TAI, 0);
	rounds_until_readable(outside.connection[RELAY_UNTIMED]);
	timed_put(4);
	rounds_until(&outside.counters->handed[RELAY_TIMED], 4);
	destination_serve(RELAY_UNTIMED, FLOW, DESTINATION, DESTINATION);
	rounds_until_readable(outside.connection[RELAY_UNTIMED]);
	(void)request_receive(outside.connection[RELAY_UNTIMED], KTSN_APP_RESUME, &request);
	status_send(outside.connection[RELAY_UNTIMED], &request, 0);
	rounds_until(&outside.counters->handed_back, 1);
	close(doorbell);
}

/* Fills the ring; one more frame waits. Returns the eventfd through which the relay is notified. */
static int ring_fill(void)
{
	int space_fd;

	timed_put(0);
	flow_serve(RELAY_TIMED, KTSN_APP_NONE, FLOW, KTSN_CLOCK_TAI, 0);
	space_fd = space_serve(FLOW);
	destination_serve(RELAY_TIMED, FLOW, KTSN_APP_NONE, DESTINATION);
	for (int i = 1; i <= SLOTS; i++)
		timed_put((uint8_t)i);
	/* The first one may have waited, too. */
	count_await(&outside.counters->handed[RELAY_TIMED], SLOTS);
	count_await(&outside.counters->backlog, 1);
	return space_fd;
}

static void room_notify(int space_fd)
{
	struct ktsn_ring_taken taken = frame_await(RELAY_TIMED);
	uint64_t count;

	ktsn_ring_release(&outside.ring[RELAY_TIMED], taken.slot);
	assert_true(ktsn_ring_space_polled(&outside.ring[RELAY_TIMED]));
	assert_int_equal(ktsn_ring_space_pollers(&outside.ring[RELAY_TIMED], 0), UINT64_C(1) << FLOW);
	assert_int_equal(read(space_fd, &count, sizeof(count)), sizeof(count));
}

TEST_F(timed_frames_wait_for_room)
{
	int space_fd;

	hello_serve(RELAY_TIMED);
	space_fd = ring_fill();
	/* Later frames stay where they are: the relay does not read. */
	timed_put(0xff);
	assert_int_equal(outside.counters->read[RELAY_TIMED], SLOTS + 1);
	room_notify(space_fd);
	count_await(&outside.counters->handed[RELAY_TIMED], SLOTS + 1);
	count_await(&outside.counters->read[RELAY_TIMED], SLOTS + 2);
	close(space_fd);
}

UNTIMED_TEST(untimed_frames_never_wait)
{
	untimed_put(0);
	destination_serve(RELAY_UNTIMED, FLOW, KTSN_APP_NONE, DESTINATION);
	for (int i = 1; i < SLOTS + 3; i++)
		untimed_put((uint8_t)i);
	count_await(&outside.counters->dropped[RELAY_DROP_NO_ROOM], 3);
	assert_int_equal(outside.counters->handed[RELAY_UNTIMED], SLOTS);
}

UNTIMED_TEST(untimed_frames_pass_waiting_timed_frames)
{
	count_await(&outside.counters->connected, 3);
	close(ring_fill());
	untimed_put(1);
	destination_serve(RELAY_UNTIMED, FLOW, KTSN_APP_NONE, DESTINATION);
	(void)frame_await(RELAY_UNTIMED);
	/* As many as are allowed. */
	for (uint64_t i = 1; i < BACKLOG_MAX + 3; i++) {
		timed_put(0);
		count_await(&outside.counters->read[RELAY_TIMED], SLOTS + 1 + i);
	}
	count_await(&outside.counters->backlog, BACKLOG_MAX);
	assert_int_equal(outside.counters->dropped[RELAY_DROP_BACKLOG_FULL], 3);
}

static void close_serve(uint32_t number)
{
	struct ktsn_app_request request;

	(void)request_receive(outside.connection[RELAY_TIMED], KTSN_APP_DESTINATION_CLOSE, &request);
	assert_int_equal(request.flow, FLOW);
	assert_int_equal(request.destination, number);
	status_send(outside.connection[RELAY_TIMED], &request, 0);
}

/* ktsnd is asked again because its answer is so old that the MTU may have changed. */
static void long_frame_serve(uint32_t before, uint32_t number, uint32_t mtu_bytes)
{
	struct ktsn_app_request request;

	usleep(110000);
	timed_put_as(PRIORITY, 1, MTU_BYTES + 1);
	close_serve(before);
	request = destination_receive(RELAY_TIMED, FLOW, KTSN_APP_NONE);
	destination_reply_for(RELAY_TIMED, &request, number, mtu_bytes);
}

TEST_F(frame_longer_than_its_path_is_dropped)
{
	timed_put_as(PRIORITY, 1, MTU_BYTES);
	first_serve();
	long_frame_serve(DESTINATION, DESTINATION + 1, MTU_BYTES);
	count_await(&outside.counters->dropped[RELAY_DROP_TOO_LONG], 1);
	long_frame_serve(DESTINATION + 1, DESTINATION + 2, MTU_BYTES + 1);
	count_await(&outside.counters->handed[RELAY_TIMED], 2);
}

TEST_WITH(least_recently_used_destination_is_removed, NULL, tear_down)
{
	struct destinations *table = &relay.sessions[RELAY_TIMED].destinations;

	relay_prepare(false);
	for (uint32_t i = 0; i < DESTINATIONS_MAX; i++) {
		const struct destination_key key = {.addresses = {(uint8_t)i, (uint8_t)(i >> 8), 9},
						    .flow = KTSN_CLOCK_TAI};

		destinations_add(table, &key)->number = 1000 + i;
	}
	relay_begin();
	timed_put(1);
	hello_serve(RELAY_TIMED);
	flow_serve(RELAY_TIMED, KTSN_APP_NONE, FLOW, KTSN_CLOCK_TAI, 0);
	close(space_serve(FLOW));
	close_serve(1000);
	destination_serve(RELAY_TIMED, FLOW, KTSN_APP_NONE, DESTINATION);
	assert_int_equal(frame_await(RELAY_TIMED).destination, DESTINATION);
}

TEST(next_relay_counts_lost_frames)
{
	struct relay_counters *counters;
	int fd = memfd_create("counters", MFD_CLOEXEC);

	assert_int_equal(relay_counters_open(fd, &counters), 0);
	relay_count(&counters->read[RELAY_TIMED], 10);
	relay_count(&counters->handed[RELAY_TIMED], 6);
	relay_drop(counters, RELAY_DROP_SOURCE);
	munmap(counters, sizeof(*counters));
	assert_int_equal(relay_counters_open(fd, &counters), 0);
	assert_int_equal(counters->relays, 2);
	assert_int_equal(counters->dropped[RELAY_DROP_LOST], 3);
	counters->version = RELAY_COUNTERS_VERSION + 1;
	munmap(counters, sizeof(*counters));
	assert_int_equal(relay_counters_open(fd, &counters), -EPROTO);
	close(fd);
}

int main(void)
{
	return unit_tests_run(folder_enter, folder_remove);
}
