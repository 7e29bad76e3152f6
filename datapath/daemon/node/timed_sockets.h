/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets with SO_TXTIME that may outlive the process that set it, or be used by another: over exec, after
 * fork, passed by SCM_RIGHTS. They are identified by the kernel's cookie.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_TIMED_SOCKETS_H
#define KTSN_DAEMON_TIMED_SOCKETS_H

#include "flow.h"

/* Remembers the socket of a flow that ends, because another process may still have it. */
void timed_socket_remember(struct pod *pod, const struct flow *flow);
/* Takes over a socket that another ktsnd remembered. */
void timed_socket_take_over(struct pod *pod, const struct timed_socket *socket);
/* Finds the mode of a socket. 0 with *mode, or -ENOENT when no process of the pod has registered it. */
int timed_socket_find(const struct pod *pod, uint64_t cookie, struct txtime_mode *mode);

#endif
