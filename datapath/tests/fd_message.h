/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages with descriptors over unix sockets (SCM_RIGHTS). Any thread.
 */
#ifndef KTSN_TEST_FD_MESSAGE_H
#define KTSN_TEST_FD_MESSAGE_H

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum { FD_MESSAGE_FDS_MAX = 253 }; /* SCM_MAX_FD */

union fd_message_control {
	char bytes[CMSG_SPACE(FD_MESSAGE_FDS_MAX * sizeof(int))];
	struct cmsghdr header;
};

/* Sends a message with fd_count descriptors. Returns as sendmsg(). */
static inline ssize_t fd_message_send(int fd, const void *bytes, size_t count, const int *fds,
				      size_t fd_count, int flags)
{
	union fd_message_control control;
	struct iovec iov = {(void *)(size_t)bytes, count};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd_count) {
		memset(&control, 0, CMSG_SPACE(fd_count * sizeof(int)));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, fd_count * sizeof(int));
	}
	return sendmsg(fd, &message, flags | MSG_NOSIGNAL);
}

/* Receives a message with up to fds_max descriptors, of which *fd_count came. Returns as recvmsg(); -1
 * with EMSGSIZE for a message that was truncated. */
static inline ssize_t fd_message_receive(int fd, void *bytes, size_t count, int *fds, size_t fds_max,
					 size_t *fd_count, int flags)
{
	union fd_message_control control;
	struct iovec iov = {bytes, count};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = CMSG_SPACE(fds_max * sizeof(int))};
	ssize_t received = recvmsg(fd, &message, flags);
	const struct cmsghdr *header = received < 0 ? NULL : CMSG_FIRSTHDR(&message);

	*fd_count = header && header->cmsg_type == SCM_RIGHTS ? (header->cmsg_len - CMSG_LEN(0)) / sizeof(int)
							      : 0;
	if (*fd_count > fds_max)
		*fd_count = fds_max;
	if (*fd_count)
		memcpy(fds, CMSG_DATA(header), *fd_count * sizeof(int));
	if (received < 0 || !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return received;
	errno = EMSGSIZE;
	return -1;
}

#endif
