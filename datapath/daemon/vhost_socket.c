/* SPDX-License-Identifier: Apache-2.0 */
#include "vhost_socket.h"

#include "log.h"
#include "unix_socket.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int complain(const char *path, int err)
{
	log_error("--vhost-socket %s: %s", path, unix_listen_advice(err));
	return err;
}

static void use(struct vhost_socket *vhost, const char *path, const char *other)
{
	snprintf(vhost->path, sizeof(vhost->path), "%s", path);
	snprintf(vhost->other, sizeof(vhost->other), "%s", other);
}

static bool older(const char *path, const char *than)
{
	struct stat one, another;

	if (stat(path, &one) || stat(than, &another))
		return false;
	if (one.st_mtim.tv_sec != another.st_mtim.tv_sec)
		return one.st_mtim.tv_sec < another.st_mtim.tv_sec;
	return one.st_mtim.tv_nsec < another.st_mtim.tv_nsec;
}

/* The one that was replaced before has not ended yet; nobody needs its name. */
static int oldest_take(struct vhost_socket *vhost, const char *first, const char *second)
{
	if (older(first, second))
		use(vhost, first, second);
	else
		use(vhost, second, first);
	return unlink(vhost->path) && errno != ENOENT ? complain(vhost->path, -errno) : 0;
}

int vhost_socket_choose(struct vhost_socket *vhost, const char *path, bool take_over)
{
	char second[sizeof(vhost->path)];
	int err = unix_left_over_remove(path), second_err;

	snprintf(second, sizeof(second), "%s.2", path);
	second_err = unix_left_over_remove(second);
	use(vhost, path, second);
	if (!err)
		return 0;
	if (err != -EADDRINUSE || !take_over)
		return complain(path, err);
	if (second_err == -EADDRINUSE)
		return oldest_take(vhost, path, second);
	use(vhost, second, path);
	return second_err ? complain(second, second_err) : 0;
}

int vhost_socket_move(struct vhost_socket *vhost)
{
	const struct vhost_socket before = *vhost;

	if (rename(before.path, before.other))
		return complain(before.other, -errno);
	use(vhost, before.other, before.path);
	return 0;
}
