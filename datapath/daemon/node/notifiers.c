/* SPDX-License-Identifier: Apache-2.0 */
#include "notifiers.h"

#include "container_of.h"
#include "loop_objects.h"

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

/* Reads the names of both ends. They must be abstract: these are looked up in the socket's own network
 * namespace, while a path would be looked up in ktsnd's file system and could be that of a socket of the
 * node. */
static int error_names_read(struct notifier_names *names, int fd,
			    const uint8_t peer_name[KTSN_APP_NOTIFIER_NAME_BYTES])
{
	const size_t path_at = offsetof(struct sockaddr_un, sun_path);

	names->own_bytes = sizeof(names->own);
	if (getsockname(fd, (struct sockaddr *)&names->own, &names->own_bytes))
		return -errno;
	if (names->own_bytes <= path_at || names->own_bytes > sizeof(names->own) ||
	    names->own.sun_path[0] != '\0' || peer_name[0] != '\0')
		return -EINVAL;
	names->peer = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(names->peer.sun_path, peer_name, KTSN_APP_NOTIFIER_NAME_BYTES);
	names->peer_bytes = (socklen_t)(path_at + KTSN_APP_NOTIFIER_NAME_BYTES);
	return 0;
}

/* Sets the peer of a socket, which discards its queue and closes the descriptors that the application queued
 * there. *replaced: as pod_thread_closes(). 0 or -errno. */
static int peer_set(int fd, const struct sockaddr *peer, socklen_t bytes, bool *replaced)
{
	int err;

	(void)pod_thread_closes(true);
	err = connect(fd, peer, bytes) ? -errno : 0;
	*replaced = pod_thread_closes(false);
	return err;
}

static int error_prepare(struct notifier_names *names, int fd, const uint8_t *peer_name)
{
	const struct sockaddr no_peer = {.sa_family = AF_UNSPEC};
	int err = is_unix_datagram(fd) ? error_names_read(names, fd, peer_name) : -EINVAL;
	bool replaced;

	/* A socket with a peer could not send to itself. */
	return err ? err : peer_set(fd, &no_peer, sizeof(no_peer), &replaced);
}

/* Raises an error at the peer: a peer that disconnects while messages wait for this socket gets one. */
static void error_raise(int fd, const struct notifier_names *names)
{
	const struct sockaddr no_peer = {.sa_family = AF_UNSPEC};
	bool replaced;

	(void)sendto(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&names->own,
		     names->own_bytes);
	/* The application may also have connected the socket. */
	(void)peer_set(fd, (const struct sockaddr *)&names->peer, names->peer_bytes, &replaced);
	if (!replaced)
		(void)peer_set(fd, &no_peer, sizeof(no_peer), &replaced);
}

/* Uses RWF_NOWAIT, because the application can clear O_NONBLOCK of the shared file. */
static ssize_t space_drain(int fd)
{
	uint64_t count;
	struct iovec iov = {.iov_base = &count, .iov_len = sizeof(count)};

	return preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
}

/* Whether the descriptor is an eventfd, which the kernel shows in the name of its anonymous inode. */
static bool is_eventfd(int fd)
{
	static const char expected[] = "anon_inode:[eventfd]";
	char path[64], target[sizeof(expected)];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	bytes = readlink(path, target, sizeof(target));
	return bytes == sizeof(expected) - 1 && memcmp(target, expected, sizeof(expected) - 1) == 0;
}

/* ---- notifiers ---- */

static void raising_run(struct pod_work *work)
{
	struct notifier *notifier = container_of(work, struct notifier, raising);

	/* Later events raise it again. */
	atomic_store(&notifier->raised, false);
	if (notifier->why == NOTIFY_REPORT)
		error_raise(notifier->fd, &notifier->names);
	else
		(void)space_drain(notifier->fd);
}

static void closing_run(struct pod_work *work)
{
	struct notifier *notifier = container_of(work, struct notifier, closing);
	int fd = notifier->fd;

	free(notifier);
	pod_thread_close_now(fd);
}

struct notifier *notifier_adopt(uint32_t why, const struct notifier_names *names, int fd)
{
	struct notifier *notifier = calloc(1, sizeof(*notifier));

	if (!notifier)
		return NULL;
	notifier->raising.run = raising_run;
	notifier->closing.run = closing_run;
	notifier->why = why;
	notifier->names = *names;
	notifier->fd = fd;
	return notifier;
}

int notifier_create(uint32_t why, const uint8_t *peer_name, int fd, struct notifier **created)
{
	struct notifier_names names = {.own_bytes = 0};
	int err = -EINVAL;

	if (fd >= 0 && why == NOTIFY_REPORT)
		err = error_prepare(&names, fd, peer_name);
	else if (fd >= 0 && why == NOTIFY_SPACE)
		err = is_eventfd(fd) ? 0 : -EINVAL;
	if (err)
		return err;
	*created = notifier_adopt(why, &names, fd);
	return *created ? 0 : -ENOMEM;
}

void notifier_raise(struct pod_thread *thread, struct notifier *notifier)
{
	if (notifier && !atomic_exchange(&notifier->raised, true))
		pod_thread_do(thread, &notifier->raising);
}

void notifier_close(struct pod_thread *thread, struct notifier *notifier)
{
	if (notifier)
		pod_thread_do(thread, &notifier->closing);
}
