/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include "error_notifier.h"
#include "error_queue.h"
#include "socket_options.h"
#include "space_notifier.h"

#include <linux/net_tstamp.h>

/* The interface that the socket is bound to by name, index or link-local address; 0: none. */
static uint32_t interface_of(int fd)
{
	int interface = 0;

	(void)socket_option_read(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &interface);
	return interface > 0 ? (uint32_t)interface : 0;
}

static ssize_t report_read(struct session *session, struct flow *flow, int fd, struct msghdr *message,
			   int flags)
{
	struct ktsn_ring_report report;
	struct error_report error;
	size_t copied;
	int family = AF_INET;

	if (ktsn_ring_report_take(&session->ring, flow->number, &report))
		return -EAGAIN;
	(void)socket_option_read(fd, SOL_SOCKET, SO_DOMAIN, &family);
	error = (struct error_report){
		.family = family,
		.interface = interface_of(fd),
		.code = report.code,
		.txtime_ns = report.txtime_ns,
		.bytes = report.bytes,
		.bytes_count = report.bytes_count,
	};
	copied = error_report_write(&error, message, flags);
	ktsn_ring_report_done(&session->ring, report.slot);
	space_slot_freed(session);
	return (ssize_t)copied;
}

ssize_t report_receive(struct session *session, struct flow *flow, int fd, struct msghdr *message, int flags)
{
	ssize_t result;

	if (!(flow->txtime_flags & SOF_TXTIME_REPORT_ERRORS) || flow->left_to_kernel ||
	    flow->number_session != session->number)
		return -EAGAIN;
	result = report_read(session, flow, fd, message, flags);
	error_notifier_settle(session, flow);
	return result;
}
