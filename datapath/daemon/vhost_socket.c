/* SPDX-License-Identifier: Apache-2.0 */
#include "vhost_socket.h"

#include "log.h"
#include "unix_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int socket_error_log(const char *path, int err)
{
	log_error("--vhost-socket %s: %s", path, unix_listen_advice(err));
	return err;
}

static void paths_set(struct vhost_socket *vhost, const char *path, const char *other)
{
	snprintf(vhost->path, sizeof(vhost->path), "%s", path);
	snprintf(vhost->other, sizeof(vhost->other), "%s", other);
}

static bool is_older(const char *path, const char *other)
{
	struct stat status, other_status;

	if (stat(path, &status) || stat(other, &other_status))
		return false;
	if (status.st_mtim.tv_sec != other_status.st_mtim.tv_sec)
		return status.st_mtim.tv_sec < other_status.st_mtim.tv_sec;
	return status.st_mtim.tv_nsec < other_status.st_mtim.tv_nsec;
}

/* Takes the name of the older socket: its ktsnd was replaced before and does not need it any more. */
static int oldest_take(struct vhost_socket *vhost, const char *first, const char *second)
{
	if (is_older(first, second))
		paths_set(vhost, first, second);
	else
		paths_set(vhost, second, first);
	return unlink(vhost->path) && errno != ENOENT ? socket_error_log(vhost->path, -errno) : 0;
}

int vhost_socket_choose(struct vhost_socket *vhost, const char *path, bool take_over)
{
	char second[sizeof(vhost->path)];
	int err = unix_left_over_remove(path), second_err;

	snprintf(second, sizeof(second), "%s.2", path);
	second_err = unix_left_over_remove(second);
	paths_set(vhost, path, second);
	if (!err)
		return 0;
	if (err != -EADDRINUSE || !take_over)
		return socket_error_log(path, err);
	if (second_err == -EADDRINUSE)
		return oldest_take(vhost, path, second);
	paths_set(vhost, second, path);
	return second_err ? socket_error_log(second, second_err) : 0;
}

int vhost_socket_move(struct vhost_socket *vhost)
{
	const struct vhost_socket previous = *vhost;

	if (rename(previous.path, previous.other))
		return socket_error_log(previous.other, -errno);
	paths_set(vhost, previous.other, previous.path);
	return 0;
}
