/* SPDX-License-Identifier: Apache-2.0 */
#include "handover_records.h"

#include "unix_socket.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEADER_BYTES = offsetof(struct handover_record, shaping) };

union descriptors {
	char bytes[CMSG_SPACE(HANDOVER_FDS_MAX * sizeof(int))];
	struct cmsghdr align;
};

/* Bytes after the header; 0 for types without a body. */
#define BYTES(member) sizeof(((struct handover_record *)0)->member)
static const size_t body_bytes[HANDOVER_TYPES] = {
	[HANDOVER_SHAPING] = BYTES(shaping),
	[HANDOVER_SOCKET] = BYTES(socket),
	[HANDOVER_ENDPOINT] = BYTES(endpoint),
	[HANDOVER_PEER] = BYTES(peer),
	[HANDOVER_NETWORK_LIMITS] = BYTES(network_limits),
	[HANDOVER_CLOCK] = BYTES(clock),
	[HANDOVER_NETWORK_CLOCK] = BYTES(network_clock),
	[HANDOVER_ENCRYPTION] = BYTES(encryption),
	[HANDOVER_ASSOCIATIONS] = BYTES(associations),
	[HANDOVER_POD_NAME] = BYTES(pod_name),
	[HANDOVER_TIMED_SOCKET] = BYTES(timed_socket),
	[HANDOVER_PROCESS] = BYTES(process),
	[HANDOVER_KEPT_RING] = BYTES(kept_ring),
	[HANDOVER_FLOW] = BYTES(flow),
	[HANDOVER_DESTINATION] = BYTES(destination),
	[HANDOVER_RECEIVE] = BYTES(receive),
	[HANDOVER_STANDS] = BYTES(paused_tai_ns),
};

int handover_send(int fd, struct handover_record *record, enum handover_type type, uint32_t version,
		  const int *fds, size_t count)
{
	const size_t length = HEADER_BYTES + body_bytes[type];

	record->magic = HANDOVER_MAGIC;
	record->version = version;
	record->bytes = (uint32_t)length;
	record->type = type;
	return unix_send(fd, record, length, fds, count, 0);
}

/* A newer release's record may be longer than this structure: then only its known part was received. */
static bool understood(const struct handover_record *record, size_t received)
{
	return received >= HEADER_BYTES && record->magic == HANDOVER_MAGIC &&
	       record->version >= HANDOVER_VERSION_OLDEST && record->version <= HANDOVER_VERSION &&
	       record->bytes >= received;
}

void handover_fds_close(int fds[HANDOVER_FDS_MAX])
{
	for (size_t i = 0; i < HANDOVER_FDS_MAX; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

static void descriptors_take(struct msghdr *message, int fds[HANDOVER_FDS_MAX])
{
	const struct cmsghdr *cmsg = CMSG_FIRSTHDR(message);
	size_t bytes = cmsg ? cmsg->cmsg_len - CMSG_LEN(0) : 0;

	for (size_t i = 0; i < HANDOVER_FDS_MAX; i++)
		fds[i] = -1;
	if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS &&
	    bytes <= HANDOVER_FDS_MAX * sizeof(int))
		memcpy(fds, CMSG_DATA(cmsg), bytes);
}

static int record_check(const struct handover_record *record, ssize_t bytes, int flags)
{
	if (bytes == 0)
		return -ECONNRESET;
	if (flags & MSG_CTRUNC)
		return -E2BIG;
	return understood(record, (size_t)bytes) ? 0 : -EPROTONOSUPPORT;
}

int handover_receive(int fd, struct handover_record *record, int fds[HANDOVER_FDS_MAX])
{
	union descriptors control;
	struct iovec iov = {.iov_base = record, .iov_len = sizeof(*record)};
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		/* Not CMSG_SPACE(): its padding has room for one more descriptor, which would be lost. */
		.msg_controllen = CMSG_LEN(HANDOVER_FDS_MAX * sizeof(int)),
	};
	ssize_t bytes;
	int err;

	memset(record, 0, sizeof(*record));
	bytes = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	if (bytes < 0)
		return -errno;
	descriptors_take(&message, fds);
	err = record_check(record, bytes, message.msg_flags);
	if (err)
		handover_fds_close(fds);
	return err;
}

const char *handover_error_text(int err)
{
	return err == -E2BIG
		       ? "it sent a record with more descriptors than fit, or this ktsnd has no room for "
			 "more (RLIMIT_NOFILE)"
		       : strerror(-err);
}
