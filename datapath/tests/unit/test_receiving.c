/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receive rings of processes' sockets: the control thread with a running loop, and the program at the uplink
 * with the kernel's own maps, pinned in a separate file system. Needs its own namespaces and bpf(); the tests
 * are skipped without them.
 */
#include "encryption.h"
#include "receive_layout.h"
#include "receive_socket.h"
#include "receiving.h"
#include "test_skip.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <net/if.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "unit_test.h"

#include "node_bench.h"

enum { SOCKETS = 4, ENCAP = 100, GRO = 104 };

/* The folder of all nodes, and that of this one. */
static char all_pins[] = "/tmp/ktsn-bpf-XXXXXX", pins[48], broken[64], fresh[64];

/* The descriptors of a reply. */
struct answer {
	int status;
	uint64_t ring_bytes;
	int ring, control;
};

static void endpoint_set(bool receive)
{
	const struct endpoint_description description = {.interface = "pod0",
							 .netns = "/proc/self/ns/net",
							 .vni = 42,
							 .bridge = "",
							 .receive = receive};
	struct refusal refusal;

	bed.in_pod = false;
	if (node_endpoint_add(&bed.node, "pod", &description, &refusal))
		fail_msg("%s", refusal.message);
	bed.in_pod = true;
}

static void node_start(size_t memory_bytes)
{
	const struct uplink uplink = {
		.interface = "pod1", .link_index = (int)if_nametoindex("pod1"), .mtu_bytes = 1500};
	const struct quota_limits limits = {.processes = 16,
					    .sockets = SOCKETS,
					    .memory_bytes = memory_bytes,
					    .pending = PACKETS,
					    .horizon_ns = INT64_C(1000000000)};
	struct refusal refusal;

	node_bench_start(&uplink, &limits, 1 << 26);
	receiving_fini(&bed.node);
	receiving_begin(&bed.node, all_pins);
	assert_string_equal(bed.node.receive.folder, pins);
	assert_int_equal(node_socket_add(&bed.node, "pod", bed.path, &refusal), 0);
	endpoint_set(true);
}

static int set_up(void **state)
{
	node_bench_init();
	node_start(1 << 24);
	return 0;
}

static int tear_down(void **state)
{
	node_bench_stop();
	rmdir(bed.folder);
	return 0;
}

static int application_connect(void)
{
	return connect_to(bed.path);
}

static void hang_up(int fd)
{
	uint32_t before;

	while (!bed.node.process_count)
		daemon_work();
	before = bed.node.process_count;
	close(fd);
	for (int ms = 0; bed.node.process_count == before; ms++) {
		assert_true(ms < TIMEOUT_MS);
		daemon_work();
	}
}

static struct answer ask_with(int fd, enum ktsn_app_type type, uint8_t flags, int passed_fd)
{
	struct ktsn_app_request request = ktsn_client_request(type);
	struct ktsn_app_reply reply;
	int fds[KTSN_CLIENT_FDS];

	request.flags = flags;
	reply = request_answer(fd, &request, passed_fd, fds);
	assert_true(fds[0] < 0 || fds[1] >= 0);
	return (struct answer){reply.status, reply.ring_bytes, fds[0], fds[1]};
}

static struct answer ask(int fd, enum ktsn_app_type type, int passed_fd)
{
	return ask_with(fd, type, 0, passed_fd);
}

/* As libktsn does when the last descriptor is closed. */
static int close_by_cookie(int fd, uint64_t cookie)
{
	struct ktsn_app_request request = ktsn_client_request(KTSN_APP_RECEIVE_CLOSE);

	ktsn_app_cookie_put(&request, cookie);
	return request_answer(fd, &request, -1, NULL).status;
}

static int close_for(int fd, enum ktsn_app_receive_close why, int passed_fd)
{
	return ask_with(fd, KTSN_APP_RECEIVE_CLOSE, (uint8_t)why, passed_fd).status;
}

static void answer_discard(const struct answer *answer)
{
	close(answer->ring);
	close(answer->control);
}

static int socket_bound(int type)
{
	const struct sockaddr_in any = {.sin_family = AF_INET};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (const struct sockaddr *)&any, sizeof(any)), 0);
	return fd;
}

static uint64_t cookie_of(int fd)
{
	uint64_t cookie;
	socklen_t bytes = sizeof(cookie);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &bytes), 0);
	return cookie;
}

/* The index of the ring in the program's maps; 0: not there. */
static uint32_t entered(uint64_t cookie)
{
	struct receive_maps maps;
	struct receive_descriptors fds;
	struct receive_ring ring = {0};

	assert_int_equal(receive_maps_open(pins, &maps), 0);
	if (receive_ring_find(&maps, cookie, &ring, &fds) == 0)
		receive_descriptors_close(&fds);
	else
		ring.ring_id = 0;
	receive_maps_close(&maps);
	return ring.ring_id;
}

/* The pod's thread removes it. */
static void removed_await(uint64_t cookie)
{
	for (int ms = 0; entered(cookie); ms++) {
		assert_true(ms < TIMEOUT_MS);
		daemon_work();
	}
}

static bool has_filter(int fd)
{
	socklen_t count = 0;

	return getsockopt(fd, SOL_SOCKET, SO_GET_FILTER, NULL, &count) == -1 && errno == EACCES;
}

static const struct ktsn_receive_control *control_map(const struct answer *answer)
{
	const struct ktsn_receive_control *page = mmap(
		NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, answer->control, 0);

	assert_ptr_not_equal(page, MAP_FAILED);
	return page;
}

static const struct pod *the_pod(void)
{
	return pod_find(&bed.node, "pod");
}

TEST_F(socket_gets_and_returns_a_ring)
{
	int application = application_connect(), fd = socket_bound(SOCK_DGRAM), size = 100000;
	const struct ktsn_receive_control *control;
	struct answer answer;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)), 0);
	answer = ask(application, KTSN_APP_RECEIVE_OPEN, fd);
	assert_int_equal(answer.status, 0);
	/* The kernel doubles the requested size. */
	assert_int_equal(answer.ring_bytes, 512 << 10);
	assert_int_not_equal(entered(cookie_of(fd)), 0);
	assert_true(has_filter(fd));
	assert_int_equal(the_pod()->receive.socket_count, 1);
	assert_int_equal(the_pod()->quota->ring_bytes, receive_ring_cost(512 << 10));
	control = control_map(&answer);
	assert_int_equal(control->ended, 0);
	assert_int_equal(ask(application, KTSN_APP_RECEIVE_CLOSE, fd).status, 0);
	assert_int_equal(control->ended, 1);
	assert_int_equal(entered(cookie_of(fd)), 0);
	assert_false(has_filter(fd));
	assert_int_equal(the_pod()->receive.socket_count, 0);
	/* Entering it twice counts once. */
	assert_int_equal(ask(application, KTSN_APP_RECEIVE_CLOSE, fd).status, 0);
	munmap((void *)(uintptr_t)control, (size_t)sysconf(_SC_PAGESIZE));
	answer_discard(&answer);
	close(fd);
	hang_up(application);
}

TEST_F(kernel_queue_is_counted)
{
	int application = application_connect(), fd = socket_bound(SOCK_DGRAM);
	struct answer answer = ask(application, KTSN_APP_RECEIVE_OPEN, fd);
	const struct ktsn_receive_control *control = control_map(&answer);
	struct sockaddr_in address;
	socklen_t bytes = sizeof(address);
	char received[8];

	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(sendto(fd, "hello", 5, 0, (struct sockaddr *)&address, sizeof(address)), 5);
	assert_int_equal(recv(fd, received, sizeof(received), 0), 5);
	assert_int_equal(control->kernel, 1);
	assert_int_equal(receiving_counts(the_pod()).kernel, 1);
	munmap((void *)(uintptr_t)control, (size_t)sysconf(_SC_PAGESIZE));
	hang_up(application);
	assert_int_equal(receiving_counts(the_pod()).kernel, 1);
	answer_discard(&answer);
	close(fd);
}

TEST_F(shared_socket_has_one_ring)
{
	int one = application_connect(), other = application_connect(), fd = socket_bound(SOCK_DGRAM);
	struct answer first = ask(one, KTSN_APP_RECEIVE_OPEN, fd);
	uint32_t ring = entered(cookie_of(fd));
	struct answer again = ask(one, KTSN_APP_RECEIVE_OPEN, fd);
	struct answer second = ask(other, KTSN_APP_RECEIVE_OPEN, fd);

	assert_int_equal(first.status | again.status | second.status, 0);
	assert_int_not_equal(ring, 0);
	assert_int_equal(entered(cookie_of(fd)), ring);
	assert_int_equal(the_pod()->receive.socket_count, 1);
	assert_int_equal(ask(one, KTSN_APP_RECEIVE_CLOSE, fd).status, 0);
	assert_int_equal(entered(cookie_of(fd)), ring);
	assert_true(has_filter(fd));
	hang_up(one);
	assert_int_equal(entered(cookie_of(fd)), ring);
	hang_up(other);
	removed_await(cookie_of(fd));
	answer_discard(&first);
	answer_discard(&again);
	answer_discard(&second);
	close(fd);
}

static void join(int fd)
{
	const int on = 1;

	assert_int_equal(setsockopt(fd, IPPROTO_UDP, GRO, &on, sizeof(on)), 0);
}

static void encapsulate(int fd)
{
	const int esp = 2;

	assert_int_equal(setsockopt(fd, IPPROTO_UDP, ENCAP, &esp, sizeof(esp)), 0);
}

static void to_device(int fd)
{
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "pod0", sizeof("pod0")), 0);
}

static void filter(int fd)
{
	struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, 0xffff)};
	const struct sock_fprog program = {1, all};

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)), 0);
}

static void lock(int fd)
{
	const int on = 1;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof(on)), 0);
}

/* A socket that was never entered. */
static void foreign_program(int fd)
{
	int program = receive_filter_open(pins);

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_BPF, &program, sizeof(program)), 0);
	close(program);
}

TEST_F(unsupported_sockets_stay_with_the_kernel)
{
	static const struct {
		void (*prepare)(int fd);
		enum receive_refusal why;
	} cases[] = {
		{join, RECEIVE_GRO},         {encapsulate, RECEIVE_ENCAPSULATION},
		{to_device, RECEIVE_DEVICE}, {filter, RECEIVE_FILTER},
		{lock, RECEIVE_FILTER},      {foreign_program, RECEIVE_FILTER},
	};
	int application = application_connect(), stream;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd = socket_bound(SOCK_DGRAM);

		cases[i].prepare(fd);
		assert_int_equal(ask(application, KTSN_APP_RECEIVE_OPEN, fd).status, -ENOTSUP);
		assert_int_equal(the_pod()->receive.why, cases[i].why);
		assert_int_equal(the_pod()->receive.refused, i + 1);
		assert_true(the_pod()->receive.refusals[cases[i].why] > 0);
		assert_int_equal(entered(cookie_of(fd)), 0);
		close(fd);
	}
	assert_true(the_pod()->receive.warned);
	stream = socket_bound(SOCK_STREAM);
	assert_int_equal(ask(application, KTSN_APP_RECEIVE_OPEN, stream).status, -ENOTSUP);
	close(stream);
	stream = socket(AF_INET, SOCK_DGRAM, 0);
	assert_int_equal(ask(application, KTSN_APP_RECEIVE_OPEN, stream).status, -EINVAL);
	close(stream);
	hang_up(application);
}

TEST_F(endpoint_without_receive_gets_no_ring)
{
	int application = application_connect(), fd = socket_bound(SOCK_DGRAM);
	const char *folder = bed.node.receive.folder;

	endpoint_set(false);
	assert_int_equal(ask(application, KTSN_APP_RECEIVE_OPEN, fd).status, -ENOTSUP);
	assert_false(has_filter(fd));
	assert_int_equal(the_pod()->receive.refused, 0);
	endpoint_set(true);
	bed.node.receive.folder = bed.folder;
	assert_int_equal(ask(application, KTSN_APP_RECEIVE_OPEN, fd).status, -ENOTSUP);
	assert_int_equal(the_pod()->receive.why, RECEIVE_NO_PROGRAM);
	bed.node.receive.folder = folder;
	close(fd);
	hang_up(application);
}

/* Nothing that anybody sends in clear to the tunnel's port may reach a ring. */
TEST_F(encrypted_network_gets_no_rings)
{
	int application = application_connect(), fd = socket_bound(SOCK_DGRAM);
	struct refusal refusal;

	assert_int_equal(encryption_network_set(&bed.node.routing, the_pod()->endpoints.first->vni,
						LOOP_PREFERRED, &refusal),
			 0);
	assert_int_equal(ask(application, KTSN_APP_RECEIVE_OPEN, fd).status, -ENOTSUP);
	assert_int_equal(the_pod()->receive.why, RECEIVE_ENCRYPTED);
	assert_int_equal(the_pod()->receive.refusals[RECEIVE_ENCRYPTED], 1);
	assert_int_equal(entered(cookie_of(fd)), 0);
	assert_false(has_filter(fd));
	close(fd);
	hang_up(application);
}

TEST_F(rings_per_pod_are_limited)
{
	int application = application_connect(), fds[SOCKETS + 1];
	struct answer answers[SOCKETS + 1];

	for (int i = 0; i <= SOCKETS; i++) {
		fds[i] = socket_bound(SOCK_DGRAM);
		answers[i] = ask(application, KTSN_APP_RECEIVE_OPEN, fds[i]);
		assert_int_equal(answers[i].status, i < SOCKETS ? 0 : -ENOTSUP);
	}
	assert_int_equal(the_pod()->receive.why, RECEIVE_SOCKETS);
	assert_int_equal(bed.node.limit_refusals, 1);
	/* The filter was removed. */
	assert_false(has_filter(fds[SOCKETS]));
	hang_up(application);
	for (int i = 0; i <= SOCKETS; i++) {
		removed_await(cookie_of(fds[i]));
		answer_discard(&answers[i]);
		close(fds[i]);
	}
}

TEST_F(closed_socket_is_found_by_cookie)
{
	int one = application_connect(), other = application_connect(), fd = socket_bound(SOCK_DGRAM);
	struct answer answer = ask(one, KTSN_APP_RECEIVE_OPEN, fd);

	assert_int_equal(answer.status, 0);
	/* Another process does not have it. */
	assert_int_equal(close_by_cookie(other, cookie_of(fd)), 0);
	assert_int_not_equal(entered(cookie_of(fd)), 0);
	assert_int_equal(close_by_cookie(one, cookie_of(fd)), 0);
	removed_await(cookie_of(fd));
	assert_int_equal(the_pod()->receive.socket_count, 0);
	answer_discard(&answer);
	/* Like a socket that another process still has, and that gets a ring again. */
	answer = ask(other, KTSN_APP_RECEIVE_OPEN, fd);
	assert_int_equal(answer.status, 0);
	hang_up(one);
	hang_up(other);
	removed_await(cookie_of(fd));
	answer_discard(&answer);
	close(fd);
}

TEST_F(passed_socket_stays_with_the_kernel)
{
	int one = application_connect(), other = application_connect(), fd = socket_bound(SOCK_DGRAM);
	struct answer first = ask(one, KTSN_APP_RECEIVE_OPEN, fd);
	struct answer second = ask(other, KTSN_APP_RECEIVE_OPEN, fd);
	const struct ktsn_receive_control *control = control_map(&first);

	assert_int_equal(close_for(one, KTSN_APP_RECEIVE_CLOSE_SHARED, fd), 0);
	assert_int_equal(control->ended, 1);
	assert_int_equal(entered(cookie_of(fd)), 0);
	assert_int_equal(the_pod()->receive.socket_count, 0);
	assert_int_equal(ask(other, KTSN_APP_RECEIVE_OPEN, fd).status, -ENOTSUP);
	assert_int_equal(the_pod()->receive.refusals[RECEIVE_SHARED], 2);
	assert_false(has_filter(fd));
	hang_up(one);
	hang_up(other);
	munmap((void *)(uintptr_t)control, (size_t)sysconf(_SC_PAGESIZE));
	answer_discard(&first);
	answer_discard(&second);
	close(fd);
}

TEST_F(passed_socket_gets_no_ring)
{
	int application = application_connect(), fd = socket_bound(SOCK_DGRAM);

	assert_int_equal(close_for(application, KTSN_APP_RECEIVE_CLOSE_SHARED, fd), 0);
	assert_int_equal(ask(application, KTSN_APP_RECEIVE_OPEN, fd).status, -ENOTSUP);
	assert_int_equal(the_pod()->receive.why, RECEIVE_SHARED);
	hang_up(application);
	close(fd);
}

TEST_F(status_has_the_reasons_for_no_ring)
{
	int application = application_connect(), fd = socket_bound(SOCK_DGRAM);
	struct answer answer;

	assert_int_equal(close_for(application, KTSN_APP_RECEIVE_CLOSE_OPTION, fd), 0);
	assert_int_equal(close_for(application, KTSN_APP_RECEIVE_CLOSE_FILTER, fd), 0);
	assert_int_equal(close_for(application, KTSN_APP_RECEIVE_CLOSE_IO_URING, fd), 0);
	assert_int_equal(the_pod()->receive.why, RECEIVE_IO_URING);
	assert_int_equal(close_for(application, 200, fd), 0); /* of a later library */
	assert_int_equal(the_pod()->receive.refused, 3);
	assert_int_equal(the_pod()->receive.refusals[RECEIVE_OPTION], 1);
	assert_int_equal(the_pod()->receive.refusals[RECEIVE_FILTER], 1);
	answer = ask(application, KTSN_APP_RECEIVE_OPEN, fd);
	assert_int_equal(answer.status, 0);
	hang_up(application);
	removed_await(cookie_of(fd));
	answer_discard(&answer);
	close(fd);
}

/* The program's maps are shared by all pods, independent of a pod's limits. */
TEST_F(maps_are_shared_among_pods)
{
	int application = application_connect(), fd = socket_bound(SOCK_DGRAM);
	struct quota_limits limits = the_pod()->quota->limits;
	struct answer answer;

	limits.sockets = 2 * RECEIVE_POD_SOCKETS_MAX;
	quota_limits_set(the_pod()->quota, &limits);
	bed.node.pods->receive.socket_count = RECEIVE_POD_SOCKETS_MAX;
	assert_int_equal(ask(application, KTSN_APP_RECEIVE_OPEN, fd).status, -ENOTSUP);
	assert_int_equal(the_pod()->receive.why, RECEIVE_SOCKETS);
	bed.node.pods->receive.socket_count = 0;
	answer = ask(application, KTSN_APP_RECEIVE_OPEN, fd);
	assert_int_equal(answer.status, 0);
	hang_up(application);
	removed_await(cookie_of(fd));
	answer_discard(&answer);
	close(fd);
}

TEST_F(kept_memory_counts)
{
	int application = application_connect(), fd = socket_bound(SOCK_DGRAM);
	struct answer answer = ask(application, KTSN_APP_RECEIVE_OPEN, fd);
	struct quota_limits limits = the_pod()->quota->limits;

	limits.memory_bytes = receive_ring_cost(answer.ring_bytes);
	quota_limits_set(the_pod()->quota, &limits);
	assert_int_equal(ask(application, KTSN_APP_RECEIVE_CLOSE, fd).status, 0);
	/* It still has the descriptor. */
	assert_int_equal(ask(application, KTSN_APP_RECEIVE_OPEN, fd).status, -ENOTSUP);
	assert_int_equal(the_pod()->receive.why, RECEIVE_MEMORY);
	answer_discard(&answer);
	close(fd);
	hang_up(application);
}

/* In the broken maps, cookies are used as descriptors. After a boot the kernel begins with small cookies. */
static int socket_bound_beyond_descriptors(void)
{
	int fd = socket_bound(SOCK_DGRAM);

	while (cookie_of(fd) < FD_SETSIZE) {
		close(fd);
		fd = socket_bound(SOCK_DGRAM);
	}
	return fd;
}

/* Rings cannot be entered there. */
TEST_F(failed_entry_leaves_nothing)
{
	int application = application_connect(), fd = socket_bound_beyond_descriptors();
	const char *folder = bed.node.receive.folder;
	struct answer answer;

	bed.node.receive.folder = broken;
	for (int i = 0; i < 2 * SOCKETS; i++) {
		answer = ask(application, KTSN_APP_RECEIVE_OPEN, fd);
		assert_int_equal(answer.status, -ENOTSUP);
		assert_int_equal(answer.ring, -1);
		assert_int_equal(the_pod()->receive.why, RECEIVE_KERNEL);
	}
	assert_int_equal(the_pod()->receive.socket_count, 0);
	assert_false(has_filter(fd));
	bed.node.receive.folder = folder;
	answer = ask(application, KTSN_APP_RECEIVE_OPEN, fd);
	assert_int_equal(answer.status, 0);
	answer_discard(&answer);
	close(fd);
	hang_up(application);
}

/* A ktsnd that is killed leaves the rings unchanged. */
static uint32_t left_make(int fd, struct receive_descriptors *fds)
{
	struct receive_maps maps;
	struct receive_ring ring;

	assert_int_equal(receive_maps_open(pins, &maps), 0);
	assert_int_equal(receive_ring_make(RECEIVE_RING_MIN_BYTES, &ring, fds), 0);
	assert_int_equal(receive_ring_enter(&maps, fd, cookie_of(fd), fds, NULL), 0);
	receive_maps_close(&maps);
	foreign_program(fd);
	return ring.ring_id;
}

TEST_F(old_rings_are_taken_over_or_removed)
{
	int wanted = socket_bound(SOCK_DGRAM), unwanted = socket_bound(SOCK_DGRAM), application;
	struct receive_descriptors one, other;
	uint32_t ring = left_make(wanted, &one);
	struct answer answer;
	const struct ktsn_receive_control *control;

	node_bench_stop();
	assert_int_not_equal(left_make(unwanted, &other), ring);
	node_start(1 << 24);
	answer.control = other.control;
	control = control_map(&answer);
	application = application_connect();
	answer = ask(application, KTSN_APP_RECEIVE_OPEN, wanted);
	assert_int_equal(answer.status, 0);
	assert_int_equal(answer.ring_bytes, RECEIVE_RING_MIN_BYTES);
	assert_int_equal(entered(cookie_of(wanted)), ring);
	daemon_work();
	assert_int_not_equal(entered(cookie_of(unwanted)), 0);
	bed.node.receive.left_until_ms = 0;
	daemon_work();
	assert_int_equal(entered(cookie_of(unwanted)), 0);
	assert_int_equal(control->ended, 1);
	assert_int_equal(entered(cookie_of(wanted)), ring);
	munmap((void *)(uintptr_t)control, (size_t)sysconf(_SC_PAGESIZE));
	hang_up(application);
	removed_await(cookie_of(wanted));
	receive_descriptors_close(&one);
	receive_descriptors_close(&other);
	answer_discard(&answer);
	close(wanted);
	close(unwanted);
}

TEST_F(socket_is_entered_in_new_maps)
{
	int application = application_connect(), fd = socket_bound(SOCK_DGRAM);
	const char *folder = bed.node.receive.folder;
	struct answer first = ask(application, KTSN_APP_RECEIVE_OPEN, fd), second;
	struct receive_maps maps;

	assert_int_equal(first.status, 0);
	assert_int_equal(receive_maps_open(fresh, &maps), 0);
	assert_false(receive_socket_entered(&maps, fd, cookie_of(fd)));
	bed.node.receive.folder = fresh;
	second = ask(application, KTSN_APP_RECEIVE_OPEN, fd);
	assert_int_equal(second.status, 0);
	assert_true(receive_socket_entered(&maps, fd, cookie_of(fd)));
	assert_int_equal(the_pod()->receive.socket_count, 1);
	receive_maps_close(&maps);
	answer_discard(&first);
	answer_discard(&second);
	close(fd);
	hang_up(application);
	bed.node.receive.folder = folder;
}

TEST(ring_size_follows_the_socket_buffer)
{
	assert_int_equal(receive_ring_bytes(0), 64 << 10);
	assert_int_equal(receive_ring_bytes(-1), 64 << 10);
	assert_int_equal(receive_ring_bytes(32 << 10), 64 << 10);
	assert_int_equal(receive_ring_bytes((32 << 10) + 1), 128 << 10);
	assert_int_equal(receive_ring_bytes(212992), 512 << 10);
	assert_int_equal(receive_ring_bytes(INT32_MAX), 4 << 20);
}

/* `at` is a path below the folder. */
static bool map_pin(struct bpf_object *object, const char *name, const char *at)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", pins, at);
	/* bpf_map__pin() pins once. */
	return bpf_obj_pin(bpf_map__fd(bpf_object__find_map_by_name(object, name)), path) == 0;
}

static bool program_pin(struct bpf_object *object, const char *folder)
{
	const struct bpf_program *program = bpf_object__find_program_by_name(object, "ktsn_receive_kernel");
	char path[128];

	snprintf(path, sizeof(path), "%s/ktsn_receive_kernel", folder);
	return bpf_obj_pin(bpf_program__fd(program), path) == 0;
}

/* Another map is at the path of the map of rings. */
static bool broken_pin(struct bpf_object *object)
{
	snprintf(broken, sizeof(broken), "%s/broken", pins);
	return mkdir(broken, 0700) == 0 && map_pin(object, "sockets", "broken/rings") &&
	       map_pin(object, "controls", "broken/controls") &&
	       map_pin(object, "sockets", "broken/sockets") && program_pin(object, broken);
}

/* As the program of another release has them: empty. */
static bool fresh_maps_pin(void)
{
	struct bpf_object *object = bpf_object__open_file(RECEIVE_OBJECT, NULL);
	bool pinned;

	snprintf(fresh, sizeof(fresh), "%s/anew", pins);
	pinned = object && bpf_object__load(object) == 0 && mkdir(fresh, 0700) == 0 &&
		 map_pin(object, "rings", "anew/rings") && map_pin(object, "controls", "anew/controls") &&
		 map_pin(object, "sockets", "anew/sockets") && program_pin(object, fresh);
	bpf_object__close(object);
	return pinned;
}

static bool programs_pin(void)
{
	struct bpf_object *object = bpf_object__open_file(RECEIVE_OBJECT, NULL);
	bool pinned;

	pinned = object && bpf_object__load(object) == 0 && map_pin(object, "rings", "rings") &&
		 map_pin(object, "controls", "controls") && map_pin(object, "sockets", "sockets") &&
		 program_pin(object, pins) && broken_pin(object);
	bpf_object__close(object);
	return pinned;
}

static bool links_make(void)
{
	/* NOLINTNEXTLINE(cert-env33-c): constant command */
	return system("ip link set lo up && ip link add pod0 type veth peer name pod1 && "
		      "ip link set pod0 up && ip link set pod1 up") == 0;
}

/* Named like the pinned maps. */
static bool folder_make(void)
{
	uint64_t cookie = 0;
	socklen_t bytes = sizeof(cookie);
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	bool known = getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &bytes) == 0;

	close(fd);
	snprintf(pins, sizeof(pins), "%s/%" PRIu64, all_pins, cookie);
	return known && mkdir(pins, 0700) == 0;
}

static bool begin(void)
{
	return unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 &&
	       mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && links_make() && mkdtemp(all_pins) &&
	       mount("bpf", all_pins, "bpf", 0, NULL) == 0 && folder_make() && programs_pin() &&
	       fresh_maps_pin();
}

int main(void)
{
	int failed;

	if (!begin()) {
		(void)umount(all_pins);
		rmdir(all_pins);
		return all_skipped("needs network and mount namespaces, a BPF file system and programs");
	}
	failed = unit_tests_run(NULL, NULL);
	umount(all_pins);
	rmdir(all_pins);
	return failed;
}
