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

static int came(int id)
{
	(void)id;
	connected = true;
	return 0;
}

static void went(int id)
{
	(void)id;
}

/* The frames are nobody's. */
static const struct rte_vhost_device_ops ops = {.new_connection = came, .destroy_device = went};

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

bool vhost_first_came(void)
{
	return connected;
}

/* ---- who does not answer ---- */

struct vhost_answer {
	const char *path;
	pthread_t thread;
	int over_fd; /* eventfd: nobody is waited for any more */
	bool ended;  /* the connection; the thread's, until it has ended */
};

static void *answer_await(void *context)
{
	struct vhost_answer *answer = context;
	struct pollfd over = {.fd = answer->over_fd, .events = POLLIN};

	while (poll(&over, 1, VHOST_ANSWER_MS) == 0) {
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
	answer->over_fd = eventfd(0, EFD_CLOEXEC);
	err = answer->over_fd < 0 ? -errno : -pthread_create(&answer->thread, NULL, answer_await, answer);
	if (err) {
		if (answer->over_fd >= 0)
			close(answer->over_fd);
		free(answer);
		return err;
	}
	*begun = answer;
	return 0;
}

bool vhost_answer_end(struct vhost_answer *answer)
{
	bool ended;

	(void)eventfd_write(answer->over_fd, 1);
	pthread_join(answer->thread, NULL);
	ended = answer->ended;
	close(answer->over_fd);
	free(answer);
	return ended;
}
