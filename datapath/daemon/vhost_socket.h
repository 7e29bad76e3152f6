/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket to which Open vSwitch connects (uplink ovs). It has two ports for ktsnd, which try two names
 * each second: that of the options, and the same with ".2" behind it. A ktsnd that takes over listens at the
 * one that its predecessor has not, so that it is connected before the other lets go:
 *
 *   port 1  ---- first ktsnd ----|                 |---- third ...
 *   port 2                 |---- second ktsnd -------|
 *
 * Main thread.
 */
#ifndef KTSN_DAEMON_VHOST_SOCKET_H
#define KTSN_DAEMON_VHOST_SOCKET_H

#include <stdbool.h>

enum { VHOST_PATH_BYTES_MAX = 105 }; /* of the options; the other fits struct sockaddr_un then, too */

struct vhost_socket {
	char path[VHOST_PATH_BYTES_MAX + 3];  /* where this ktsnd is to listen */
	char other[VHOST_PATH_BYTES_MAX + 3]; /* where the one that it follows may */
};

/* Finds a name that nobody uses, and removes what killed ones left. 0; or -errno, and what is wrong has been
 * said. */
int vhost_socket_choose(struct vhost_socket *vhost, const char *path, bool take_over);

/* Listens where the predecessor did from now on: Open vSwitch knows one name only, that is, an older version
 * set it up, and connects to it once more when the other has ended. 0; or -errno, and what is wrong has been
 * said. */
int vhost_socket_move(struct vhost_socket *vhost);

#endif
