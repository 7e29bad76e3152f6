/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path, one of two, at which a ktsnd listens for Open vSwitch while others listen there or have left
 * sockets there.
 */
#include "vhost_socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit_test.h"

static char folder[64], first[sizeof(folder) + 8], second[sizeof(first) + 2];

static int folder_make(void **state)
{
	strcpy(folder, "/tmp/ktsn-vhost-socket-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(first, sizeof(first), "%s/v", folder);
	snprintf(second, sizeof(second), "%s.2", first);
	return 0;
}

static int folder_remove(void **state)
{
	unlink(first);
	unlink(second);
	return rmdir(folder);
}

/* As DPDK does. */
static int listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, path);
	assert_return_code(bind(fd, (const struct sockaddr *)&address, sizeof(address)), errno);
	assert_return_code(listen(fd, 1), errno);
	return fd;
}

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

TEST_WITH(first_path_is_used_if_free, folder_make, folder_remove)
{
	struct vhost_socket vhost;

	close(listen_at(first));
	close(listen_at(second));
	assert_return_code(vhost_socket_choose(&vhost, first, false), 0);
	assert_string_equal(vhost.path, first);
	assert_false(is_there(first));
	assert_false(is_there(second));
}

TEST_WITH(successor_uses_the_other_path, folder_make, folder_remove)
{
	struct vhost_socket vhost;
	int fd = listen_at(first);

	assert_int_equal(vhost_socket_choose(&vhost, first, false), -EADDRINUSE);
	assert_return_code(vhost_socket_choose(&vhost, first, true), 0);
	assert_string_equal(vhost.path, second);
	assert_true(is_there(first));
	close(fd);
	fd = listen_at(second);
	assert_return_code(vhost_socket_choose(&vhost, first, true), 0);
	assert_string_equal(vhost.path, first);
	assert_true(is_there(second));
	close(fd);
}

TEST_WITH(surviving_predecessor_loses_its_path, folder_make, folder_remove)
{
	struct vhost_socket vhost;
	int old, new;

	old = listen_at(second);
	usleep(20000); /* a name that file systems reject */
	new = listen_at(first);
	assert_return_code(vhost_socket_choose(&vhost, first, true), 0);
	assert_string_equal(vhost.path, second);
	assert_string_equal(vhost.other, first);
	assert_false(is_there(second));
	assert_true(is_there(first));
	close(old);
	close(new);
}

TEST_WITH(unreachable_ktsnd_moves_to_the_other_path, folder_make, folder_remove)
{
	struct vhost_socket vhost;
	int old = listen_at(first), new;

	assert_return_code(vhost_socket_choose(&vhost, first, true), 0);
	new = listen_at(vhost.path);
	assert_return_code(vhost_socket_move(&vhost), 0);
	assert_string_equal(vhost.path, first);
	assert_false(is_there(second));
	assert_int_equal(vhost_socket_choose(&vhost, first, false), -EADDRINUSE);
	close(old);
	close(new);
}

TEST_WITH(other_files_are_left, folder_make, folder_remove)
{
	struct vhost_socket vhost;
	int fd = listen_at(first);
	FILE *file = fopen(second, "w");

	assert_non_null(file);
	fclose(file);
	assert_int_equal(vhost_socket_choose(&vhost, first, true), -EEXIST);
	assert_true(is_there(second));
	close(fd);
}
