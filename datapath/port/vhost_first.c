/* SPDX-License-Identifier: Apache-2.0 */
#include "vhost_first.h"

#include "vhost_renew.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_vhost.h>

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
