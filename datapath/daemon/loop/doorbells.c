/* SPDX-License-Identifier: Apache-2.0 */
#include "doorbells.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct doorbells {
	int loop_epoll_fd;
	pthread_mutex_t lock;
	/* Sets that are not in use. Under the lock. */
	int *free_sets;
	unsigned int free_count, made;
	unsigned int used; /* sets that were taken and not returned, including those that are being created */
};

static int set_make(int loop_epoll_fd)
{
	struct epoll_event disarmed = {.events = 0};
	int fd = epoll_create1(EPOLL_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (epoll_ctl(loop_epoll_fd, EPOLL_CTL_ADD, fd, &disarmed)) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

/* Makes room for one more free set. Under the lock. */
static int room_make(struct doorbells *doorbells)
{
	int *larger = realloc(doorbells->free_sets, (doorbells->made + 1) * sizeof(*larger));

	if (!larger)
		return -ENOMEM;
	doorbells->free_sets = larger;
	doorbells->made++;
	return 0;
}

/* Returns a free set; -ENOENT: none is free, and there is room for a new one. Under the lock. */
static int free_set_take(struct doorbells *doorbells)
{
	if (doorbells->free_count)
		return doorbells->free_sets[--doorbells->free_count];
	return room_make(doorbells) ? -ENOMEM : -ENOENT;
}

static void used_end(struct doorbells *doorbells)
{
	pthread_mutex_lock(&doorbells->lock);
	doorbells->used--;
	pthread_mutex_unlock(&doorbells->lock);
}

/* A set is in use from here to set_put(), however long the pod delays the calls in between. */
static int set_take(struct doorbells *doorbells)
{
	int fd;

	pthread_mutex_lock(&doorbells->lock);
	doorbells->used++;
	fd = free_set_take(doorbells);
	pthread_mutex_unlock(&doorbells->lock);
	if (fd == -ENOENT)
		fd = set_make(doorbells->loop_epoll_fd);
	if (fd < 0)
		used_end(doorbells);
	return fd;
}

static void set_put(struct doorbells *doorbells, int fd)
{
	pthread_mutex_lock(&doorbells->lock);
	doorbells->free_sets[doorbells->free_count++] = fd;
	doorbells->used--;
	pthread_mutex_unlock(&doorbells->lock);
}

static int sets_make(struct doorbells *doorbells, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		int fd = set_make(doorbells->loop_epoll_fd), err = fd < 0 ? fd : room_make(doorbells);

		if (err && fd >= 0)
			close(fd);
		if (err)
			return err;
		doorbells->free_sets[doorbells->free_count++] = fd;
	}
	return 0;
}

int doorbells_create(struct doorbells **created, int loop_epoll_fd, unsigned int count)
{
	struct doorbells *doorbells = calloc(1, sizeof(*doorbells));
	int err;

	if (!doorbells)
		return -ENOMEM;
	doorbells->loop_epoll_fd = loop_epoll_fd;
	pthread_mutex_init(&doorbells->lock, NULL);
	err = sets_make(doorbells, count);
	if (err)
		doorbells_destroy(doorbells);
	else
		*created = doorbells;
	return err;
}

void doorbells_destroy(struct doorbells *doorbells)
{
	bool used;

	if (!doorbells)
		return;
	pthread_mutex_lock(&doorbells->lock);
	used = doorbells->used > 0;
	pthread_mutex_unlock(&doorbells->lock);
	/* A blocked pod thread still uses it; ktsnd ends now. */
	if (used)
		return;
	for (unsigned int i = 0; i < doorbells->free_count; i++)
		close(doorbells->free_sets[i]);
	free(doorbells->free_sets);
	pthread_mutex_destroy(&doorbells->lock);
	free(doorbells);
}

int doorbell_make(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

int doorbell_join(struct doorbells *doorbells, int event_fd)
{
	/* Never read: the application has the same eventfd and could make a read block. */
	struct epoll_event edges = {.events = EPOLLIN | EPOLLET};
	int set_fd = set_take(doorbells), err;

	if (set_fd < 0)
		return set_fd;
	if (epoll_ctl(set_fd, EPOLL_CTL_ADD, event_fd, &edges)) {
		err = -errno;
		set_put(doorbells, set_fd);
		return err;
	}
	return set_fd;
}

void doorbell_leave(struct doorbells *doorbells, int set_fd, int event_fd)
{
	if (set_fd >= 0) {
		(void)epoll_ctl(set_fd, EPOLL_CTL_DEL, event_fd, NULL);
		set_put(doorbells, set_fd);
	}
	close(event_fd);
}
