/* SPDX-License-Identifier: Apache-2.0 */
#include "inbox_members.h"

#include "epoll_record.h"
#include "internal_fds.h"

enum {
	/* Flags, which are no events. */
	ATTRIBUTES = EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | EPOLLEXCLUSIVE,
	READABLE = EPOLLIN | EPOLLRDNORM,
};

static struct inbox_member *member_find(struct inbox *inbox, int epoll_fd, int fd)
{
	for (int i = 0; i < INBOX_MEMBERS_MAX; i++)
		if (inbox->members[i].copy_fd >= 0 && inbox->members[i].epoll_fd == epoll_fd &&
		    inbox->members[i].fd == fd)
			return &inbox->members[i];
	return NULL;
}

static void member_free(struct inbox *inbox, struct inbox_member *member)
{
	/* Closing a copy of an open file does not remove it from the set. */
	(void)kernel_call(SYS_epoll_ctl, member->epoll_fd, EPOLL_CTL_DEL, member->copy_fd, NULL);
	internal_fd_close(member->copy_fd);
	member->copy_fd = -1;
	atomic_fetch_sub_explicit(inbox->sleeping, 1, memory_order_relaxed);
}

static struct inbox_member *member_unused(struct inbox *inbox)
{
	for (int i = 0; i < INBOX_MEMBERS_MAX; i++)
		if (inbox->members[i].copy_fd < 0)
			return &inbox->members[i];
	for (int i = 0; i < INBOX_MEMBERS_MAX; i++)
		/* Sets are closed without EPOLL_CTL_DEL, and their numbers become other sets'. */
		if (!epoll_has(inbox->members[i].epoll_fd, inbox->members[i].copy_fd)) {
			member_free(inbox, &inbox->members[i]);
			return &inbox->members[i];
		}
	return NULL;
}

static void member_set(struct inbox *inbox, int epoll_fd, int fd, const struct epoll_event *event)
{
	struct epoll_event copied = {.events = event->events & (ATTRIBUTES | READABLE), .data = event->data};
	struct inbox_member *member = member_find(inbox, epoll_fd, fd);
	int copy_fd;

	/* EPOLLEXCLUSIVE, which allows no EPOLL_CTL_MOD, gets another copy. */
	if (member && kernel_call(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_MOD, member->copy_fd, &copied) >= 0)
		return;
	if (member)
		member_free(inbox, member);
	member = member_unused(inbox);
	copy_fd = member ? internal_fd_copy(inbox->ring_fd) : -1;
	if (copy_fd < 0)
		return;
	*member = (struct inbox_member){epoll_fd, fd, copy_fd};
	/* Before the kernel checks whether there is a datagram. */
	atomic_fetch_add_explicit(inbox->sleeping, 1, memory_order_seq_cst);
	if (kernel_call(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_ADD, copy_fd, &copied) < 0)
		member_free(inbox, member);
}

void inbox_members_ctl(struct inbox *inbox, int epoll_fd, int operation, int fd,
		       const struct epoll_event *event)
{
	struct inbox_member *member;

	lock_take(&inbox->lock);
	if (operation != EPOLL_CTL_DEL && event) {
		member_set(inbox, epoll_fd, fd, event);
	} else {
		member = member_find(inbox, epoll_fd, fd);
		if (member)
			member_free(inbox, member);
	}
	lock_give(&inbox->lock);
}

void inbox_members_catch_up(struct inbox *inbox, int fd)
{
	struct epoll_event event;
	int epoll_fd;

	if (epoll_record_get(fd, &epoll_fd, &event) && epoll_has(epoll_fd, fd))
		inbox_members_ctl(inbox, epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

void inbox_members_fd_gone(struct inbox *inbox, int fd)
{
	lock_take(&inbox->lock);
	for (int i = 0; i < INBOX_MEMBERS_MAX; i++)
		if (inbox->members[i].copy_fd >= 0 && inbox->members[i].fd == fd)
			member_free(inbox, &inbox->members[i]);
	lock_give(&inbox->lock);
}

void inbox_members_close(struct inbox *inbox)
{
	for (int i = 0; i < INBOX_MEMBERS_MAX; i++)
		if (inbox->members[i].copy_fd >= 0)
			member_free(inbox, &inbox->members[i]);
}

void inbox_members_forked(struct inbox *inbox)
{
	for (int i = 0; i < INBOX_MEMBERS_MAX; i++) {
		internal_fd_close(inbox->members[i].copy_fd);
		inbox->members[i].copy_fd = -1;
	}
}
