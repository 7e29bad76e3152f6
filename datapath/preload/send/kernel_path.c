/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_path.h"

#include "message.h"
#include "next.h"

#include <errno.h>

static long without_txtime_send(int fd, const struct msghdr *message, int flags)
{
	uint8_t control[512] __attribute__((aligned(sizeof(size_t))));
	struct msghdr untimed = *message;
	int bytes = message_control_without_txtime(message, control, sizeof(control));
	ssize_t sent;

	if (bytes < 0)
		return bytes;
	untimed.msg_control = bytes ? control : NULL;
	untimed.msg_controllen = (size_t)bytes;
	untimed.msg_iovlen = (uint32_t)message->msg_iovlen;
	sent = next_sendmsg(fd, &untimed, flags);
	return sent < 0 ? -errno : sent;
}

long kernel_path_send(struct session *session, struct flow *flow, int fd, const struct msghdr *message,
		      int flags)
{
	ssize_t sent;

	atomic_fetch_add_explicit(&session->ring.header->kernel_path, 1, memory_order_relaxed);
	/* Without an endpoint, a queueing discipline of the namespace may use the transmit time. */
	if (!flow->kernel_knows || !atomic_load_explicit(&flow->without_endpoint, memory_order_relaxed))
		return without_txtime_send(fd, message, flags);
	sent = next_sendmsg(fd, message, flags);
	return sent < 0 ? -errno : sent;
}
