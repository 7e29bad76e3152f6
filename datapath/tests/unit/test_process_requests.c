/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings that processes request, hand back and keep: the whole control thread with a running loop, and a fake
 * of the kernel's maps. Needs no privilege.
 */
#include "processes_taken.h"
#include "ring_map_plain.h"
#include "unix_socket.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/mman.h>

#include "unit_test.h"

#include "node_bench.h"
#include "recorded.h"

enum { PODS = 2, RINGS_OF_POD = 3, RINGS_OF_NODE = 5 };

static char paths[PODS][64];
static size_t ring_bytes; /* the charge for one ring */
static int doorbells;     /* rings created so far */
static bool ring_lives;   /* whether somebody else holds rings that ktsnd has released */

/* An application's connection; -1: none. */
struct application {
	int fd, ring_fd;
};

int __real_doorbell_make(void);
int __wrap_doorbell_make(void);

/* Runs in the pod's thread; the test waits for its answer. */
int __wrap_doorbell_make(void)
{
	doorbells++;
	return __real_doorbell_make();
}

static bool lives(uint32_t id)
{
	return ring_lives;
}

static void pods_begin(void)
{
	for (int i = 0; i < PODS; i++) {
		struct refusal refusal;
		char identity[8];

		snprintf(identity, sizeof(identity), "pod%d", i);
		snprintf(paths[i], sizeof(paths[i]), "%s/%d.sock", bed.folder, i);
		assert_int_equal(node_socket_add(&bed.node, identity, paths[i], &refusal), 0);
	}
}

static int set_up(void **state)
{
	const struct uplink uplink = {.interface = "lo", .link_index = 1, .mtu_bytes = 1500};
	struct quota_limits limits = {
		.processes = 16, .sockets = 16, .pending = PACKETS, .horizon_ns = INT64_C(1000000000)};

	node_bench_init();
	doorbells = 0;
	ring_lives = false;
	ring_bytes = ktsn_ring_memory_bytes(ktsn_ring_geometry_make(SLOTS, uplink.mtu_bytes)) + 4096;
	limits.memory_bytes = RINGS_OF_POD * ring_bytes;
	node_bench_start(&uplink, &limits, RINGS_OF_NODE * ring_bytes);
	ring_map_plain_lives = lives;
	pods_begin();
	bed.in_pod = true;
	return 0;
}

static int tear_down(void **state)
{
	node_bench_stop();
	rmdir(bed.folder);
	ring_map_plain_lives = NULL;
	return 0;
}

static const struct pod *pod_at(int number)
{
	char identity[8];

	snprintf(identity, sizeof(identity), "pod%d", number);
	return pod_find(&bed.node, identity);
}

static struct application application_connect(int pod)
{
	return (struct application){.fd = connect_to(paths[pod]), .ring_fd = -1};
}

static struct application relay_connect(int pod)
{
	struct application relay;

	bed.in_pod = false;
	relay = application_connect(pod);
	while (!pod_at(pod)->relays)
		daemon_work();
	bed.in_pod = true;
	return relay;
}

/* Returns the ring of the process to the caller. */
static void hang_up(struct application *application)
{
	close(application->fd);
	processes_end();
}

/* Returns the status of the reply. The application gets the ring of a reply to HELLO. */
static int ask_with(struct application *application, enum ktsn_app_type type, uint8_t flags, int passed_fd)
{
	struct ktsn_app_request request = ktsn_client_request(type);
	struct ktsn_app_reply reply;
	int fds[KTSN_CLIENT_FDS];

	request.flags = flags;
	reply = request_answer(application->fd, &request, passed_fd, fds);
	if (reply.status || type == KTSN_APP_RESUME)
		return reply.status;
	assert_true(fds[0] >= 0);
	if (type == KTSN_APP_HELLO) {
		assert_int_equal(reply.ring_bytes + 4096, ring_bytes);
		application->ring_fd = fds[0];
		close(fds[1]);
	} else {
		close(fds[0]);
	}
	return 0;
}

static int ask(struct application *application, enum ktsn_app_type type, int passed_fd)
{
	return ask_with(application, type, 0, passed_fd);
}

/* A process with a ring. */
static struct application begun(int pod)
{
	struct application application = application_connect(pod);

	assert_int_equal(ask(&application, KTSN_APP_HELLO, -1), 0);
	return application;
}

static uint64_t charged(void)
{
	return bed.node.ring_charges.bytes;
}

/* ktsnd's reply to a HELLO of another version, which may be longer. */
static struct ktsn_app_reply greeted(struct application *application, uint16_t version, size_t more_bytes)
{
	struct {
		struct ktsn_app_request request;
		uint8_t more[16];
	} hello = {{.magic = KTSN_APP_MAGIC, .version = version, .type = KTSN_APP_HELLO}, {1, 2, 3}};
	const size_t bytes = sizeof(hello.request) + more_bytes;
	struct ktsn_app_reply reply;

	assert_int_equal(send(application->fd, &hello, bytes, MSG_NOSIGNAL), bytes);
	reply_wait(application->fd);
	if (recv(application->fd, &reply, sizeof(reply), MSG_DONTWAIT) != sizeof(reply))
		reply = (struct ktsn_app_reply){.status = -ECONNRESET};
	return reply;
}

TEST_F(applications_of_two_releases_are_served)
{
	static const struct {
		uint16_t version;
		size_t more_bytes;
		int status;
		uint16_t answered;
	} cases[] = {
		{KTSN_APP_VERSION, 0, 0, KTSN_APP_VERSION},
		{KTSN_APP_VERSION_OLDEST, 0, 0, KTSN_APP_VERSION_OLDEST},
		/* A newer client uses ktsnd's version. */
		{KTSN_APP_VERSION + 1, 0, -EPROTONOSUPPORT, KTSN_APP_VERSION},
		{KTSN_APP_VERSION + 1, 16, -EPROTONOSUPPORT, KTSN_APP_VERSION},
		{KTSN_APP_VERSION_OLDEST - 1, 0, -EPROTONOSUPPORT, KTSN_APP_VERSION},
		{KTSN_APP_VERSION, 16, 0, KTSN_APP_VERSION},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct application client = application_connect(0);
		struct ktsn_app_reply reply = greeted(&client, cases[i].version, cases[i].more_bytes);

		assert_int_equal(reply.status, cases[i].status);
		assert_int_equal(reply.version, cases[i].answered);
		hang_up(&client);
	}
}

/* The socket that a request passes, bound as libktsn binds it. */
static int socket_of(const struct recorded_message *request)
{
	const struct sockaddr_in any = {.sin_family = AF_INET};
	int fd;

	if (!request->fds)
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&any, sizeof(any)), 0);
	return fd;
}

static void recorded_send(int fd, const struct recorded_message *request, int passed_fd)
{
	assert_int_equal(unix_send(fd, request->bytes, request->count, &passed_fd, passed_fd >= 0, 0), 0);
}

/* As the ktsnd of that release answered, except that the pod has no endpoint here, so no flow is opened. */
static void answer_compare(struct application *application, const struct recorded_message *recorded)
{
	struct ktsn_app_reply then, now;

	memcpy(&then, recorded->bytes, sizeof(then));
	reply_wait(application->fd);
	assert_int_equal(recv(application->fd, &now, sizeof(now), MSG_DONTWAIT | MSG_TRUNC), recorded->count);
	assert_int_equal(now.magic, then.magic);
	assert_int_equal(now.version, then.version);
	assert_int_equal(now.type, then.type);
	assert_int_equal(now.number, then.number);
	if (now.type == KTSN_APP_HELLO) {
		assert_int_equal(now.status, then.status);
		assert_int_equal(now.ring_bytes, then.ring_bytes);
	} else {
		assert_int_equal(now.status, now.type == KTSN_APP_FLOW_OPEN ? -ENETDOWN : -EINVAL);
	}
}

TEST_F(recorded_requests_get_recorded_replies)
{
	static struct recorded recorded;

	for (size_t i = 0; i < RECORDED_RELEASES; i++) {
		struct application client = application_connect(0);
		struct recorded_message message;
		int passed_fd;

		recorded_read(&recorded, recorded_releases[i], "application");
		while (recorded_next(&recorded, &message)) {
			assert_true(message.asked);
			passed_fd = socket_of(&message);
			recorded_send(client.fd, &message, passed_fd);
			if (passed_fd >= 0)
				close(passed_fd);
			assert_true(recorded_next(&recorded, &message));
			assert_false(message.asked);
			answer_compare(&client, &message);
		}
		hang_up(&client);
	}
}

/* The requests of a process with a ring are not bounded. */
TEST_F(process_with_a_ring_gets_no_doorbell)
{
	struct application client = begun(0);

	assert_int_equal(doorbells, 1);
	assert_int_equal(ask(&client, KTSN_APP_HELLO, -1), -EALREADY);
	assert_int_equal(ask(&client, KTSN_APP_HAND_BACK, client.ring_fd), -EALREADY);
	assert_int_equal(doorbells, 1);
	hang_up(&client);
	close(client.ring_fd);
}

/* Its messages would be sent twice. */
TEST_F(held_ring_is_not_taken_back)
{
	struct application client = begun(0), other = application_connect(0),
			   foreign = application_connect(1);

	assert_int_equal(ask(&other, KTSN_APP_HAND_BACK, client.ring_fd), -EBUSY);
	assert_int_equal(ask(&foreign, KTSN_APP_HAND_BACK, client.ring_fd), -EBUSY);
	assert_int_equal(charged(), ring_bytes);
	close(other.fd);
	close(foreign.fd);
	hang_up(&client);
	close(client.ring_fd);
}

TEST_F(released_ring_is_taken_back)
{
	struct application client = begun(0), other;

	ring_lives = true;
	hang_up(&client);
	other = application_connect(0);
	assert_int_equal(ask(&other, KTSN_APP_HAND_BACK, client.ring_fd), 0);
	assert_int_equal(ask(&other, KTSN_APP_RESUME, -1), 0);
	/* It counts once. */
	assert_int_equal(charged(), ring_bytes);
	ring_lives = false;
	hang_up(&other);
	assert_int_equal(charged(), 0);
	close(client.ring_fd);
}

TEST_F(foreign_memory_is_not_taken)
{
	struct ktsn_ring_memory other;
	struct application application = application_connect(0);

	assert_int_equal(ktsn_ring_memory_create(&other, ktsn_ring_geometry_make(2 * SLOTS, 1500)), 0);
	assert_int_equal(ask(&application, KTSN_APP_HAND_BACK, other.fd), -EPERM);
	assert_int_equal(ask(&application, KTSN_APP_HAND_BACK, application.fd), -EPERM);
	assert_int_equal(ask(&application, KTSN_APP_HAND_BACK, -1), -EINVAL);
	assert_int_equal(charged(), 0);
	ktsn_ring_memory_destroy(&other);
	hang_up(&application);
}

TEST_F(processes_above_the_limit_learn_the_reason)
{
	struct application first, second, third;

	pod_at(0)->quota->limits.processes = 2;
	first = application_connect(0);
	second = application_connect(0);
	third = application_connect(0);
	/* A connection without a ring takes nobody's place. */
	assert_int_equal(ask(&first, KTSN_APP_HELLO, -1), 0);
	assert_int_equal(ask(&second, KTSN_APP_HELLO, -1), 0);
	assert_int_equal(ask(&third, KTSN_APP_HELLO, -1), -EMFILE);
	assert_int_equal(bed.node.limit_refusals, 1);
	assert_true(pod_at(0)->processes_warned);
	close(third.fd);
	close(first.ring_fd);
	close(first.fd);
	close(second.ring_fd);
	hang_up(&second);
	third = begun(0);
	close(third.ring_fd);
	hang_up(&third);
}

TEST_F(kept_rings_count_for_the_pod)
{
	int kept[RINGS_OF_POD];
	struct application client;

	ring_lives = true;
	for (int i = 0; i < RINGS_OF_POD; i++) {
		client = begun(0);
		kept[i] = client.ring_fd;
		hang_up(&client);
	}
	client = application_connect(0);
	assert_int_equal(ask(&client, KTSN_APP_HELLO, -1), -ENOMEM);
	assert_int_equal(bed.node.limit_refusals, 1);
	/* Only at the next check, unless its place is needed. */
	ring_lives = false;
	assert_int_equal(ask(&client, KTSN_APP_HELLO, -1), 0);
	assert_int_equal(charged(), ring_bytes);
	close(client.ring_fd);
	hang_up(&client);
	for (int i = 0; i < RINGS_OF_POD; i++)
		close(kept[i]);
}

TEST_F(rings_of_all_pods_count_for_the_node)
{
	struct application all[RINGS_OF_NODE], client;

	for (int i = 0; i < RINGS_OF_NODE; i++)
		all[i] = begun(i < RINGS_OF_POD ? 0 : 1);
	client = application_connect(1);
	assert_int_equal(ask(&client, KTSN_APP_HELLO, -1), -ENOMEM);
	close(client.fd);
	for (int i = 0; i < RINGS_OF_NODE; i++) {
		close(all[i].ring_fd);
		close(all[i].fd);
	}
	hang_up(&(struct application){.fd = -1});
	assert_int_equal(charged(), 0);
}

TEST_F(untimed_ring_has_its_own_quota)
{
	struct application timed = begun(0), untimed;
	const struct pod *pod = pod_at(0);

	assert_null(pod->relay_quota);
	untimed = relay_connect(0);
	assert_int_equal(ask_with(&untimed, KTSN_APP_HELLO, KTSN_APP_UNTIMED, -1), 0);
	assert_non_null(pod->relay_quota);
	assert_int_equal(bed.node.relay_quota_count, 1);
	assert_int_equal(pod->relay_quota->limits.pending, PACKETS);
	assert_ptr_equal(pod->processes->ring->quota, pod->relay_quota);
	assert_ptr_equal(pod->processes->next->ring->quota, pod->quota);
	assert_int_equal(pod->quota->processes, 1);
	assert_int_equal(pod->relay_quota->processes, 1);
	assert_int_equal(pod->quota->ring_bytes, ring_bytes);
	assert_int_equal(pod->relay_quota->ring_bytes, ring_bytes);
	close(timed.fd);
	hang_up(&untimed);
	/* The pod keeps the ring, which ends with the pod. */
	assert_int_equal(bed.node.relay_quota_count, 1);
	assert_int_equal(node_socket_del(&bed.node, "pod0"), 0);
	assert_int_equal(bed.node.relay_quota_count, 0);
	close(timed.ring_fd);
	close(untimed.ring_fd);
}

/* It would have a second quota. */
TEST_F(pod_gets_no_untimed_ring)
{
	struct application client = application_connect(0);

	assert_int_equal(ask_with(&client, KTSN_APP_HELLO, KTSN_APP_UNTIMED, -1), -EPERM);
	assert_int_equal(ask(&client, KTSN_APP_HELLO, -1), 0);
	hang_up(&client);
	close(client.ring_fd);
}

TEST_F(timed_relay_ring_uses_the_pods_quota)
{
	struct application relay = relay_connect(0);
	const struct pod *pod = pod_at(0);

	assert_int_equal(ask(&relay, KTSN_APP_HELLO, -1), 0);
	assert_ptr_equal(pod->processes->ring->quota, pod->quota);
	assert_int_equal(pod->quota->processes, 0);
	assert_int_equal(pod->quota->ring_bytes, 0);
	hang_up(&relay);
	close(relay.ring_fd);
}

TEST_F(exhausted_pod_keeps_its_relay)
{
	struct application all[RINGS_OF_POD], relay, client;

	for (int i = 0; i < RINGS_OF_POD; i++)
		all[i] = begun(0);
	client = application_connect(0);
	assert_int_equal(ask(&client, KTSN_APP_HELLO, -1), -ENOMEM);
	relay = relay_connect(0);
	assert_int_equal(ask_with(&relay, KTSN_APP_HELLO, KTSN_APP_UNTIMED, -1), 0);
	for (int i = 0; i < RINGS_OF_POD; i++) {
		close(all[i].ring_fd);
		close(all[i].fd);
	}
	close(client.fd);
	hang_up(&relay);
	close(relay.ring_fd);
}

TEST_F(relay_quota_lives_as_long_as_its_ring)
{
	struct application client = relay_connect(0);

	assert_int_equal(ask_with(&client, KTSN_APP_HELLO, KTSN_APP_UNTIMED, -1), 0);
	assert_int_equal(node_socket_del(&bed.node, "pod0"), 0);
	assert_int_equal(bed.node.relay_quota_count, 1);
	hang_up(&client);
	assert_int_equal(bed.node.relay_quota_count, 0);
	close(client.ring_fd);
}

TEST_F(untimed_ring_stays_untimed)
{
	struct application client = relay_connect(0), again;

	ring_lives = true;
	assert_int_equal(ask_with(&client, KTSN_APP_HELLO, KTSN_APP_UNTIMED, -1), 0);
	hang_up(&client);
	again = relay_connect(0);
	assert_int_equal(ask_with(&again, KTSN_APP_HAND_BACK, KTSN_APP_UNTIMED, client.ring_fd), 0);
	assert_true(pod_at(0)->processes->ring->untimed);
	assert_int_equal(ask(&again, KTSN_APP_RESUME, -1), 0);
	close(client.ring_fd);
	hang_up(&again);
	ring_lives = false;
}

TEST_F(unknown_ring_flags_are_refused)
{
	struct application client = relay_connect(0);

	assert_int_equal(ask_with(&client, KTSN_APP_HELLO, 2, -1), -EINVAL);
	assert_int_equal(ask_with(&client, KTSN_APP_HELLO, KTSN_APP_UNTIMED | 128, -1), -EINVAL);
	assert_int_equal(ask_with(&client, KTSN_APP_HELLO, KTSN_APP_UNTIMED, -1), 0);
	close(client.ring_fd);
	hang_up(&client);
}

/* The number of rings for which the node still has room. */
static uint64_t rings_allowed(void)
{
	uint64_t count = 0;

	while (ring_charges_allow(&bed.node.ring_charges, bed.node.pods->quota, 0, (count + 1) * ring_bytes))
		count++;
	return count;
}

TEST_F(rings_of_removed_pods_count_separately)
{
	struct ring_charges *charges = &bed.node.ring_charges;
	struct application client = begun(0), other_client;

	ring_lives = true;
	hang_up(&client);
	other_client = begun(0);
	assert_int_equal(node_socket_del(&bed.node, "pod0"), 0);
	assert_null(pod_find(&bed.node, "pod0"));
	hang_up(&other_client);
	assert_int_equal(bed.node.quota_count, PODS - 1);
	assert_int_equal(charged(), 0);
	assert_int_equal(charges->removed_bytes, 2 * ring_bytes);
	bed.node.pods->quota->limits.memory_bytes = UINT64_MAX;
	charges->bytes_max = 8 * ring_bytes;
	assert_int_equal(rings_allowed(), 8);
	/* A quarter of the limit belongs to it. */
	charges->bytes_max = 4 * ring_bytes;
	assert_int_equal(rings_allowed(), 3);
	ring_lives = false;
	for (int ms = 0; charges->removed_bytes && ms < TIMEOUT_MS; ms++)
		daemon_work();
	assert_int_equal(charges->removed_bytes, 0);
	assert_int_equal(rings_allowed(), 4);
	close(client.ring_fd);
	close(other_client.ring_fd);
}

static bool hung_up(int fd)
{
	struct pollfd closed = {.fd = fd};

	return poll(&closed, 1, 0) == 1 && closed.revents & POLLHUP;
}

/* As another ktsnd hands it over. */
static void take_over(int ring_fd, int doorbell_fd, int connection_fd)
{
	const struct process_descriptors descriptors = {
		.memory = ring_fd,
		.doorbell = doorbell_fd,
		.connection = connection_fd,
		.geometry = bed.node.ring_geometry,
	};
	struct process *process;

	assert_int_equal(process_take_over(&bed.node, "pod0", &descriptors, false, &process), 0);
	processes_taken_open(&bed.node);
}

TEST_F(invalid_doorbell_ends_the_connection)
{
	struct ktsn_ring_memory ring;
	struct application application;
	int pair[2];

	assert_int_equal(ktsn_ring_memory_create(&ring, bed.node.ring_geometry), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	/* No epoll set accepts a regular file. */
	take_over(dup(ring.fd), memfd_create("doorbell", MFD_CLOEXEC), pair[1]);
	application.fd = pair[0];
	for (int ms = 0; !hung_up(application.fd); ms++) {
		assert_true(ms < TIMEOUT_MS);
		daemon_work();
	}
	hang_up(&application);
	ktsn_ring_memory_destroy(&ring);
}
