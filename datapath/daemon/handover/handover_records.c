/* SPDX-License-Identifier: Apache-2.0 */
#include "handover_records.h"

#include "unix_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union descriptors {
	char bytes[CMSG_SPACE(HANDOVER_FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

int handover_send(int fd, struct handover_record *record, enum handover_type type, const int *fds,
		  size_t count)
{
	record->magic = HANDOVER_MAGIC;
	record->version = HANDOVER_VERSION;
	record->bytes = sizeof(*record);
	record->type = type;
	return unix_send(fd, record, sizeof(*record), fds, count, 0);
}

static void descriptors_take(struct msghdr *message, int fds[HANDOVER_FDS_MAX])
{
	const struct cmsghdr *cmsg = CMSG_FIRSTHDR(message);

	for (size_t i = 0; i < HANDOVER_FDS_MAX; i++)
		fds[i] = -1;
	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
		memcpy(fds, CMSG_DATA(cmsg), cmsg->cmsg_len - CMSG_LEN(0));
}

int handover_receive(int fd, struct handover_record *record, int fds[HANDOVER_FDS_MAX])
{
	union descriptors control;
	struct iovec iov = {.iov_base = record, .iov_len = sizeof(*record)};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t bytes = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);

	if (bytes < 0)
		return -errno;
	descriptors_take(&message, fds);
	if (bytes == 0)
		return -ECONNRESET;
	if (bytes == sizeof(*record) && record->magic == HANDOVER_MAGIC &&
	    record->version == HANDOVER_VERSION && record->bytes == sizeof(*record))
		return 0;
	for (size_t i = 0; i < HANDOVER_FDS_MAX; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return -EPROTONOSUPPORT;
}
