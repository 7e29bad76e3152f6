/* SPDX-License-Identifier: Apache-2.0 */
#include "unix_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	BACKLOG = 128,
	/* Another ktsnd that starts releases the lock soon. A pod can lock its folder for any time. */
	LOCK_TRIES = 20,
	LOCK_RETRY_US = 1000,
	/* Descriptors that pods do not get: this fraction of the limit, and at most this many. */
	KEPT_FRACTION = 8,
	KEPT_MAX = 256,
	/* Enough of /proc/PID/status for the lines that are needed. */
	STATUS_BYTES = 4096,
};

static int address_make(const char *path, struct sockaddr_un *address)
{
	size_t bytes = strlen(path) + 1;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	if (bytes > sizeof(address->sun_path))
		return -ENAMETOOLONG;
	memcpy(address->sun_path, path, bytes);
	return 0;
}

/* Reads /proc/PID/status as a string. */
static bool status_read(pid_t pid, char status[STATUS_BYTES])
{
	char path[64];
	ssize_t bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	bytes = read(fd, status, STATUS_BYTES - 1);
	close(fd);
	status[bytes > 0 ? bytes : 0] = '\0';
	return bytes > 0;
}

/* Whether the main thread has ended and others have not. A zombie without threads has no sockets: if one
 * listens, another process has got it from it. */
static bool is_dying(pid_t pid)
{
	char status[STATUS_BYTES];
	const char *threads;

	if (!status_read(pid, status) || !strstr(status, "\nState:\tZ"))
		return false;
	threads = strstr(status, "\nThreads:\t");
	return threads && atoi(threads + strlen("\nThreads:\t")) > 1;
}

bool unix_peer_is_dying(int fd)
{
	struct ucred peer = {.pid = 0};
	socklen_t bytes = sizeof(peer);

	/* The PID is 0 if the peer is in a PID namespace that is not visible. */
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid > 0 &&
	       is_dying(peer.pid);
}

static int left_over_remove(const struct sockaddr_un *address)
{
	struct stat status;
	int fd, err = 0;

	if (lstat(address->sun_path, &status))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(status.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* Any error except ECONNREFUSED, such as a full backlog or another type, means that a process
	 * listens. */
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
		err = unix_peer_is_dying(fd) ? 0 : -EADDRINUSE;
	else if (errno != ECONNREFUSED)
		err = -EADDRINUSE;
	close(fd);
	if (!err && unlink(address->sun_path))
		err = -errno;
	return err;
}

int unix_left_over_remove(const char *path)
{
	struct sockaddr_un address;
	int err = address_make(path, &address);

	return err ? err : left_over_remove(&address);
}

static int socket_bind(int fd, const struct sockaddr_un *address, mode_t mode)
{
	if (bind(fd, (const struct sockaddr *)address, sizeof(*address)))
		return -errno;
	if (chmod(address->sun_path, mode) || listen(fd, BACKLOG)) {
		int err = -errno;

		unlink(address->sun_path);
		return err;
	}
	return 0;
}

/* Locks the folder, so that of two processes that start at the same time neither removes the other's new
 * socket. Returns a descriptor, which must be closed to unlock, or -errno. */
static int folder_lock(const struct sockaddr_un *address)
{
	char path[sizeof(address->sun_path)];
	int fd;

	memcpy(path, address->sun_path, sizeof(path));
	fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (int tries = 0; flock(fd, LOCK_EX | LOCK_NB); tries++) {
		int err = -errno;

		if (err == -EWOULDBLOCK && tries < LOCK_TRIES) {
			usleep(LOCK_RETRY_US);
			continue;
		}
		close(fd);
		return err == -EWOULDBLOCK ? -ETXTBSY : err;
	}
	return fd;
}

static int socket_replace(const struct sockaddr_un *address, mode_t mode, int *result)
{
	int err = left_over_remove(address);
	int fd;

	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	err = socket_bind(fd, address, mode);
	if (err) {
		close(fd);
		return err;
	}
	*result = fd;
	return 0;
}

int unix_listen(const char *path, mode_t mode, int *result)
{
	struct sockaddr_un address;
	int err = address_make(path, &address);
	int lock_fd;

	if (err)
		return err;
	lock_fd = folder_lock(&address);
	if (lock_fd < 0)
		return lock_fd;
	err = socket_replace(&address, mode, result);
	close(lock_fd);
	return err;
}

void unix_listener_take(int fd)
{
	/* The kernel reports the process that called listen() last as the peer. */
	(void)listen(fd, BACKLOG);
}

static int socket_connect(const char *path, int flags, int timeout_s)
{
	const struct timeval timeout = {.tv_sec = timeout_s};
	struct sockaddr_un address;
	int err = address_make(path, &address);
	int fd;

	if (err)
		return err;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		return -errno;
	/* The timeout also limits how long connect() waits for room in the backlog. */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) == 0 &&
	    connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int unix_connect(const char *path, int timeout_s)
{
	return socket_connect(path, 0, timeout_s);
}

int unix_connect_at_once(const char *path)
{
	return socket_connect(path, SOCK_NONBLOCK, 0);
}

bool unix_is_listened_at(const char *path)
{
	int fd = unix_connect_at_once(path);
	bool dying;

	if (fd < 0)
		return fd == -EAGAIN;
	dying = unix_peer_is_dying(fd);
	close(fd);
	return !dying;
}

/* A reserved descriptor, which is closed to accept a connection that is then closed. */
static int spare_fd = -1;

static void spare_open(void)
{
	if (spare_fd < 0)
		spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Returns how many of the reserved descriptor numbers are in use. */
static unsigned int kept_used(rlim_t first, rlim_t limit)
{
	unsigned int used = 0;

	for (rlim_t fd = first; fd < limit; fd++)
		used += fcntl((int)fd, F_GETFD) >= 0;
	return used;
}

/* The kernel assigns the lowest free number. If one is free below numbers that are all in use, the following
 * ones come from the reserved numbers, so half of these must be free. */
bool unix_descriptors_suffice(unsigned int wanted)
{
	struct rlimit limit;
	unsigned int kept;
	int free_fd;

	spare_open();
	free_fd = spare_fd < 0 ? -1 : fcntl(spare_fd, F_DUPFD_CLOEXEC, 0);
	if (free_fd < 0)
		return false;
	close(free_fd);
	if (getrlimit(RLIMIT_NOFILE, &limit))
		return true;
	kept = limit.rlim_cur / KEPT_FRACTION < KEPT_MAX ? (unsigned int)(limit.rlim_cur / KEPT_FRACTION)
							 : KEPT_MAX;
	return (unsigned int)free_fd + wanted + kept < limit.rlim_cur &&
	       kept_used(limit.rlim_cur - kept, limit.rlim_cur) <= kept / 2;
}

int unix_accept(int listen_fd, bool *refused)
{
	int fd;

	*refused = false;
	spare_open();
	fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0 || (errno != EMFILE && errno != ENFILE) || spare_fd < 0)
		return fd < 0 ? -errno : fd;
	close(spare_fd);
	spare_fd = -1;
	*refused = true;
	fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int unix_send(int fd, const void *bytes, size_t count, const int *fds, size_t fd_count, int flags)
{
	union {
		char bytes[CMSG_SPACE(UNIX_FDS_MAX * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec iov = {.iov_base = (void *)bytes, .iov_len = count};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd_count) {
		struct cmsghdr *cmsg;

		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&message);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, fd_count * sizeof(int));
	}
	return sendmsg(fd, &message, flags | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

const char *unix_listen_advice(int err)
{
	switch (-err) {
	case EADDRINUSE:
		return "a running process listens there; stop it or choose another path";
	case EEXIST:
		return "something that is not a socket is there; remove it or choose another path";
	case ENAMETOOLONG:
		return "the path is too long for a socket; choose one of at most 107 characters";
	case ETXTBSY:
		return "another process holds a lock on its folder; end that one or choose another folder";
	case ENOENT:
		return "the folder does not exist; create it first";
	default:
		return strerror(-err);
	}
}
