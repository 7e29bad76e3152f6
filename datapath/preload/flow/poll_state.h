/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of a flow for poll, select and epoll:
 *
 *   error notifier   a unix datagram socket on which the kernel raises EPOLLERR while a report of a dropped
 *                    message waits to be read (poll/error_notifier.h)
 *   space notifier   an eventfd that is writable while the flow has space to send (poll/space_notifier.h)
 *   epoll members    copies of both in the epoll sets that the socket is in (poll/epoll_members.h)
 *
 * The notifiers are created when the application first waits for the socket. Used by any thread; `lock`
 * guards their creation and the members. Signals are blocked while the lock is held (lock.h).
 */
#ifndef KTSN_PRELOAD_POLL_STATE_H
#define KTSN_PRELOAD_POLL_STATE_H

#include "app_protocol.h"
#include "lock.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

enum {
	/* Epoll sets in which a socket has notifiers; in further sets it has none. */
	EPOLL_MEMBERS_MAX = 8,
	/* An abstract name assigned by the kernel: family, a zero, five digits. */
	NOTIFIER_NAME_BYTES = sizeof(sa_family_t) + KTSN_APP_NOTIFIER_NAME_BYTES,
};

struct notifier_name {
	uint8_t bytes[NOTIFIER_NAME_BYTES];
	socklen_t length;
};

/* The socket in an epoll set: copies of the notifiers are in the set, with the application's data. */
struct epoll_member {
	int epoll_fd; /* -1: unused */
	int fd;       /* that the application added */
	int error_fd; /* -1: none */
	int space_fd; /* -1: none */
};

struct poll_state {
	struct lock lock;
	_Atomic int error_fd; /* the error notifier; -1: none yet */
	int error_peer_fd;    /* its peer, of which ktsnd has a copy */
	struct notifier_name error_name, error_peer_name;
	_Atomic int space_fd; /* the space notifier; -1: none yet */
	/* ktsnd has the notifier. If not, the next wait passes it again. */
	_Atomic bool error_given, space_given;
	_Atomic uint32_t slots_wanted; /* by the last send without space */
	_Atomic bool space_awaited;    /* the last send had no space */
	_Atomic bool members_used;
	_Atomic bool exceptions; /* SO_SELECT_ERR_QUEUE: errors are POLLPRI as well */
	struct epoll_member members[EPOLL_MEMBERS_MAX];
};

static inline void poll_state_reset(struct poll_state *state)
{
	memset(state, 0, sizeof(*state));
	atomic_init(&state->error_fd, -1);
	atomic_init(&state->space_fd, -1);
	atomic_init(&state->slots_wanted, 1);
	state->error_peer_fd = -1;
	for (int i = 0; i < EPOLL_MEMBERS_MAX; i++)
		state->members[i].epoll_fd = -1;
}

#endif
