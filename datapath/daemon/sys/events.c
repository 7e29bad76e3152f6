/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { EVENTS_AT_ONCE = 32 };

struct events {
	int epoll_fd;
	/* The events being handled. A source that is removed meanwhile is set to NULL here. */
	struct epoll_event round[EVENTS_AT_ONCE];
	int round_count;
};

int events_create(struct events **created)
{
	struct events *events = calloc(1, sizeof(*events));

	if (!events)
		return -ENOMEM;
	events->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (events->epoll_fd < 0) {
		int err = -errno;

		free(events);
		return err;
	}
	*created = events;
	return 0;
}

void events_destroy(struct events *events)
{
	if (!events)
		return;
	close(events->epoll_fd);
	free(events);
}

int events_add(struct events *events, struct event_source *source)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};

	if (epoll_ctl(events->epoll_fd, EPOLL_CTL_ADD, source->fd, &event))
		return -errno;
	source->watched = 1;
	return 0;
}

void events_remove(struct events *events, struct event_source *source)
{
	if (!source->watched)
		return;
	source->watched = 0;
	(void)epoll_ctl(events->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
	for (int i = 0; i < events->round_count; i++)
		if (events->round[i].data.ptr == source)
			events->round[i].data.ptr = NULL;
}

int events_run_once(struct events *events, int timeout_ms)
{
	int count = epoll_wait(events->epoll_fd, events->round, EVENTS_AT_ONCE, timeout_ms);

	if (count < 0)
		return errno == EINTR ? 0 : -errno;
	events->round_count = count;
	for (int i = 0; i < count; i++) {
		struct event_source *source = events->round[i].data.ptr;

		if (source)
			source->readable(source);
	}
	events->round_count = 0;
	return 0;
}

void events_forget_round(struct events *events)
{
	for (int i = 0; i < events->round_count; i++)
		events->round[i].data.ptr = NULL;
}
