/* SPDX-License-Identifier: Apache-2.0 */
#include "client.h"

#include "clock.h"
#include "kernel.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>

/* ---- version ---- */

void ktsn_client_version_reset(struct ktsn_client_version *version)
{
	atomic_store_explicit(&version->current, version->newest, memory_order_relaxed);
}

int ktsn_client_negotiate(struct ktsn_client_version *version, const struct ktsn_app_reply *reply)
{
	uint16_t current = atomic_load_explicit(&version->current, memory_order_relaxed);

	if (reply->version < version->oldest || reply->version > version->newest)
		return -EPROTONOSUPPORT;
	/* In the version of the request the status has another meaning: ktsnd refuses the ring's layout. */
	if (reply->status != -EPROTONOSUPPORT || reply->version == current)
		return 0;
	if (reply->version > current)
		return -EPROTONOSUPPORT;
	atomic_store_explicit(&version->current, reply->version, memory_order_relaxed);
	return 1;
}

/* ---- connection ---- */

int ktsn_client_address(struct sockaddr_un *address, const char *path)
{
	size_t bytes = strlen(path) + 1;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (bytes > sizeof(address->sun_path))
		return -ENAMETOOLONG;
	memcpy(address->sun_path, path, bytes);
	return 0;
}

int ktsn_client_socket(int flags)
{
	const struct timeval timeout = {.tv_usec = KTSN_APP_TIMEOUT_MS * 1000};
	long fd = kernel_call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);

	/* Bounds connect as well, when the backlog of ktsnd is full (unix(7)). */
	if (fd >= 0 && !(flags & SOCK_NONBLOCK))
		(void)kernel_call(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	return (int)fd;
}

int ktsn_client_connect(int socket_fd, const struct sockaddr_un *address)
{
	long err = kernel_call(SYS_connect, socket_fd, address, sizeof(*address));

	if (err < 0)
		(void)kernel_call(SYS_close, socket_fd);
	return (int)err;
}

/* ---- requests ---- */

union fd_control {
	char bytes[CMSG_SPACE(KTSN_CLIENT_FDS * sizeof(int))];
	struct cmsghdr align;
};

struct ktsn_app_request ktsn_client_request(enum ktsn_app_type type)
{
	return (struct ktsn_app_request){
		.magic = KTSN_APP_MAGIC,
		.type = (uint16_t)type,
		.flow = KTSN_APP_NONE,
		.destination = KTSN_APP_NONE,
	};
}

static void fd_attach(struct msghdr *message, union fd_control *control, int fd)
{
	struct cmsghdr *cmsg;

	memset(control, 0, sizeof(*control));
	message->msg_control = control->bytes;
	message->msg_controllen = CMSG_SPACE(sizeof(int));
	cmsg = CMSG_FIRSTHDR(message);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
}

int ktsn_client_send(int socket_fd, const struct ktsn_client_version *version,
		     const struct ktsn_app_request *request, int fd_to_pass)
{
	struct ktsn_app_request versioned = *request;
	struct iovec iov = {.iov_base = &versioned, .iov_len = sizeof(versioned)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	union fd_control control;
	long sent;

	versioned.version = atomic_load_explicit(&version->current, memory_order_relaxed);
	if (fd_to_pass >= 0)
		fd_attach(&message, &control, fd_to_pass);
	do
		sent = kernel_call(SYS_sendmsg, socket_fd, &message, MSG_NOSIGNAL);
	while (sent == -EINTR);
	return sent < 0 ? (int)sent : 0;
}

/* ---- replies ---- */

int ktsn_client_wait(int socket_fd, int64_t until_ms)
{
	struct pollfd readable = {.fd = socket_fd, .events = POLLIN};

	for (;;) {
		int64_t left_ms = until_ms - monotonic_ms();
		struct timespec left = timespec_of_ns(left_ms > 0 ? left_ms * 1000000 : 0);
		long ready = kernel_call(SYS_ppoll, &readable, 1, &left, NULL, 0);

		if (ready == -EINTR)
			continue;
		return ready < 0 ? (int)ready : ready == 0 ? -ETIMEDOUT : 0;
	}
}

static void fds_clear(int *fds)
{
	for (int i = 0; fds && i < KTSN_CLIENT_FDS; i++)
		fds[i] = -1;
}

/* Moves the descriptors of a reply into `fds`, or closes them. */
static void fds_collect(struct msghdr *message, int *fds)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(message);
	size_t count;

	if (!cmsg || cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
		return;
	count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	for (size_t i = 0; i < count && i < KTSN_CLIENT_FDS; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
		if (fds)
			fds[i] = fd;
		else
			(void)kernel_call(SYS_close, fd);
	}
}

int ktsn_client_receive(int socket_fd, struct ktsn_app_reply *reply, int fds[KTSN_CLIENT_FDS])
{
	union fd_control control;
	struct iovec iov = {.iov_base = reply, .iov_len = sizeof(*reply)};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	long bytes;

	fds_clear(fds);
	bytes = kernel_call(SYS_recvmsg, socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (bytes < 0)
		return (int)bytes;
	fds_collect(&message, fds);
	if (bytes == 0)
		return -ECONNRESET;
	return bytes == sizeof(*reply) && reply->magic == KTSN_APP_MAGIC ? 0 : -EPROTO;
}

int ktsn_client_receive_until(int socket_fd, struct ktsn_app_reply *reply, int fds[KTSN_CLIENT_FDS],
			      int64_t until_ms)
{
	int err;

	fds_clear(fds);
	err = ktsn_client_wait(socket_fd, until_ms);
	return err ? err : ktsn_client_receive(socket_fd, reply, fds);
}

/* ---- ring ---- */

int ktsn_client_ring_map(int ring_fd, uint64_t bytes, struct ktsn_ring_producer *ring, size_t *mapped_bytes)
{
	long address;
	int err;

	ring->header = NULL;
	if (bytes < sizeof(struct ktsn_ring_header) || bytes > KTSN_RING_BYTES_MAX)
		return -EPROTO;
	/* The kernel maps no more than the ring has. */
	address = kernel_call(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring_fd, 0L);
	err = mmap_error(address);
	if (err)
		return err;
	err = ktsn_ring_producer_init(ring, (void *)address, (size_t)bytes);
	if (err) {
		ring->header = NULL;
		(void)kernel_call(SYS_munmap, address, bytes);
		return err;
	}
	*mapped_bytes = (size_t)bytes;
	return 0;
}
