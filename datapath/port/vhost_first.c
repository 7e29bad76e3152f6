/* SPDX-License-Identifier: Apache-2.0 */
#include "vhost_first.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <rte_alarm.h>
#include <rte_log.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_vhost.h>

/* ---- a connection that was not set up completely ---- */

enum {
	FD_MAX = 65536,
	/* By then DPDK has finished its work for the link that came up. Earlier it would not notice that the
	 * link goes down. */
	SETTLED_US = 10000,
};

/* The message of virtio_user_stop_device() when the peer has disconnected. */
static const char not_stopped[] = "Failed to stop device";

static _Atomic bool queues_taken_for_enabled;

/* Called once for each message. */
static ssize_t log_write(void *nothing, const char *text, size_t bytes)
{
	(void)nothing;
	if (memmem(text, bytes, not_stopped, sizeof(not_stopped) - 1))
		queues_taken_for_enabled = true;
	if (rte_log_cur_msg_loglevel() <= (int)RTE_LOG_CRIT)
		(void)fwrite(text, 1, bytes, stderr);
	return (ssize_t)bytes;
}

FILE *vhost_renew_log(void)
{
	return fopencookie(NULL, "w", (cookie_io_functions_t){.write = log_write});
}

/* DPDK has no call that returns the descriptor of the connection, so this checks what each is bound to. */
static bool is_connection(int fd, const char *path)
{
	struct sockaddr_un local = {0}, peer;
	socklen_t bytes = sizeof(local);

	if (getsockname(fd, (struct sockaddr *)&local, &bytes) || local.sun_family != AF_UNIX ||
	    strncmp(local.sun_path, path, sizeof(local.sun_path)) != 0)
		return false;
	bytes = sizeof(peer);
	return getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0; /* false for the listening socket */
}

/* Ends the connections to the socket: threads that wait for an answer get an error. Any thread. */
static void vhost_connection_end(const char *path)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	for (int fd = 0; fd < FD_MAX && (rlim_t)fd < limit.rlim_cur; fd++)
		if (is_connection(fd, path))
			(void)shutdown(fd, SHUT_RDWR);
}

static void connection_end(void *path)
{
	vhost_connection_end(path);
}

bool vhost_renew_due(const char *path)
{
	return atomic_exchange(&queues_taken_for_enabled, false) &&
	       rte_eal_alarm_set(SETTLED_US, connection_end, (void *)(uintptr_t)path) == 0;
}

/* ---- the first connection ---- */

static _Atomic bool connected;

static int connection_opened(int id)
{
	(void)id;
	connected = true;
	return 0;
}

static void device_destroyed(int id)
{
	(void)id;
}

/* Frames that come through this connection are ignored. */
static const struct rte_vhost_device_ops ops = {.new_connection = connection_opened,
						.destroy_device = device_destroyed};

int vhost_first_begin(const char *path)
{
	connected = false;
	if (rte_vhost_driver_register(path, RTE_VHOST_USER_CLIENT))
		return -EIO;
	if (rte_vhost_driver_callback_register(path, &ops) || rte_vhost_driver_start(path)) {
		vhost_first_end(path);
		return -EIO;
	}
	return 0;
}

void vhost_first_end(const char *path)
{
	(void)rte_vhost_driver_unregister(path);
}

bool vhost_first_connected(void)
{
	return connected;
}

/* ---- timeout of requests ---- */

struct vhost_answer {
	const char *path;
	pthread_t thread;
	int done_fd; /* eventfd: no request is pending any more */
	bool ended;  /* the thread has ended the connection; read after the thread has ended */
};

static void *answer_watch(void *context)
{
	struct vhost_answer *answer = context;
	struct pollfd done = {.fd = answer->done_fd, .events = POLLIN};

	while (poll(&done, 1, VHOST_ANSWER_MS) == 0) {
		answer->ended = true;
		vhost_connection_end(answer->path);
	}
	return NULL;
}

int vhost_answer_begin(struct vhost_answer **begun, const char *path)
{
	struct vhost_answer *answer = calloc(1, sizeof(*answer));
	int err;

	if (!answer)
		return -ENOMEM;
	answer->path = path;
	answer->done_fd = eventfd(0, EFD_CLOEXEC);
	err = answer->done_fd < 0 ? -errno : -pthread_create(&answer->thread, NULL, answer_watch, answer);
	if (err) {
		if (answer->done_fd >= 0)
			close(answer->done_fd);
		free(answer);
		return err;
	}
	*begun = answer;
	return 0;
}

bool vhost_answer_end(struct vhost_answer *answer)
{
	bool ended;

	(void)eventfd_write(answer->done_fd, 1);
	pthread_join(answer->thread, NULL);
	ended = answer->ended;
	close(answer->done_fd);
	free(answer);
	return ended;
}
