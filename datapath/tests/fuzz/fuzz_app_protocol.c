/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any requests with any descriptors on the application socket of a pod, against the whole control thread and
 * a running loop with a fake port. Each request gets one reply that belongs to it, or ends the connection;
 * after the connection no object or descriptor is left.
 *
 * Runs in a network namespace of its own where that is allowed, with an interface, a peer and a neighbor, so
 * that requests reach destinations. Elsewhere flows are refused, and the rest is fuzzed.
 */
#include "../fd_message.h"
#include "app_protocol.h"
#include "node.h"
#include "pod_thread.h"
#include "pods.h"
#include "port_fake.h"
#include "routing.h"
#include "shaping.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	PACKETS = 1024,
	BUFFER_BYTES = 2048,
	RING_SLOTS = 64,
	FDS_MAX = 6,
	REQUESTS_MAX = 64,
	TIMEOUT_MS = 10000,
};

static struct fixture {
	struct events *events;
	struct ktsn_port *port;
	struct loop *loop;
	struct node node;
	char path[64];
} fixture;

/* An application whose behaviour the input decides. */
struct application {
	int fd;
	int ring_fd, bell_fd; /* of its last ring; -1: none */
};

struct input {
	const uint8_t *data;
	size_t left;
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
	if (!holds)
		abort();
}

static bool network_prepare(void)
{
	return unshare(CLONE_NEWNET) == 0 &&
	       system("ip link set lo up && ip link add fuzz0 type veth peer name fuzz1 && "
		      "ip address add 10.9.0.1/24 dev fuzz0 && ip link set fuzz0 up && ip link set fuzz1 up "
		      "&& "
		      "ip address add fd09::1/64 dev fuzz0 nodad && "
		      "ip neighbour add fd09::2 lladdr 02:00:00:00:00:02 dev fuzz0 && "
		      "ip neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 dev fuzz0 && "
		      "ip neighbour add 10.9.0.3 lladdr 02:00:00:00:00:03 dev fuzz0") == 0;
}

static void loop_begin(void)
{
	struct loop_scheduling scheduling;
	struct loop_config config = {.packets = PACKETS,
				     .spin_ns = 20000,
				     .late_after_ns = 10000,
				     .stale_after_ns = 100000000,
				     .cpu = -1};

	fixture.port = ktsn_port_fake_create(PACKETS, BUFFER_BYTES);
	must(fixture.port != NULL);
	config.port = fixture.port;
	must(loop_create(&fixture.loop, &config) == 0 && loop_start(fixture.loop, &scheduling) == 0);
}

/* Small enough for the input to reach them. */
static const struct quota_limits limits = {
	.processes = 8,
	.sockets = 12,
	.memory_bytes = 4 << 20,
	.pending = 64,
	.horizon_ns = INT64_C(1000000000),
};

static void pod_begin(bool network)
{
	struct uplink uplink = {.interface = "fuzz0", .mtu_bytes = 1500, .vxlan_port = 4789};
	struct node_shaping shaping = {.classes = loop_classes_default()};
	struct subnet subnets[] = {{ktsn_address_of_ipv4(htonl(0x0a090000)), 96 + 24}, {{{0xfd, 0x09}}, 64}};
	struct refusal refusal;

	uplink.link_index = network ? (int)if_nametoindex("fuzz0") : 1;
	uplink.local_address_be = inet_addr("10.9.0.1");
	must(node_init(&fixture.node, fixture.events, fixture.loop, &uplink, &shaping, &limits, RING_SLOTS,
		       16 << 20) == 0);
	snprintf(fixture.path, sizeof(fixture.path), "/tmp/ktsn-fuzz-%d.sock", (int)getpid());
	must(node_socket_add(&fixture.node, "pod", fixture.path, &refusal) == 0);
	if (!network)
		return;
	must(node_endpoint_add(&fixture.node, "pod",
			       &(struct endpoint_description){.interface = "fuzz0",
							      .netns = "/proc/self/ns/net",
							      .vni = 42,
							      .bridge = "",
							      .receive = true},
			       &refusal) == 0);
	must(routing_peer_add(&fixture.node.routing, 42, inet_addr("10.9.0.3"), 0, subnets, 2, &refusal) ==
	     0);
}

static void path_remove(void)
{
	unlink(fixture.path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	bool network = network_prepare();

	(void)argc;
	(void)argv;
	if (!network)
		fprintf(stderr, "no network namespace of its own: flows are refused\n");
	must(events_create(&fixture.events) == 0);
	loop_begin();
	pod_begin(network);
	atexit(path_remove);
	return 0;
}

static uint8_t next_byte(struct input *input)
{
	if (!input->left)
		return 0;
	input->left--;
	return *input->data++;
}

static void application_connect(struct application *application)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	application->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	memcpy(address.sun_path, fixture.path, sizeof(fixture.path));
	must(application->fd >= 0);
	must(connect(application->fd, (struct sockaddr *)&address, sizeof(address)) == 0);
}

static int udp_socket(bool connected)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	must(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	address.sin_port = htons(7788);
	address.sin_addr.s_addr = inet_addr("10.9.0.2");
	if (connected)
		(void)connect(fd, (struct sockaddr *)&address, sizeof(address));
	return fd;
}

static int udp6_socket(bool connected)
{
	struct sockaddr_in6 address = {.sin6_family = AF_INET6};
	int on = 1, fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	must(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
	(void)setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &on, sizeof(on));
	address.sin6_port = htons(7788);
	must(inet_pton(AF_INET6, "fd09::2", &address.sin6_addr) == 1);
	if (connected)
		(void)connect(fd, (struct sockaddr *)&address, sizeof(address));
	return fd;
}

/* Opens a flow where that is possible; elsewhere passes a socket that ktsnd refuses. */
static int packet_socket(int type)
{
	struct sockaddr_ll link = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex("fuzz0")};
	int fd = socket(AF_PACKET, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return udp_socket(false);
	(void)bind(fd, (struct sockaddr *)&link, sizeof(link));
	return fd;
}

/* Memory like a ring's, with a header from the input. */
static int memory_make(struct input *input)
{
	struct ktsn_ring_header header = {
		.magic = KTSN_RING_MAGIC, .version = KTSN_RING_VERSION, .slots_offset = sizeof(header)};
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	size_t bytes;

	header.slot_count = (uint32_t)(next_byte(input) % 4) * 64;
	header.slot_bytes = (uint32_t)(next_byte(input) % 32) * 64;
	bytes = sizeof(header) + (size_t)header.slot_count * header.slot_bytes;
	header.total_bytes = bytes;
	must(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	must(pwrite(fd, &header, sizeof(header), 0) == sizeof(header));
	if (next_byte(input) % 8)
		must(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
	return fd;
}

/* Passes one end of a pair for error notifications; with or without names, some of which lead elsewhere. */
static int notifier_make(uint8_t kind)
{
	const struct sockaddr any = {.sa_family = AF_UNIX};
	struct sockaddr_un path = {.sun_family = AF_UNIX};
	int pair[2];

	must(socketpair(AF_UNIX, (kind & 1 ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0, pair) == 0);
	snprintf(path.sun_path, sizeof(path.sun_path), "%s.notifier", fixture.path);
	if (kind & 2)
		(void)bind(pair[0], (const struct sockaddr *)&path, sizeof(path));
	else if (!(kind & 4))
		(void)bind(pair[0], &any, sizeof(any.sa_family));
	if (!(kind & 8))
		(void)bind(pair[1], &any, sizeof(any.sa_family));
	unlink(path.sun_path);
	close(pair[1]);
	return pair[0];
}

static int descriptor_make(struct input *input, const struct application *application)
{
	switch (next_byte(input) % 14) {
	case 0:
		return udp_socket(false);
	case 1:
	case 2:
		return udp_socket(true);
	case 3:
		return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	case 4:
		return memory_make(input);
	case 5:
		return eventfd(0, EFD_CLOEXEC);
	case 12:
	case 13:
		return notifier_make(next_byte(input));
	case 6:
		return fcntl(application->fd, F_DUPFD_CLOEXEC, 0);
	case 8:
		return udp6_socket(false);
	case 9:
		return udp6_socket(true);
	case 10:
		return packet_socket(SOCK_RAW);
	case 11:
		return packet_socket(SOCK_DGRAM);
	default:
		return fcntl(application->ring_fd >= 0 ? application->ring_fd : application->fd,
			     F_DUPFD_CLOEXEC, 0);
	}
}

/* Sends with descriptors; returns false when the connection refuses. */
static bool message_send(int fd, const void *data, size_t bytes, const int *fds, size_t count)
{
	return fd_message_send(fd, data, bytes, fds, count, MSG_DONTWAIT) == (ssize_t)bytes;
}

static void keep(int *place, int fd)
{
	if (*place >= 0)
		close(*place);
	*place = fd;
}

/* Checks that a reply brought as many descriptors as it must. */
static void descriptors_keep(struct application *application, const struct ktsn_app_reply *reply,
			     const int *fds, size_t count)
{
	must(count == (reply->status                   ? 0
		       : reply->type == KTSN_APP_HELLO ? 2
						       : reply->type == KTSN_APP_HAND_BACK));
	if (!count)
		return;
	keep(&application->bell_fd, fds[count - 1]);
	if (count == 2)
		keep(&application->ring_fd, fds[0]);
}

/* Returns 1 with a reply, 0 while there is none, -1 when the connection has ended. */
static int reply_receive(struct application *application, struct ktsn_app_reply *reply)
{
	size_t count;
	int fds[3];
	ssize_t bytes = fd_message_receive(application->fd, reply, sizeof(*reply), fds, 3, &count,
					   MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	must(bytes >= 0 || errno != EMSGSIZE);
	if (bytes < 0 && errno == EAGAIN)
		return 0;
	if (bytes <= 0)
		return -1;
	must(bytes == sizeof(*reply));
	descriptors_keep(application, reply, fds, count);
	return 1;
}

static void daemon_work(int timeout_ms)
{
	must(events_run_once(fixture.events, timeout_ms) == 0);
	(void)node_tick(&fixture.node);
}

static void reply_check(const struct ktsn_app_reply *reply, const struct ktsn_app_request *request)
{
	must(reply->magic == KTSN_APP_MAGIC && reply->version >= KTSN_APP_VERSION_OLDEST);
	must(reply->version <= KTSN_APP_VERSION && (reply->status || reply->version == request->version));
	must(reply->type == request->type && reply->number == request->number);
	must(reply->status <= 0 && reply->status > -4096);
	must(reply->route <= KTSN_APP_ROUTE_KERNEL);
	must(reply->route != KTSN_APP_ROUTE_TSN || reply->destination < LOOP_DESTINATIONS_PER_RING);
	must(reply->status || reply->flow == KTSN_APP_NONE || reply->flow < LOOP_FLOWS_PER_RING);
}

/* Returns 1 when the request was answered, -1 when it ended the connection. */
static int answer_await(struct application *application, const struct ktsn_app_request *request)
{
	struct ktsn_app_reply reply;
	int got = 0;

	for (int tries = 0; got == 0; tries++) {
		must(tries < TIMEOUT_MS);
		daemon_work(tries ? 1 : 0);
		got = reply_receive(application, &reply);
	}
	if (got > 0)
		reply_check(&reply, request);
	return got;
}

static size_t request_read(struct input *input, struct ktsn_app_request *request)
{
	uint8_t shape = next_byte(input);
	size_t bytes = shape % 32 == 31 ? next_byte(input) : sizeof(*request);
	uint8_t *raw = (uint8_t *)request;

	memset(request, 0, sizeof(*request));
	for (size_t i = shape % 16 == 15 ? 0 : 8; i < sizeof(*request); i++)
		raw[i] = next_byte(input);
	if (shape % 16 == 15)
		return bytes;
	request->magic = KTSN_APP_MAGIC;
	request->version = KTSN_APP_VERSION;
	request->type = shape % 16 == 14 ? KTSN_APP_FLOW_WAKE : shape % 8;
	if (request->type == KTSN_APP_FLOW_CLOSE && shape & 0x80)
		request->type = KTSN_APP_DESTINATION_CLOSE;
	/* Mostly numbers that exist. */
	request->flow = shape & 0x10 ? KTSN_APP_NONE : request->flow % 16;
	request->destination = shape & 0x20 ? KTSN_APP_NONE : request->destination % 16;
	return bytes;
}

/* Writes a message into its ring, valid or not, and rings the doorbell. */
static void publish(const struct application *application, struct input *input)
{
	uint64_t increment = 1;
	uint8_t raw[KTSN_RING_SLOT_HEADER_BYTES] = {KTSN_SLOT_READY};
	uint64_t bits = UINT64_MAX;

	if (application->ring_fd < 0)
		return;
	/* Up to and including the transmit time; the rest stays 0. */
	for (size_t i = 4; i < 32; i++)
		raw[i] = next_byte(input);
	(void)!pwrite(application->ring_fd, raw, sizeof(raw), sizeof(struct ktsn_ring_header));
	(void)!pwrite(application->ring_fd, &bits, sizeof(bits), offsetof(struct ktsn_ring_header, ready));
	(void)!pwrite(application->ring_fd, &bits, sizeof(bits),
		      offsetof(struct ktsn_ring_header, ready_summary));
	(void)fcntl(application->bell_fd, F_SETFL, O_NONBLOCK);
	(void)!write(application->bell_fd, &increment, sizeof(increment));
}

static void request_play(struct application *application, struct input *input)
{
	struct ktsn_app_request request;
	uint8_t action = next_byte(input);
	int fds[FDS_MAX];
	size_t count = 0, bytes;
	bool sent;

	if (action % 16 == 14) {
		publish(application, input);
		return;
	}
	bytes = request_read(input, &request);
	if (action % 2)
		count = action % 16 == 15 ? 1 + next_byte(input) % FDS_MAX : 1;
	for (size_t i = 0; i < count; i++)
		must((fds[i] = descriptor_make(input, application)) >= 0);
	sent = message_send(application->fd, &request, bytes < sizeof(request) ? bytes : sizeof(request), fds,
			    count);
	for (size_t i = 0; i < count; i++)
		close(fds[i]);
	/* An empty message looks like the end of the connection. */
	if (sent && answer_await(application, &request) > 0)
		return;
	close(application->fd);
	application_connect(application);
}

static size_t descriptors_count(void)
{
	DIR *folder = opendir("/proc/self/fd");
	size_t count = 0;

	must(folder != NULL);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/* Reports whether a connection waits to be accepted. */
static bool connection_waits(void)
{
	struct pollfd listener = {.fd = fixture.node.pods->listener.fd, .events = POLLIN};

	return poll(&listener, 1, 0) > 0;
}

/* Runs until ktsnd has nothing left of any application. */
static void quiet_await(void)
{
	const struct node *node = &fixture.node;

	for (int tries = 0; connection_waits() || node->process_count || node->closing || node->deferred ||
			    pod_thread_backlog(node->pods->thread);
	     tries++) {
		must(tries < TIMEOUT_MS);
		daemon_work(1);
	}
	must(node->flow_count == 0 && node->routing.destinations == NULL);
	must(node->pods->quota->processes == 0 && node->pods->quota->sockets == 0);
	must(node->pods->quota->ring_bytes == 0 && loop_pending(fixture.loop) == 0);
	must(ktsn_port_fake_buffers_in_use(fixture.port) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool opened;
	size_t descriptors = descriptors_count();
	struct input input = {data, size};
	struct application application = {.ring_fd = -1, .bell_fd = -1};

	application_connect(&application);
	daemon_work(0);
	for (int i = 0; i < REQUESTS_MAX && input.left; i++)
		request_play(&application, &input);
	close(application.fd);
	keep(&application.ring_fd, -1);
	keep(&application.bell_fd, -1);
	quiet_await();
	/* The first connection makes ktsnd open its spare descriptor. */
	must(!opened || descriptors_count() == descriptors);
	opened = true;
	return 0;
}
