/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a socket needs so that poll, select and epoll wait for what happens in the ring: an alarm, on which the
 * kernel raises EPOLLERR while a report of a dropped message waits to be read, and an eventfd that is writable while
 * there is space to send. Both are made when the application first waits for the socket.
 *
 * Any thread; `lock` guards the making and the list of epoll sets. Not in signal handlers while it is held
 * (lock.h).
 */
#ifndef KTSN_PRELOAD_WAITING_H
#define KTSN_PRELOAD_WAITING_H

#include "app_protocol.h"
#include "lock.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

enum {
	/* Epoll sets that one socket can be in and still wake; in more it is without alarm. */
	WAITING_EPOLL_SETS = 8,
	/* An abstract name that the kernel chose: family, a zero, five digits. */
	ALARM_NAME_BYTES = sizeof(sa_family_t) + KTSN_APP_ALARM_NAME_BYTES,
};

struct alarm_name {
	uint8_t bytes[ALARM_NAME_BYTES];
	socklen_t length;
};

/* The socket's place in an epoll set: descriptors of ours that stand in it with the application's data. */
struct epoll_place {
	int epoll_fd; /* -1: unused */
	int fd;       /* as the application gave it */
	int alarm_fd; /* -1: none */
	int space_fd;
};

struct waiting {
	struct lock lock;
	_Atomic int alarm_fd; /* -1: none yet; waited for */
	int far_fd;           /* its peer, of which ktsnd has a copy */
	struct alarm_name near_name, far_name;
	_Atomic int space_fd; /* -1: none yet */
	/* ktsnd has it; else it is given at the next wait again. */
	_Atomic bool alarm_given, space_given;
	_Atomic uint32_t slots_wanted; /* by the send that found no space */
	_Atomic bool space_awaited;    /* a send found no space, and none has succeeded since */
	_Atomic bool places_used;
	_Atomic bool exceptions; /* SO_SELECT_ERR_QUEUE: errors are POLLPRI as well */
	struct epoll_place places[WAITING_EPOLL_SETS];
};

struct flow;
struct session;

static inline void waiting_reset(struct waiting *waiting)
{
	memset(waiting, 0, sizeof(*waiting));
	atomic_init(&waiting->alarm_fd, -1);
	atomic_init(&waiting->space_fd, -1);
	atomic_init(&waiting->slots_wanted, 1);
	waiting->far_fd = -1;
	for (int i = 0; i < WAITING_EPOLL_SETS; i++)
		waiting->places[i].epoll_fd = -1;
}

/* Makes what is missing and tells ktsnd. The descriptor, or -1 when there can be none. */
int waiting_alarm(struct flow *flow);
int waiting_space(struct flow *flow);

/* The application set SO_SELECT_ERR_QUEUE. */
void waiting_exceptions_set(struct flow *flow, bool exceptions);

/* Hands what there is to ktsnd: the flow was registered, or registered again. The gate and the flow's lock are the
 * caller's. */
void waiting_register(struct session *session, struct flow *flow);

/* A report was read, or looked for in vain: the alarm ends, if none is left. */
void waiting_alarm_settle(struct session *session, struct flow *flow);

/* Whether a message may be sent now: there are slots, and room in the send buffer. */
bool waiting_has_space(struct session *session, struct flow *flow);

/* The second half of it alone. */
bool waiting_has_room(struct session *session, struct flow *flow);

/* A send found no space: from now on the eventfd is not writable, until there is. */
void waiting_space_await(struct session *session, struct flow *flow);

/* Who waits for space looks again: the socket was shut down. */
void waiting_space_wake(struct flow *flow);

/* The process itself has given a slot back: sockets of its own that wait for space. */
void waiting_slot_freed(struct session *session);

/* A send has found it. */
void waiting_space_found(struct flow *flow);

/* Whether any socket of the process waits for space. */
bool waiting_any_for_space(void);

/* Ends everything: the last descriptor of the socket is closed, or the process is a child that inherited it. */
void waiting_close(struct waiting *waiting);

/* One of its descriptors is closed, so it leaves the epoll sets that it was put into by it. */
void waiting_fd_gone(struct flow *flow, int fd);

#endif
