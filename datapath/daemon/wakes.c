/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking applications that wait in poll, select or epoll. The library makes the descriptors and hands them over
 * (FLOW_WAKE); what the kernel then raises on its end of them, it raises natively, and no wait has to be followed.
 *
 *   alarm   one end of a pair of unix datagram sockets. A socket whose peer disconnects while messages wait for it
 *           gets an error, and with it EPOLLERR (af_unix.c, unix_dgram_disconnected); so often as that is done.
 *   space   an eventfd that the library filled up: reading makes it writable again.
 *
 * The calls that wake take no lock that is ever held during a copy or a wait. What can hold up the thread is the end of
 * an alarm: closing the last copy closes what the application queued on it. See docs/decisions/0007, consequences.
 */
#include "node.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
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
static int alarm_names_read(struct wake_alarm *alarm, int fd,
			    const uint8_t peer_name[KTSN_APP_ALARM_NAME_BYTES])
{
	const size_t path_at = offsetof(struct sockaddr_un, sun_path);

	alarm->own_bytes = sizeof(alarm->own);
	if (getsockname(fd, (struct sockaddr *)&alarm->own, &alarm->own_bytes))
		return -errno;
	if (alarm->own_bytes <= path_at || alarm->own_bytes > sizeof(alarm->own) ||
	    alarm->own.sun_path[0] != '\0' || peer_name[0] != '\0')
		return -EINVAL;
	alarm->peer = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(alarm->peer.sun_path, peer_name, KTSN_APP_ALARM_NAME_BYTES);
	alarm->peer_bytes = (socklen_t)(path_at + KTSN_APP_ALARM_NAME_BYTES);
	return 0;
}

static int alarm_take(struct flow *flow, int fd, const uint8_t *peer_name)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	struct wake_alarm alarm = {.fd = fd};
	int err = is_unix_datagram(fd) ? alarm_names_read(&alarm, fd, peer_name) : -EINVAL;

	/* Or it could send nothing to itself. */
	if (!err && connect(fd, &nobody, sizeof(nobody)))
		err = -errno;
	if (err)
		return err;
	if (flow->alarm.fd >= 0)
		close(flow->alarm.fd);
	flow->alarm = alarm;
	return 0;
}

/* A message for ourselves waits; then the peer is one, and then it is none any more. */
static void alarm_raise(const struct wake_alarm *alarm)
{
	const struct sockaddr nobody = {.sa_family = AF_UNSPEC};

	if (alarm->fd < 0)
		return;
	(void)sendto(alarm->fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&alarm->own,
		     alarm->own_bytes);
	(void)connect(alarm->fd, (const struct sockaddr *)&alarm->peer, alarm->peer_bytes);
	(void)connect(alarm->fd, &nobody, sizeof(nobody));
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

static int space_take(struct flow *flow, int fd)
{
	if (!is_eventfd(fd))
		return -EINVAL;
	if (flow->space_fd >= 0)
		close(flow->space_fd);
	flow->space_fd = fd;
	return 0;
}

void flow_wake(struct flow *flow, uint32_t why)
{
	if (why & WAKE_REPORT)
		alarm_raise(&flow->alarm);
	if (why & WAKE_SPACE && flow->space_fd >= 0)
		(void)space_drain(flow->space_fd);
}

int flow_wake_take(struct flow *flow, uint32_t why, const uint8_t *peer_name, int fd)
{
	/* What happened before, the library looks for itself. */
	if (fd < 0)
		return -EINVAL;
	return why == WAKE_REPORT  ? alarm_take(flow, fd, peer_name)
	       : why == WAKE_SPACE ? space_take(flow, fd)
				   : -EINVAL;
}

void flow_wakes_close(struct flow *flow)
{
	if (flow->alarm.fd >= 0)
		close(flow->alarm.fd);
	if (flow->space_fd >= 0)
		close(flow->space_fd);
	flow->alarm.fd = flow->space_fd = -1;
}

void wakes_serve(struct node *node)
{
	struct loop_flow *flow = loop_wakes(node->loop);

	while (flow) {
		struct loop_flow *next = flow->wake_next;

		/* From here on it may be in the list again. */
		flow_wake(flow->object.owner, atomic_exchange_explicit(&flow->wake, 0, memory_order_acq_rel));
		flow = next;
	}
}

void wakes_readable(struct event_source *source)
{
	wakes_serve(source->owner);
}
