/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A socket may outlive the process that asked for SO_TXTIME on it, or be used by another: over exec, after
 * fork, passed by SCM_RIGHTS. The kernel's cookie tells that it is the same.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_TIMED_SOCKETS_H
#define KTSN_DAEMON_TIMED_SOCKETS_H

#include "flow.h"

/* A flow of the pod ends: another process may still have its socket. */
void timed_socket_remember(struct pod *pod, const struct flow *flow);
/* One that another ktsnd remembered. */
void timed_socket_take_over(struct pod *pod, const struct timed_socket *socket);
/* 0 with *mode, or -ENOENT when no process of the pod ever registered the socket. */
int timed_socket_find(const struct pod *pod, uint64_t cookie, struct txtime_mode *mode);

#endif
