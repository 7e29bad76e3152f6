/* SPDX-License-Identifier: Apache-2.0 */
#include "wakes.h"

#include "container_of.h"
#include "node.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static bool is_unix_datagram(int fd)
{
	int domain, type;
	socklen_t bytes = sizeof(int);

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0 && domain == AF_UNIX &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0 && type == SOCK_DGRAM;
}

/*
 * The names by which the two ends find each other. Abstract ones are looked up among those of the socket's own network
 * namespace; a path would be looked up in ktsnd's file system, and could lead the application's socket to a socket of the
 * node.
 */
static int alarm_names_read(struct wake_names *names, int fd,
			    const uint8_t peer_name[KTSN_APP_ALARM_NAME_BYTES])
{
	const size_t path_at = offsetof(struct sockaddr_un, sun_path);

	names->own_bytes = sizeof(names->own);
	if (getsockname(fd, (struct sockaddr *)&names->own, &names->own_bytes))
		return -errno;
	if (names->own_bytes <= path_at || names->own_bytes > sizeof(names->own) ||
	    names->own.sun_path[0] != '\0' || peer_name[0] != '\0')
		return -EINVAL;
	names->peer = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(names->peer.sun_path, peer_name, KTSN_APP_ALARM_NAME_BYTES);
	names->peer_bytes = (socklen_t)(path_at + KTSN_APP_ALARM_NAME_BYTES);
	return 0;
}

static int alarm_prepare(struct wake_names *names, int fd, const uint8_t *peer_name)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	int err = is_unix_datagram(fd) ? alarm_names_read(names, fd, peer_name) : -EINVAL;

	/* Or it could send nothing to itself. */
	if (!err && connect(fd, &nobody, sizeof(nobody)))
		err = -errno;
	return err;
}

/* A message for ourselves waits; then the peer is one, and then it is none any more. */
static void alarm_raise(int fd, const struct wake_names *names)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};

	(void)sendto(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&names->own,
		     names->own_bytes);
	(void)connect(fd, (const struct sockaddr *)&names->peer, names->peer_bytes);
	(void)connect(fd, &nobody, sizeof(nobody));
}

/* The file's own flag is the application's as well: only RWF_NOWAIT is sure not to wait. Other kinds of files than
 * eventfds are refused by a read that gives them away. */
static ssize_t space_drain(int fd)
{
	uint64_t count;
	struct iovec iov = {.iov_base = &count, .iov_len = sizeof(count)};

	return preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
}

/* Whether it is an eventfd: the kernel says so of an anonymous inode in its name. */
static bool is_eventfd(int fd)
{
	static const char expected[] = "anon_inode:[eventfd]";
	char path[64], target[sizeof(expected)];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	bytes = readlink(path, target, sizeof(target));
	return bytes == sizeof(expected) - 1 && memcmp(target, expected, sizeof(expected) - 1) == 0;
}

/* ---- one of them ---- */

static void raising_run(struct pod_work *work)
{
	struct waker *waker = container_of(work, struct waker, raising);

	/* What happens from here on raises it again. */
	atomic_store(&waker->raised, false);
	if (waker->why == NOTIFY_REPORT)
		alarm_raise(waker->fd, &waker->names);
	else
		(void)space_drain(waker->fd);
}

static void closing_run(struct pod_work *work)
{
	struct waker *waker = container_of(work, struct waker, closing);

	close(waker->fd);
	free(waker);
}

struct waker *waker_adopt(uint32_t why, const struct wake_names *names, int fd)
{
	struct waker *waker = calloc(1, sizeof(*waker));

	if (!waker)
		return NULL;
	waker->raising.run = raising_run;
	waker->closing.run = closing_run;
	waker->why = why;
	waker->names = *names;
	waker->fd = fd;
	return waker;
}

int waker_create(uint32_t why, const uint8_t *peer_name, int fd, struct waker **created)
{
	struct wake_names names = {.own_bytes = 0};
	int err = -EINVAL;

	if (fd >= 0 && why == NOTIFY_REPORT)
		err = alarm_prepare(&names, fd, peer_name);
	else if (fd >= 0 && why == NOTIFY_SPACE)
		err = is_eventfd(fd) ? 0 : -EINVAL;
	if (err)
		return err;
	*created = waker_adopt(why, &names, fd);
	return *created ? 0 : -ENOMEM;
}

void waker_raise(struct pod_thread *thread, struct waker *waker)
{
	if (waker && !atomic_exchange(&waker->raised, true))
		pod_thread_do(thread, &waker->raising);
}

void waker_close(struct pod_thread *thread, struct waker *waker)
{
	if (waker)
		pod_thread_do(thread, &waker->closing);
}

/* ---- those of a flow ---- */

void flow_wake(struct flow *flow, uint32_t why)
{
	if (why & NOTIFY_REPORT)
		waker_raise(flow->process->thread, flow->alarm);
	if (why & NOTIFY_SPACE)
		waker_raise(flow->process->thread, flow->space);
}

void flow_waker_set(struct flow *flow, struct waker *waker)
{
	struct waker **place = waker->why == NOTIFY_REPORT ? &flow->alarm : &flow->space;

	/* What happened before, the library looks for itself. */
	waker_close(flow->process->thread, *place);
	*place = waker;
}

void flow_wakes_close(struct flow *flow)
{
	waker_close(flow->process->thread, flow->alarm);
	waker_close(flow->process->thread, flow->space);
	flow->alarm = flow->space = NULL;
}

void wakes_serve(struct node *node)
{
	struct loop_flow *flow = loop_notifications(node->loop);

	while (flow) {
		struct loop_flow *next = flow->notify_next;

		/* From here on it may be in the list again. */
		flow_wake(flow->object.owner,
			  atomic_exchange_explicit(&flow->notify, 0, memory_order_acq_rel));
		flow = next;
	}
}

void wakes_readable(struct event_source *source)
{
	wakes_serve(source->owner);
}
