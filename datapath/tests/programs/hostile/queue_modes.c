/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long queues that the kernel walks with a lock held: watchers of descriptors that ktsnd shares, and sleepers
 * in shared memory. Also cheap messages or connections that cause a lot of work.
 */
#include "modes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	WATCHERS = 50000,
	SETS_MAX = 64,
	SLEEPERS = 500,
	SLEEPER_STACK_BYTES = 64 << 10,
	PAYLOAD_BYTES = 64,
	GROUP_EVERY_US = 1000,
	HAND_BACK_THREADS = 16,
	RINGS_OF_A_THREAD = 12,
	POLLERS = 250,
	POLL_EVERY_US = 10,
};

struct watchers {
	int sets[SETS_MAX];
	int set_count;
	long count;
};

/* An epoll set accepts a descriptor once for each number that it had when it was added. */
static bool watchers_fill_set(struct watchers *watchers, int fd, int numbers, long wanted)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET};
	int set = epoll_create1(EPOLL_CLOEXEC);

	if (set < 0)
		return false;
	watchers->sets[watchers->set_count++] = set;
	for (int at = 100; at < numbers && watchers->count < wanted; at++) {
		int copy = fcntl(fd, F_DUPFD_CLOEXEC, at);

		if (copy < 0)
			return true;
		watchers->count += epoll_ctl(set, EPOLL_CTL_ADD, copy, &event) == 0;
		close(copy);
	}
	return true;
}

static void watchers_put(struct watchers *watchers, int fd, long wanted)
{
	struct rlimit descriptors;

	*watchers = (struct watchers){.count = 0};
	(void)getrlimit(RLIMIT_NOFILE, &descriptors);
	while (watchers->count < wanted && watchers->set_count < SETS_MAX)
		if (!watchers_fill_set(watchers, fd, (int)descriptors.rlim_cur, wanted))
			return;
}

static void watchers_end(struct watchers *watchers)
{
	for (int i = 0; i < watchers->set_count; i++)
		close(watchers->sets[i]);
}

static long wanted(const struct target *target, long usual)
{
	return target->count ? target->count : usual;
}

static int mode_watchers(const struct target *target)
{
	struct watchers watchers;
	struct client client;
	long writes = 0;
	int err = client_open(&client, target);

	if (err)
		return complain("get a ring and a flow", err);
	watchers_put(&watchers, client.bell_fd, wanted(target, WATCHERS));
	for (; time_left(target); writes++) {
		client_ring(&client);
		if (writes % 16 == 0)
			client_publish(&client, (uint32_t)writes / 16 % client.slot_count, now_ns(CLOCK_TAI),
				       PAYLOAD_BYTES);
	}
	result_print("watchers", watchers.count);
	result_print("writes", writes);
	watchers_end(&watchers);
	client_close(&client);
	return 0;
}

/* Each reply wakes all of them, whichever thread sends it. */
static int mode_audience(const struct target *target)
{
	struct ktsn_app_request request = client_request(KTSN_APP_RESUME);
	struct ktsn_app_reply reply;
	struct watchers watchers;
	struct client client;
	long replies = 0;
	int err = client_open(&client, target);

	if (err)
		return complain("get a ring and a flow", err);
	watchers_put(&watchers, client.fd, wanted(target, WATCHERS));
	for (; time_left(target) && !err; replies++) {
		err = client_call(&client, &request, -1, &reply);
		err = err == -EPROTO ? 0 : err;
	}
	result_print("watchers", watchers.count);
	result_print("replies", replies);
	watchers_end(&watchers);
	client_close(&client);
	return err ? complain("have an answer", err) : 0;
}

/* Each watcher of a folder has its own file, and every change of the folder sends it a signal or an event. */
static long folder_watch(const char *folder, long wanted)
{
	const uint32_t events = IN_ALL_EVENTS;
	long watchers = 0;

	for (int set = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	     set >= 0 && inotify_add_watch(set, folder, events) >= 0 && watchers < wanted; watchers++)
		set = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	for (; watchers < wanted; watchers++) {
		int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0 || fcntl(fd, F_SETOWN, getpid()) ||
		    fcntl(fd, F_NOTIFY, DN_CREATE | DN_DELETE | DN_ATTRIB | DN_MULTISHOT))
			break;
	}
	return watchers;
}

/* ktsnd creates and removes the socket there. */
static int mode_folder(const struct target *target)
{
	struct rlimit descriptors;
	char folder[PATH_MAX];
	char *end;

	if (strlen(target->path) >= sizeof(folder))
		return complain("name the folder", -ENAMETOOLONG);
	strcpy(folder, target->path);
	end = strrchr(folder, '/');
	if (!end)
		return complain("find the folder", -EINVAL);
	*end = '\0';
	signal(SIGIO, SIG_IGN);
	(void)getrlimit(RLIMIT_NOFILE, &descriptors);
	descriptors.rlim_cur = descriptors.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &descriptors);
	result_print("watchers", folder_watch(folder, wanted(target, WATCHERS)));
	while (time_left(target))
		usleep(GROUP_EVERY_US);
	return 0;
}

/* The eventfd stays open here, so that ktsnd leaves a long queue each time. */
static int mode_watchers_close(const struct target *target)
{
	struct watchers watchers = {.count = 0};
	long closes = 0;

	for (; time_left(target); closes++) {
		struct client client;
		int err = client_open(&client, target);

		if (err)
			return complain("get a ring and a flow", err);
		watchers_put(&watchers, client.bell_fd, wanted(target, WATCHERS));
		close(client.fd);
		client.fd = -1;
		for (int i = 0; i < 8 && time_left(target); i++)
			client_ring(&client);
		watchers_end(&watchers);
		client_close(&client);
	}
	result_print("watchers", watchers.count);
	result_print("closes", closes);
	return 0;
}

/* Former libraries slept in this word of the ring; memory of this kind does not allow it. */
static void *sleep_in_ring(void *argument)
{
	const struct client *client = argument;

	for (;;)
		if (syscall(SYS_futex, &client->ring->reserved[1], FUTEX_WAIT, 0, NULL, NULL, 0) &&
		    errno != EAGAIN && errno != EINTR)
			return NULL;
}

static long sleepers_start(struct client *client, long count)
{
	pthread_attr_t attributes;
	long started = 0;

	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, SLEEPER_STACK_BYTES);
	for (pthread_t thread; started < count; started++)
		if (pthread_create(&thread, &attributes, sleep_in_ring, client))
			break;
	pthread_attr_destroy(&attributes);
	client->ring->reserved[0] = (uint32_t)started;
	return started;
}

/* An eventfd that ktsnd writes when there is space, with this many watchers. */
static int space_hand_over(struct client *client, struct watchers *watchers, long count)
{
	struct ktsn_app_request request = client_request(KTSN_APP_FLOW_WAKE);
	struct ktsn_app_reply reply;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), err;

	request.flow = client->flow;
	request.flags = KTSN_APP_WAKE_SPACE;
	err = client_call(client, &request, fd, &reply);
	watchers_put(watchers, fd, count);
	return err ? err : fd;
}

static int mode_sleepers(const struct target *target)
{
	const uint64_t full = UINT64_MAX - 1;
	struct watchers watchers;
	struct client client;
	long sleepers, told = 0;
	int fd, err = client_open(&client, target);

	if (err)
		return complain("get a ring and a flow", err);
	sleepers = sleepers_start(&client, wanted(target, SLEEPERS));
	fd = space_hand_over(&client, &watchers, wanted(target, SLEEPERS));
	if (fd < 0)
		return complain("hand over an eventfd", fd);
	for (uint32_t slot = 0; time_left(target); slot++) {
		struct pollfd space = {.fd = fd, .events = POLLOUT};

		(void)!write(fd, &full, sizeof(full));
		atomic_fetch_or(&client.ring->space_polled[client.flow / KTSN_RING_WORD_BITS],
				UINT64_C(1) << client.flow % KTSN_RING_WORD_BITS);
		atomic_store(&client.ring->space_pollers, 1);
		client_publish(&client, slot % client.slot_count, now_ns(CLOCK_TAI), PAYLOAD_BYTES);
		client_ring(&client);
		told += poll(&space, 1, 10) == 1;
	}
	result_print("sleepers", sleepers);
	result_print("told", told);
	return 0;
}

/* ---- a slot that many wait for ---- */

static int poller_open(struct client *client, const struct target *target)
{
	struct watchers none;
	int socket_fd = socket_to(target), space_fd, err;

	if (socket_fd < 0)
		return socket_fd;
	err = client_flow_open(client, socket_fd);
	close(socket_fd);
	if (err)
		return err;
	space_fd = space_hand_over(client, &none, 0);
	/* ktsnd's copy stays open. */
	if (space_fd >= 0)
		close(space_fd);
	return space_fd < 0 ? space_fd : 0;
}

static void pollers_announce(const struct client *client)
{
	for (int w = 0; w < KTSN_RING_FLOWS / KTSN_RING_WORD_BITS; w++)
		atomic_store(&client->ring->space_polled[w], UINT64_MAX);
	atomic_store(&client->ring->space_pollers, 1);
}

/* Every freed slot wakes all of them. */
static int mode_pollers(const struct target *target)
{
	const long count = wanted(target, POLLERS);
	struct client client;
	long pollers = 0, messages = 0;
	int err = client_open(&client, target);

	if (err)
		return complain("get a ring and a flow", err);
	while (pollers < count && poller_open(&client, target) == 0)
		pollers++;
	for (; time_left(target); messages++) {
		pollers_announce(&client);
		client_publish(&client, (uint32_t)messages % client.slot_count, now_ns(CLOCK_TAI),
			       PAYLOAD_BYTES);
		client_ring(&client);
		usleep(POLL_EVERY_US);
	}
	result_print("pollers", pollers);
	client_close(&client);
	return 0;
}

/* ---- messages to many receivers ---- */

static int group_find(struct client *client)
{
	struct ktsn_app_request request = client_request(KTSN_APP_DESTINATION);
	const uint8_t group[] = {239, 1, 2, 3};
	struct ktsn_app_reply reply;
	int err;

	request.flow = client->flow;
	request.family = AF_INET;
	request.port_be = htons(7799);
	memcpy(request.address, group, sizeof(group));
	err = client_call(client, &request, -1, &reply);
	if (!err)
		client->destination = reply.destination;
	return err;
}

static int mode_group(const struct target *target)
{
	struct client client;
	long messages = 0;
	int err = client_open(&client, target);

	if (!err)
		err = group_find(&client);
	if (err)
		return complain("get a way to a group", err);
	for (; time_left(target); messages++) {
		client_publish(&client, (uint32_t)messages % client.slot_count, now_ns(CLOCK_TAI) + 300000,
			       PAYLOAD_BYTES);
		client_ring(&client);
		usleep(GROUP_EVERY_US);
	}
	result_print("messages", messages);
	client_close(&client);
	return 0;
}

/* ---- rings that are handed back repeatedly ---- */

static _Atomic long handed_back, refused;

static void hand_back(struct client *ring, const struct target *target)
{
	struct ktsn_app_request request = client_request(KTSN_APP_HAND_BACK);
	struct ktsn_app_reply reply;
	struct client client;

	if (client_connect(&client, target)) {
		atomic_fetch_add(&refused, 1);
		usleep(1000);
		return;
	}
	if (client_call(&client, &request, ring->ring_fd, &reply))
		atomic_fetch_add(&refused, 1);
	else
		atomic_fetch_add(&handed_back, 1);
	client_close(&client);
}

static void *hand_back_repeatedly(void *argument)
{
	const struct target *target = argument;
	struct client rings[RINGS_OF_A_THREAD];
	int count = 0;

	while (count < RINGS_OF_A_THREAD && client_connect(&rings[count], target) == 0) {
		if (client_hello(&rings[count]))
			break;
		close(rings[count].fd);
		rings[count++].fd = -1;
	}
	for (int i = 0; count && time_left(target); i = (i + 1) % count)
		hand_back(&rings[i], target);
	return NULL;
}

static int mode_handback(const struct target *target)
{
	pthread_t threads[HAND_BACK_THREADS];

	for (int i = 0; i < HAND_BACK_THREADS; i++)
		if (pthread_create(&threads[i], NULL, hand_back_repeatedly, (void *)(uintptr_t)target))
			return complain("start a thread", -EAGAIN);
	for (int i = 0; i < HAND_BACK_THREADS; i++)
		pthread_join(threads[i], NULL);
	result_print("handed", handed_back);
	result_print("refused", refused);
	return 0;
}

const struct mode queue_modes[] = {
	{"watchers", mode_watchers, "watches its doorbell COUNT times, and rings it"},
	{"watchers-close", mode_watchers_close, "the same, and has ktsnd close it"},
	{"sleepers", mode_sleepers, "has COUNT threads and watchers wait for space"},
	{"pollers", mode_pollers, "has COUNT sockets wait for each slot that becomes free"},
	{"group", mode_group, "sends to a group, once a millisecond"},
	{"handback", mode_handback, "hands rings back repeatedly"},
	{"audience", mode_audience, "watches its connection COUNT times, and sends requests"},
	{"folder", mode_folder, "watches the folder of its socket COUNT times (dnotify, inotify)"},
	{0},
};
