/* SPDX-License-Identifier: Apache-2.0 */
#include "request.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

union fd_control {
	char bytes[CMSG_SPACE(REPLY_FDS * sizeof(int))];
	struct cmsghdr align;
};

int request_connect(const char *socket_name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t bytes = strlen(socket_name) + 1;
	int fd, err;

	if (bytes > sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, socket_name, bytes);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

struct ktsn_app_request request_make(enum ktsn_app_type type)
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

int request_send(int socket_fd, uint16_t version, const struct ktsn_app_request *request, int fd_to_pass)
{
	struct ktsn_app_request versioned = *request;
	struct iovec iov = {.iov_base = &versioned, .iov_len = sizeof(versioned)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	union fd_control control;

	versioned.version = version;
	if (fd_to_pass >= 0)
		fd_attach(&message, &control, fd_to_pass);
	return sendmsg(socket_fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int reply_wait(int socket_fd, int timeout_ms)
{
	struct pollfd readable = {.fd = socket_fd, .events = POLLIN};
	int ready = poll(&readable, 1, timeout_ms);

	return ready < 0 ? -errno : ready == 0 ? -ETIMEDOUT : 0;
}

static void fds_collect(struct msghdr *message, int *fds)
{
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(message);
	size_t count;

	if (!cmsg || cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
		return;
	count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	for (size_t i = 0; i < count && i < REPLY_FDS; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(int));
		if (fds)
			fds[i] = fd;
		else
			close(fd);
	}
}

int reply_receive(int socket_fd, struct ktsn_app_reply *reply, int fds[REPLY_FDS])
{
	union fd_control control;
	struct iovec iov = {.iov_base = reply, .iov_len = sizeof(*reply)};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t bytes;

	for (int i = 0; fds && i < REPLY_FDS; i++)
		fds[i] = -1;
	bytes = recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (bytes < 0)
		return -errno;
	fds_collect(&message, fds);
	if (bytes == 0)
		return -ECONNRESET;
	return bytes == sizeof(*reply) && reply->magic == KTSN_APP_MAGIC ? 0 : -EPROTO;
}

bool reply_lowers_version(const struct ktsn_app_reply *reply, uint16_t oldest, uint16_t *version)
{
	if (reply->status != -EPROTONOSUPPORT || reply->version >= *version || reply->version < oldest)
		return false;
	*version = reply->version;
	return true;
}
