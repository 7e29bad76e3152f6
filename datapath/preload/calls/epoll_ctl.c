/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoll_ctl: the notifiers of a timed socket are added to the set as well (poll/epoll_members.h), and so is
 * the descriptor of a receive ring (receive/inbox_members.h).
 */
#include "epoll_members.h"
#include "epoll_record.h"
#include "export.h"
#include "flow_end.h"
#include "inbox_members.h"
#include "inbox_open.h"
#include "next.h"
#include "process_owner.h"

/* errno is the C library's. */
static void inbox_ctl(int epoll_fd, int operation, int fd, const struct epoll_event *event)
{
	struct inbox *inbox = inbox_of(fd);

	if (!inbox)
		return;
	inbox_members_ctl(inbox, epoll_fd, operation, fd, event);
	inbox_put(inbox);
}

EXPORT int epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
	struct flow *flow = flow_known(fd) && process_is_owner() ? flow_acquire(fd) : NULL;
	bool captured = flow && !flow->left_to_kernel;
	int result = captured ? epoll_members_ctl(flow, epoll_fd, operation, fd, event)
			      : next_epoll_ctl(epoll_fd, operation, fd, event);

	if (flow)
		flow_put(flow);
	if (result == 0)
		inbox_ctl(epoll_fd, operation, fd, event);
	if (result == 0 && event && operation != EPOLL_CTL_DEL)
		epoll_record_put(epoll_fd, fd, event);
	return result;
}
