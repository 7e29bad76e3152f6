/* SPDX-License-Identifier: Apache-2.0 */
/*
 * send, sendto, write and writev: datagrams without a transmit time, which may continue a message that a call
 * with a transmit time began (send/cork.h). For sockets that never asked for SO_TXTIME each call is the next
 * function plus two loads.
 */
#include "export.h"
#include "flow_end.h"
#include "kernel.h"
#include "next.h"
#include "send.h"

#include <sys/uio.h>

/* Acquired; NULL when the call continues no message. */
static struct flow *joined_flow(int fd, int flags)
{
	struct flow *flow = flow_known(fd) ? flow_acquire(fd) : NULL;

	if (!flow || (!flow->left_to_kernel && cork_concerns(flow, flags)))
		return flow;
	flow_put(flow);
	return NULL;
}

/* Sends as sendmsg would. Gives the flow back. */
static ssize_t join(struct flow *flow, int fd, const struct msghdr *message, int flags)
{
	long sent = cork_send(flow, fd, message, flags);

	flow_put(flow);
	return sent == CORK_NOTHING ? next_sendmsg(fd, message, flags) : errno_return(sent);
}

EXPORT ssize_t sendto(int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to,
		      socklen_t to_bytes)
{
	struct flow *flow = joined_flow(fd, flags);
	struct iovec piece = {(void *)data, bytes};
	struct msghdr message = {
		.msg_name = (void *)to, .msg_namelen = to_bytes, .msg_iov = &piece, .msg_iovlen = 1};

	return flow ? join(flow, fd, &message, flags) : next_sendto(fd, data, bytes, flags, to, to_bytes);
}

EXPORT ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
	struct flow *flow = joined_flow(fd, flags);
	struct iovec piece = {(void *)data, bytes};
	struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};

	return flow ? join(flow, fd, &message, flags) : next_send(fd, data, bytes, flags);
}

EXPORT ssize_t write(int fd, const void *data, size_t bytes)
{
	struct flow *flow = joined_flow(fd, 0);
	struct iovec piece = {(void *)data, bytes};
	struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};

	return flow ? join(flow, fd, &message, 0) : next_write(fd, data, bytes);
}

EXPORT ssize_t writev(int fd, const struct iovec *pieces, int count)
{
	struct flow *flow = joined_flow(fd, 0);
	struct msghdr message = {.msg_iov = (struct iovec *)pieces};

	/* The kernel refuses a negative count. */
	if (!flow || count < 0) {
		if (flow)
			flow_put(flow);
		return next_writev(fd, pieces, count);
	}
	message.msg_iovlen = (unsigned int)count;
	return join(flow, fd, &message, 0);
}
