/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client side of the application socket of ktsnd (ring/app_protocol.h): connection, requests and replies
 * with descriptors, negotiation of the version, mapping of the ring. libktsn and the relays use it.
 *
 * It keeps to the rules of libktsn, which runs inside other programs: it makes system calls only (kernel.h),
 * allocates nothing, has no state of its own and leaves the application's errno alone. Callable from any
 * thread and after fork. A connection and its version belong to one caller at a time.
 */
#ifndef KTSN_CLIENT_H
#define KTSN_CLIENT_H

#include "app_protocol.h"
#include "ring_producer.h"

#include <stdatomic.h>
#include <sys/un.h>

/* Descriptors of a reply: of HELLO the ring and its doorbell, of HAND_BACK the doorbell, of RECEIVE_OPEN the
 * receive ring and its control page. */
enum { KTSN_CLIENT_FDS = 2 };

/* The version of the application protocol on a connection. Any thread may read `current`. */
struct ktsn_client_version {
	uint16_t oldest, newest;  /* that the client supports */
	_Atomic uint16_t current; /* of requests: the newest that ktsnd has not refused */
};

/* ktsn_client_version_reset selects the newest version: the next connection may be to another ktsnd. */
void ktsn_client_version_reset(struct ktsn_client_version *version);

/*
 * ktsn_client_negotiate checks the version of a reply. 0 when the reply answers the request; 1 when ktsnd
 * refused its version and supports an older one, which `version` selects: the caller repeats the request.
 * -EPROTONOSUPPORT when client and ktsnd have no version in common.
 */
int ktsn_client_negotiate(struct ktsn_client_version *version, const struct ktsn_app_reply *reply);

/* ktsn_client_address fills in the address of the socket at a path. 0 or -ENAMETOOLONG. */
int ktsn_client_address(struct sockaddr_un *address, const char *path);

/* ktsn_client_socket returns a socket for ktsn_client_connect(), or -errno. `flags` is SOCK_NONBLOCK or 0; a
 * socket that blocks waits KTSN_APP_TIMEOUT_MS at most, in connect as well. */
int ktsn_client_socket(int flags);

/* ktsn_client_connect connects the socket. 0, or -errno after closing it. */
int ktsn_client_connect(int socket_fd, const struct sockaddr_un *address);

/* ktsn_client_request returns a request of that type for no flow and no destination. ktsn_client_send() adds
 * the version. */
struct ktsn_app_request ktsn_client_request(enum ktsn_app_type type);

/* ktsn_client_send sends a request in the current version, with a descriptor unless fd_to_pass is -1. 0 or
 * -errno. */
int ktsn_client_send(int socket_fd, const struct ktsn_client_version *version,
		     const struct ktsn_app_request *request, int fd_to_pass);

/* ktsn_client_wait waits for a reply until until_ms on CLOCK_MONOTONIC. 0, -ETIMEDOUT or another -errno. */
int ktsn_client_wait(int socket_fd, int64_t until_ms);

/*
 * ktsn_client_receive receives a reply without waiting. 0, -EAGAIN when there is none, -ECONNRESET when the
 * connection has ended, -EPROTO when the message is no reply, or another -errno. The caller owns received
 * descriptors, also after -EPROTO; those that did not come are -1. Without `fds` they are closed.
 */
int ktsn_client_receive(int socket_fd, struct ktsn_app_reply *reply, int fds[KTSN_CLIENT_FDS]);

/* ktsn_client_receive_until waits for a reply and receives it. As ktsn_client_wait() and
 * ktsn_client_receive(). */
int ktsn_client_receive_until(int socket_fd, struct ktsn_app_reply *reply, int fds[KTSN_CLIENT_FDS],
			      int64_t until_ms);

/* ktsn_client_ring_map maps the ring of a reply to HELLO. 0 with *ring and the size of the mapping; -errno
 * with ring->header NULL. */
int ktsn_client_ring_map(int ring_fd, uint64_t bytes, struct ktsn_ring_producer *ring, size_t *mapped_bytes);

#endif
