/* SPDX-License-Identifier: Apache-2.0 */
#include "epoll_members.h"

#include "epoll_record.h"
#include "error_notifier.h"
#include "internal_fds.h"
#include "kernel.h"
#include "next.h"
#include "space_notifier.h"

enum {
	/* Flags, which are no events. */
	ATTRIBUTES = EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | EPOLLEXCLUSIVE,
	WRITABLE = EPOLLOUT | EPOLLWRNORM,
};

static struct epoll_member *member_find(struct poll_state *state, int epoll_fd, int fd)
{
	for (int i = 0; i < EPOLL_MEMBERS_MAX; i++)
		if (state->members[i].epoll_fd == epoll_fd && state->members[i].fd == fd)
			return &state->members[i];
	return NULL;
}

/* Adds a copy of `original` to the set, or changes its events. A copy that is not in the set is added: the
 * set's number may be another set's by now. */
static bool copy_set(int *copy, int original, int epoll_fd, struct epoll_event event)
{
	if (original < 0)
		return false;
	if (*copy < 0)
		*copy = internal_fd_copy(original);
	return *copy >= 0 && (kernel_call(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_MOD, *copy, &event) >= 0 ||
			      kernel_call(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_ADD, *copy, &event) >= 0);
}

static void copy_remove(int *copy, int epoll_fd)
{
	if (*copy < 0)
		return;
	/* Closing a copy of an open file does not remove it from the set. */
	(void)kernel_call(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_DEL, *copy, NULL);
	internal_fd_close(*copy);
	*copy = -1;
}

/* Sets are closed without EPOLL_CTL_DEL, and their numbers become other sets'. */
static bool member_stale(const struct epoll_member *member)
{
	return !(member->error_fd >= 0 && epoll_has(member->epoll_fd, member->error_fd)) &&
	       !(member->space_fd >= 0 && epoll_has(member->epoll_fd, member->space_fd));
}

static void member_free(struct epoll_member *member)
{
	copy_remove(&member->error_fd, member->epoll_fd);
	copy_remove(&member->space_fd, member->epoll_fd);
	member->epoll_fd = -1;
}

static struct epoll_member *member_unused(struct poll_state *state)
{
	for (int i = 0; i < EPOLL_MEMBERS_MAX; i++)
		if (state->members[i].epoll_fd == -1)
			return &state->members[i];
	return NULL;
}

static void stale_free(struct poll_state *state)
{
	for (int i = 0; i < EPOLL_MEMBERS_MAX; i++)
		if (member_stale(&state->members[i]))
			member_free(&state->members[i]);
}

static struct epoll_member *member_make(struct poll_state *state, int epoll_fd, int fd)
{
	struct epoll_member *member = member_find(state, epoll_fd, fd);

	if (!member)
		member = member_unused(state);
	if (!member) {
		stale_free(state);
		member = member_unused(state);
	}
	if (!member || member->epoll_fd == epoll_fd)
		return member;
	*member = (struct epoll_member){.epoll_fd = epoll_fd, .fd = fd, .error_fd = -1, .space_fd = -1};
	atomic_store_explicit(&state->members_used, true, memory_order_relaxed);
	return member;
}

/* Adds the notifiers. Returns whether the space notifier is in the set now. */
static bool member_set(struct flow *flow, int epoll_fd, int fd, const struct epoll_event *event)
{
	struct poll_state *state = &flow->poll_state;
	struct epoll_event copied = {.events = event->events & (ATTRIBUTES | EPOLLPRI), .data = event->data};
	int error_fd = error_notifier_fd(flow);
	int space_fd = event->events & WRITABLE ? space_notifier_fd(flow) : -1;
	struct epoll_member *member;
	bool space_set = false;

	if (event->events & EPOLLEXCLUSIVE)
		copied.events &= ~(uint32_t)EPOLLPRI;
	lock_take(&state->lock);
	member = member_make(state, epoll_fd, fd);
	if (member) {
		(void)copy_set(&member->error_fd, error_fd, epoll_fd, copied);
		copied.events = event->events & (ATTRIBUTES | WRITABLE);
		space_set = copy_set(&member->space_fd, space_fd, epoll_fd, copied);
		if (!space_set)
			copy_remove(&member->space_fd, epoll_fd);
	}
	lock_give(&state->lock);
	return space_set;
}

static void member_remove(struct flow *flow, int epoll_fd, int fd)
{
	struct poll_state *state = &flow->poll_state;
	struct epoll_member *member;

	lock_take(&state->lock);
	member = member_find(state, epoll_fd, fd);
	if (member)
		member_free(member);
	lock_give(&state->lock);
}

/* Returns whether the socket can be a member of another set. */
static bool member_available(struct flow *flow, int epoll_fd, int fd)
{
	bool available;

	lock_take(&flow->poll_state.lock);
	available = member_make(&flow->poll_state, epoll_fd, fd) != NULL;
	lock_give(&flow->poll_state.lock);
	return available;
}

/* Gives the socket the kernel's own EPOLLOUT, because its space notifier is not in the set. */
static int writable_restore(int epoll_fd, int fd, const struct epoll_event *event)
{
	struct epoll_event real = *event;

	/* EPOLLEXCLUSIVE allows no EPOLL_CTL_MOD. */
	if (!(event->events & EPOLLEXCLUSIVE))
		return next_epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &real);
	(void)next_epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	return next_epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &real);
}

int epoll_members_ctl(struct flow *flow, int epoll_fd, int operation, int fd, struct epoll_event *event)
{
	struct epoll_event real;
	int result;

	if (operation == EPOLL_CTL_DEL || !event) {
		result = next_epoll_ctl(epoll_fd, operation, fd, event);
		member_remove(flow, epoll_fd, fd);
		return result;
	}
	real = *event;
	if (event->events & WRITABLE && space_notifier_fd(flow) >= 0 && member_available(flow, epoll_fd, fd))
		real.events &= ~(uint32_t)WRITABLE;
	result = next_epoll_ctl(epoll_fd, operation, fd, &real);
	if (result == 0 && !member_set(flow, epoll_fd, fd, event) && real.events != event->events)
		result = writable_restore(epoll_fd, fd, event);
	return result;
}

void epoll_members_catch_up(struct flow *flow, int fd)
{
	struct epoll_event event;
	int epoll_fd;

	if (!epoll_record_get(fd, &epoll_fd, &event) || !epoll_has(epoll_fd, fd))
		return;
	/* The kernel's EPOLLOUT stays with EPOLLONESHOT, which may have fired already, and with
	 * EPOLLEXCLUSIVE, which cannot be changed. */
	if (event.events & WRITABLE && !(event.events & (EPOLLONESHOT | EPOLLEXCLUSIVE))) {
		(void)epoll_members_ctl(flow, epoll_fd, EPOLL_CTL_MOD, fd, &event);
		return;
	}
	event.events &= ~(uint32_t)WRITABLE;
	(void)member_set(flow, epoll_fd, fd, &event);
}

void epoll_members_fd_gone(struct flow *flow, int fd)
{
	struct poll_state *state = &flow->poll_state;

	if (!atomic_load_explicit(&state->members_used, memory_order_relaxed))
		return;
	lock_take(&state->lock);
	for (int i = 0; i < EPOLL_MEMBERS_MAX; i++)
		if (state->members[i].epoll_fd >= 0 && state->members[i].fd == fd)
			member_free(&state->members[i]);
	lock_give(&state->lock);
}
