/* SPDX-License-Identifier: Apache-2.0 */
#include "handshake.h"

#include "clock.h"
#include "internal_fds.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* The file of the library in the folder of a pod's socket (internal/node/agent/csi). */
#define POD_LIBRARY "libktsn.so"

struct ktsn_client_version handshake_version = {
	.oldest = KTSN_APP_VERSION_OLDEST,
	.newest = KTSN_APP_VERSION,
	.current = KTSN_APP_VERSION,
};

static bool file_exists(const char *path)
{
	return kernel_call(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

/* Returns whether the agent mounted the socket's folder into the pod. The library stays in it when ktsnd ends
 * and removes the socket. */
static bool is_in_pod_folder(const struct sockaddr_un *address)
{
	char library[sizeof(address->sun_path) + sizeof(POD_LIBRARY)];
	const char *slash = strrchr(address->sun_path, '/');
	size_t folder_bytes = slash ? (size_t)(slash + 1 - address->sun_path) : 0;

	memcpy(library, address->sun_path, folder_bytes);
	memcpy(library + folder_bytes, POD_LIBRARY, sizeof(POD_LIBRARY));
	return file_exists(library);
}

static int address_find(struct sockaddr_un *address)
{
	const char *path = getenv("KTSN_SOCKET");

	if (ktsn_client_address(address, path && *path ? path : KTSN_DEFAULT_APP_SOCKET))
		return -ENOTCONN;
	/* Checked without a descriptor: there may be no free one. */
	if (file_exists(address->sun_path))
		return 0;
	return is_in_pod_folder(address) ? -ETIMEDOUT : -ENOTCONN;
}

static int app_socket_connect(int *socket_fd)
{
	struct sockaddr_un address;
	int err = address_find(&address), fd;

	if (err)
		return err;
	fd = ktsn_client_socket(0);
	/* A sandbox without unix sockets: the kernel serves the process. */
	if (fd == -EAFNOSUPPORT || fd == -EPERM || fd == -EACCES)
		return -ENOTCONN;
	if (fd < 0)
		return fd;
	/* Any error means that ktsnd is away: it was killed (ECONNREFUSED), is about to listen (EACCES), or
	 * its backlog is full (EAGAIN). */
	if (ktsn_client_connect(fd, &address))
		return -ETIMEDOUT;
	ktsn_client_version_reset(&handshake_version);
	*socket_fd = internal_fd_raise(fd);
	return 0;
}

static void fd_close(int fd)
{
	if (fd >= 0)
		(void)kernel_call(SYS_close, fd);
}

static int hello_send(int socket_fd)
{
	const struct ktsn_app_request hello = ktsn_client_request(KTSN_APP_HELLO);

	return ktsn_client_send(socket_fd, &handshake_version, &hello, -1);
}

int handshake_begin(int *socket_fd)
{
	int err = app_socket_connect(socket_fd);

	if (err)
		return err;
	err = hello_send(*socket_fd);
	if (err)
		fd_close(*socket_fd);
	return err;
}

/* Receives the reply to HELLO, and repeats HELLO in an older version if ktsnd refuses the first one. */
static int hello_receive(int socket_fd, struct ktsn_app_reply *reply, int fds[KTSN_CLIENT_FDS],
			 int64_t until_ms)
{
	int err;

	do {
		err = ktsn_client_receive_until(socket_fd, reply, fds, until_ms);
		if (!err)
			err = ktsn_client_negotiate(&handshake_version, reply);
		if (err <= 0)
			return err;
		err = hello_send(socket_fd);
	} while (!err);
	return err;
}

int handshake_end(struct session *session, int socket_fd, int64_t until_ms)
{
	struct ktsn_app_reply reply;
	int fds[KTSN_CLIENT_FDS];
	int err = hello_receive(socket_fd, &reply, fds, until_ms);

	if (err == -ETIMEDOUT)
		return err;
	if (!err)
		err = reply.status;
	if (!err && (fds[0] < 0 || fds[1] < 0))
		err = -EPROTO;
	if (!err)
		err = ktsn_client_ring_map(fds[0], reply.ring_bytes, &session->ring, &session->ring_bytes);
	if (err) {
		fd_close(fds[0]);
		fd_close(fds[1]);
		/* ENOTSOCK: the application closed the socket, and the number is now one of its files. */
		if (err != -ENOTSOCK)
			fd_close(socket_fd);
		return err;
	}
	session->ring_fd = internal_fd_raise(fds[0]);
	session->doorbell_fd = internal_fd_raise(fds[1]);
	atomic_store_explicit(&session->socket_fd, socket_fd, memory_order_release);
	return 0;
}

static int ring_hand_back(struct session *session, int socket_fd, int fds[KTSN_CLIENT_FDS])
{
	const struct ktsn_app_request request = ktsn_client_request(KTSN_APP_HAND_BACK);
	struct ktsn_app_reply reply;
	int err;

	ktsn_ring_refuse_none(&session->ring);
	do {
		err = ktsn_client_send(socket_fd, &handshake_version, &request, session->ring_fd);
		if (!err)
			err = ktsn_client_receive_until(socket_fd, &reply, fds,
							monotonic_ms() + KTSN_APP_TIMEOUT_MS);
		if (!err)
			err = ktsn_client_negotiate(&handshake_version, &reply);
	} while (err > 0);
	return err ? err : reply.status;
}

int handshake_again(struct session *session)
{
	int fds[KTSN_CLIENT_FDS] = {-1, -1}, socket_fd;
	int err = app_socket_connect(&socket_fd);

	if (err)
		return err;
	err = ring_hand_back(session, socket_fd, fds);
	/* In one step: other threads ring either the old doorbell or the new one. */
	if (!err && kernel_call(SYS_dup3, fds[0], session->doorbell_fd, O_CLOEXEC) < 0)
		err = -EPROTO;
	fd_close(fds[0]);
	fd_close(fds[1]);
	if (err) {
		fd_close(socket_fd);
		return err;
	}
	atomic_store_explicit(&session->socket_fd, socket_fd, memory_order_release);
	return 0;
}
