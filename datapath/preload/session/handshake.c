/* SPDX-License-Identifier: Apache-2.0 */
#include "handshake.h"

#include "clock.h"
#include "internal_fds.h"
#include "memory.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The library's file in the folder of a pod's socket (internal/node/agent/csi). */
#define POD_LIBRARY "libktsn.so"

union fd_control {
	char bytes[CMSG_SPACE(HANDSHAKE_FDS * sizeof(int))];
	struct cmsghdr align;
};

uint16_t handshake_version_oldest = KTSN_APP_VERSION_OLDEST, handshake_version_newest = KTSN_APP_VERSION;

/* The version of this process's requests: the newest that its ktsnd has not refused. */
static _Atomic uint16_t version = KTSN_APP_VERSION;

static int readable_wait(int fd, int64_t until_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	for (;;) {
		int64_t left_ms = until_ms - monotonic_ms();
		struct timespec left = timespec_of_ns(left_ms > 0 ? left_ms * 1000000 : 0);
		long ready = kernel_call(SYS_ppoll, &poll_fd, 1, &left, NULL, 0);

		if (ready == -EINTR)
			continue;
		return ready < 0 ? (int)ready : ready == 0 ? -ETIMEDOUT : 0;
	}
}

int handshake_send(int socket_fd, const struct ktsn_app_request *request, int fd_to_pass)
{
	union fd_control control;
	struct ktsn_app_request versioned = *request;
	struct iovec iov = {.iov_base = &versioned, .iov_len = sizeof(versioned)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *cmsg;
	long sent;

	versioned.version = atomic_load_explicit(&version, memory_order_relaxed);
	if (fd_to_pass >= 0) {
		memset(&control, 0, sizeof(control));
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(sizeof(int));
		cmsg = CMSG_FIRSTHDR(&message);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cmsg), &fd_to_pass, sizeof(int));
	}
	do
		sent = kernel_call(SYS_sendmsg, socket_fd, &message, MSG_NOSIGNAL);
	while (sent == -EINTR);
	return sent < 0 ? (int)sent : 0;
}

/* Hands the descriptors of a reply to the caller, or closes them. */
static void fds_collect(struct msghdr *message, int *received_fds)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(message);
	size_t count;

	if (!cmsg || cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
		return;
	count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	for (size_t i = 0; i < count && i < HANDSHAKE_FDS; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
		if (received_fds)
			received_fds[i] = fd;
		else
			(void)kernel_call(SYS_close, fd);
	}
}

static int reply_receive(int socket_fd, struct ktsn_app_reply *reply, int *received_fds)
{
	union fd_control control;
	struct iovec iov = {.iov_base = reply, .iov_len = sizeof(*reply)};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	long bytes = kernel_call(SYS_recvmsg, socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (bytes < 0)
		return (int)bytes;
	fds_collect(&message, received_fds);
	if (bytes == 0)
		return -ECONNRESET;
	if (bytes != sizeof(*reply) || reply->magic != KTSN_APP_MAGIC)
		return -EPROTO;
	return reply->version >= handshake_version_oldest && reply->version <= handshake_version_newest
		       ? 0
		       : -EPROTONOSUPPORT;
}

bool handshake_version_lower(const struct ktsn_app_reply *reply)
{
	if (reply->status != -EPROTONOSUPPORT ||
	    reply->version >= atomic_load_explicit(&version, memory_order_relaxed))
		return false;
	atomic_store_explicit(&version, reply->version, memory_order_relaxed);
	return true;
}

int handshake_receive(int socket_fd, struct ktsn_app_reply *reply, int received_fds[HANDSHAKE_FDS],
		      int64_t until_ms)
{
	int err;

	for (int i = 0; received_fds && i < HANDSHAKE_FDS; i++)
		received_fds[i] = -1;
	err = readable_wait(socket_fd, until_ms);
	return err ? err : reply_receive(socket_fd, reply, received_fds);
}

static bool is_there(const char *path)
{
	return kernel_call(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

/* Whether the socket's folder is one that the agent mounted into the pod. The library is in it even when
 * ktsnd has ended and taken the socket with it. */
static bool is_in_pods_folder(const struct sockaddr_un *address)
{
	char library[sizeof(address->sun_path) + sizeof(POD_LIBRARY)];
	const char *slash = strrchr(address->sun_path, '/');
	size_t folder_bytes = slash ? (size_t)(slash + 1 - address->sun_path) : 0;

	memcpy(library, address->sun_path, folder_bytes);
	memcpy(library + folder_bytes, POD_LIBRARY, sizeof(POD_LIBRARY));
	return is_there(library);
}

static int address_make(struct sockaddr_un *address)
{
	const char *path = getenv("KTSN_SOCKET");
	size_t bytes;

	path = path && *path ? path : KTSN_DEFAULT_APP_SOCKET;
	bytes = strlen(path) + 1;
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (bytes > sizeof(address->sun_path))
		return -ENOTCONN;
	memcpy(address->sun_path, path, bytes);
	/* Checked without a descriptor, of which there may be none left. */
	if (is_there(path))
		return 0;
	return is_in_pods_folder(address) ? -ETIMEDOUT : -ENOTCONN;
}

static int app_socket_connect(int *socket_fd)
{
	struct sockaddr_un address;
	struct timeval timeout = {.tv_usec = KTSN_APP_TIMEOUT_MS * 1000};
	int absent = address_make(&address);
	long fd, err;

	if (absent)
		return absent;
	fd = kernel_call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return (int)fd;
	/* Bounds connect as well, when the daemon's backlog is full (unix(7)). */
	(void)kernel_call(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	err = kernel_call(SYS_connect, fd, &address, sizeof(address));
	if (err < 0) {
		(void)kernel_call(SYS_close, fd);
		/* Whatever the error: ktsnd was killed (ECONNREFUSED), is just beginning to listen (EACCES),
		 * or its backlog is full (EAGAIN). */
		return -ETIMEDOUT;
	}
	/* It may be another ktsnd than the last. */
	atomic_store_explicit(&version, handshake_version_newest, memory_order_relaxed);
	*socket_fd = internal_fd_raise((int)fd);
	return 0;
}

/* The kernel maps no more than there is. */
static int ring_map(struct session *session, int ring_fd, uint64_t bytes)
{
	long address;
	int err;

	if (bytes < sizeof(struct ktsn_ring_header) || bytes > KTSN_RING_BYTES_MAX)
		return -EPROTO;
	address = kernel_call(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, 0L);
	err = mmap_error(address);
	if (err)
		return err;
	session->ring_bytes = (size_t)bytes;
	err = ktsn_ring_producer_init(&session->ring, (void *)address, session->ring_bytes);
	if (err)
		memory_unmap((void *)address, (size_t)bytes);
	return err;
}

static void fd_close(int fd)
{
	if (fd >= 0)
		(void)kernel_call(SYS_close, fd);
}

struct ktsn_app_request handshake_request(enum ktsn_app_type type)
{
	return (struct ktsn_app_request){
		.magic = KTSN_APP_MAGIC,
		.type = (uint16_t)type,
	};
}

static int hello_send(int socket_fd)
{
	const struct ktsn_app_request hello = handshake_request(KTSN_APP_HELLO);

	return handshake_send(socket_fd, &hello, -1);
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

/* Once more where ktsnd is older. */
static int hello_receive(int socket_fd, struct ktsn_app_reply *reply, int fds[HANDSHAKE_FDS],
			 int64_t until_ms)
{
	int err = handshake_receive(socket_fd, reply, fds, until_ms);

	if (err || !handshake_version_lower(reply))
		return err;
	err = hello_send(socket_fd);
	return err ? err : handshake_receive(socket_fd, reply, fds, until_ms);
}

int handshake_end(struct session *session, int socket_fd, int64_t until_ms)
{
	struct ktsn_app_reply reply;
	int fds[HANDSHAKE_FDS];
	int err = hello_receive(socket_fd, &reply, fds, until_ms);

	if (err == -ETIMEDOUT)
		return err;
	if (!err)
		err = reply.status;
	if (!err && (fds[HANDSHAKE_RING] < 0 || fds[HANDSHAKE_DOORBELL] < 0))
		err = -EPROTO;
	if (!err)
		err = ring_map(session, fds[HANDSHAKE_RING], reply.ring_bytes);
	if (err) {
		fd_close(fds[HANDSHAKE_RING]);
		fd_close(fds[HANDSHAKE_DOORBELL]);
		/* ENOTSOCK: the application closed the socket, and the number is a file of its own. */
		if (err != -ENOTSOCK)
			fd_close(socket_fd);
		return err;
	}
	session->ring_fd = internal_fd_raise(fds[HANDSHAKE_RING]);
	session->doorbell_fd = internal_fd_raise(fds[HANDSHAKE_DOORBELL]);
	atomic_store_explicit(&session->socket_fd, socket_fd, memory_order_release);
	return 0;
}

static int ring_hand_back(struct session *session, int socket_fd, int fds[HANDSHAKE_FDS])
{
	const struct ktsn_app_request request = handshake_request(KTSN_APP_HAND_BACK);
	struct ktsn_app_reply reply;
	int err;

	ktsn_ring_refuse_none(&session->ring);
	do {
		for (int i = 0; i < HANDSHAKE_FDS; i++)
			fds[i] = -1;
		err = handshake_send(socket_fd, &request, session->ring_fd);
		if (!err)
			err = handshake_receive(socket_fd, &reply, fds, monotonic_ms() + KTSN_APP_TIMEOUT_MS);
	} while (!err && handshake_version_lower(&reply));
	return err ? err : reply.status;
}

int handshake_again(struct session *session)
{
	int fds[HANDSHAKE_FDS], socket_fd;
	int err = app_socket_connect(&socket_fd);

	if (err)
		return err;
	err = ring_hand_back(session, socket_fd, fds);
	/* In one step: a thread that is ringing writes into the old doorbell or the new one. */
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
