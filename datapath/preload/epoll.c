/* SPDX-License-Identifier: Apache-2.0 */
/*
 * epoll_ctl: beside a timed socket its alarm stands in the set, and for EPOLLOUT its space, each with the
 * application's own data. So the kernel itself wakes every kind of epoll_wait, and what comes out is the application's.
 */
#include "epoll_memory.h"
#include "epoll_sets.h"
#include "flow_table.h"
#include "next.h"
#include "own_fds.h"
#include "registration.h"
#include "session.h"

#include <sys/epoll.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	/* How, not for what, a descriptor waits. */
	MANNER = EPOLLET | EPOLLONESHOT | EPOLLWAKEUP | EPOLLEXCLUSIVE,
	WRITABLE = EPOLLOUT | EPOLLWRNORM,
};

static struct epoll_place *place_find(struct waiting *waiting, int epoll_fd, int fd)
{
	for (int i = 0; i < WAITING_EPOLL_SETS; i++)
		if (waiting->places[i].epoll_fd == epoll_fd && waiting->places[i].fd == fd)
			return &waiting->places[i];
	return NULL;
}

/* Puts a copy of `original` into the set, or changes what it waits for. The number of the set may be another's by now,
 * where it does not stand yet. */
static bool member_set(int *copy, int original, int epoll_fd, struct epoll_event event)
{
	if (original < 0)
		return false;
	if (*copy < 0)
		*copy = own_fd_copy(original);
	return *copy >= 0 && (kernel_call(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_MOD, *copy, &event) >= 0 ||
			      kernel_call(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_ADD, *copy, &event) >= 0);
}

static void member_remove(int *copy, int epoll_fd)
{
	if (*copy < 0)
		return;
	(void)kernel_call(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_DEL, *copy, NULL);
	own_fd_close(*copy);
	*copy = -1;
}

/* Whether a descriptor stands in a set: then it can not be put in again. */
static bool stands_in(int epoll_fd, int fd)
{
	struct epoll_event nothing = {.events = 0};
	long err = kernel_call(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_ADD, fd, &nothing);

	if (err == 0)
		(void)kernel_call(SYS_epoll_ctl, epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	return err == -EEXIST;
}

/* Sets are closed without EPOLL_CTL_DEL, and their numbers become other sets'. */
static bool place_stale(const struct epoll_place *place)
{
	return !(place->alarm_fd >= 0 && stands_in(place->epoll_fd, place->alarm_fd)) &&
	       !(place->space_fd >= 0 && stands_in(place->epoll_fd, place->space_fd));
}

static void place_free(struct epoll_place *place)
{
	member_remove(&place->alarm_fd, place->epoll_fd);
	member_remove(&place->space_fd, place->epoll_fd);
	place->epoll_fd = -1;
}

static struct epoll_place *place_unused(struct waiting *waiting)
{
	for (int i = 0; i < WAITING_EPOLL_SETS; i++)
		if (waiting->places[i].epoll_fd == -1)
			return &waiting->places[i];
	return NULL;
}

static void stale_free(struct waiting *waiting)
{
	for (int i = 0; i < WAITING_EPOLL_SETS; i++)
		if (place_stale(&waiting->places[i]))
			place_free(&waiting->places[i]);
}

static struct epoll_place *place_make(struct waiting *waiting, int epoll_fd, int fd)
{
	struct epoll_place *place = place_find(waiting, epoll_fd, fd);

	if (!place)
		place = place_unused(waiting);
	if (!place) {
		stale_free(waiting);
		place = place_unused(waiting);
	}
	if (!place || place->epoll_fd == epoll_fd)
		return place;
	*place = (struct epoll_place){.epoll_fd = epoll_fd, .fd = fd, .alarm_fd = -1, .space_fd = -1};
	atomic_store_explicit(&waiting->places_used, true, memory_order_relaxed);
	return place;
}

/* Whether the space is in the set now. */
static bool place_set(struct flow *flow, int epoll_fd, int fd, const struct epoll_event *event)
{
	struct waiting *waiting = &flow->waiting;
	struct epoll_event own = {.events = event->events & (MANNER | EPOLLPRI), .data = event->data};
	int alarm_fd = waiting_alarm(flow);
	int space_fd = event->events & WRITABLE ? waiting_space(flow) : -1;
	struct epoll_place *place;
	bool space_set = false;

	if (event->events & EPOLLEXCLUSIVE)
		own.events &= ~(uint32_t)EPOLLPRI;
	lock_take(&waiting->lock);
	place = place_make(waiting, epoll_fd, fd);
	if (place) {
		(void)member_set(&place->alarm_fd, alarm_fd, epoll_fd, own);
		own.events = event->events & (MANNER | WRITABLE);
		space_set = member_set(&place->space_fd, space_fd, epoll_fd, own);
		if (!space_set)
			member_remove(&place->space_fd, epoll_fd);
	}
	lock_give(&waiting->lock);
	return space_set;
}

static void place_remove(struct flow *flow, int epoll_fd, int fd)
{
	struct waiting *waiting = &flow->waiting;
	struct epoll_place *place;

	lock_take(&waiting->lock);
	place = place_find(waiting, epoll_fd, fd);
	if (place)
		place_free(place);
	lock_give(&waiting->lock);
}

/* Whether there is room for it, and a descriptor to wait for space with. */
static bool place_available(struct flow *flow, int epoll_fd, int fd)
{
	bool available;

	lock_take(&flow->waiting.lock);
	available = place_make(&flow->waiting, epoll_fd, fd) != NULL;
	lock_give(&flow->waiting.lock);
	return available;
}

/* The kernel's own EPOLLOUT, there being no other. */
static int writable_restore(int epoll_fd, int fd, const struct epoll_event *event)
{
	struct epoll_event real = *event;

	/* What waits exclusively can not be changed. */
	if (!(event->events & EPOLLEXCLUSIVE))
		return next_epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &real);
	(void)next_epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	return next_epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &real);
}

static int timed_ctl(struct flow *flow, int epoll_fd, int operation, int fd, struct epoll_event *event)
{
	struct epoll_event real;
	int result;

	if (operation == EPOLL_CTL_DEL || !event) {
		result = next_epoll_ctl(epoll_fd, operation, fd, event);
		place_remove(flow, epoll_fd, fd);
		return result;
	}
	real = *event;
	if (event->events & WRITABLE && waiting_space(flow) >= 0 && place_available(flow, epoll_fd, fd))
		real.events &= ~(uint32_t)WRITABLE;
	result = next_epoll_ctl(epoll_fd, operation, fd, &real);
	if (result == 0 && !place_set(flow, epoll_fd, fd, event) && real.events != event->events)
		result = writable_restore(epoll_fd, fd, event);
	return result;
}

void epoll_sets_join(struct flow *flow, int fd)
{
	struct epoll_event event;
	int epoll_fd;

	if (!epoll_noted(fd, &epoll_fd, &event) || !stands_in(epoll_fd, fd))
		return;
	/* What waits once may have been told already, and what waits exclusively can not be changed: these keep the
	 * kernel's EPOLLOUT. */
	if (event.events & WRITABLE && !(event.events & (EPOLLONESHOT | EPOLLEXCLUSIVE))) {
		(void)timed_ctl(flow, epoll_fd, EPOLL_CTL_MOD, fd, &event);
		return;
	}
	event.events &= ~(uint32_t)WRITABLE;
	(void)place_set(flow, epoll_fd, fd, &event);
}

static int flow_ctl(struct flow *flow, int epoll_fd, int operation, int fd, struct epoll_event *event)
{
	int result = flow->left_to_kernel ? next_epoll_ctl(epoll_fd, operation, fd, event)
					  : timed_ctl(flow, epoll_fd, operation, fd, event);

	flow_put(flow);
	return result;
}

EXPORT int epoll_ctl(int epoll_fd, int operation, int fd, struct epoll_event *event)
{
	struct flow *flow = flow_known(fd) && session_process_is_ours() ? flow_acquire(fd) : NULL;
	int result = flow ? flow_ctl(flow, epoll_fd, operation, fd, event)
			  : next_epoll_ctl(epoll_fd, operation, fd, event);

	if (result == 0 && event && operation != EPOLL_CTL_DEL)
		epoll_note(epoll_fd, fd, event);
	return result;
}
