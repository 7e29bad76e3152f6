/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that send without a transmit time, and join what a call with one began (cork.h). Of sockets that never
 * asked for SO_TXTIME they are the next one plus two loads.
 */
#include "cork.h"
#include "flow_table.h"
#include "next.h"
#include "registration.h"

#include <sys/uio.h>

#define EXPORT __attribute__((visibility("default")))

/* Acquired; NULL when the call joins nothing. */
static struct flow *joined_flow(int fd, int flags)
{
	struct flow *flow = flow_known(fd) ? flow_acquire(fd) : NULL;

	if (!flow || (!flow->left_to_kernel && cork_concerns(flow, flags)))
		return flow;
	flow_put(flow);
	return NULL;
}

/* What sendmsg would do. Gives the flow back. */
static ssize_t join(struct flow *flow, int fd, const struct msghdr *message, int flags)
{
	long sent = cork_send(flow, fd, message, flags);

	flow_put(flow);
	if (sent == CORK_NOTHING)
		return next_sendmsg(fd, message, flags);
	if (sent >= 0)
		return sent;
	errno = (int)-sent;
	return -1;
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

	/* What is wrong with it the kernel says. */
	if (!flow || count < 0) {
		if (flow)
			flow_put(flow);
		return next_writev(fd, pieces, count);
	}
	message.msg_iovlen = (unsigned int)count;
	return join(flow, fd, &message, 0);
}
