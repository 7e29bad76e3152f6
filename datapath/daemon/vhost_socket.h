/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket to which Open vSwitch connects (uplink ovs). Open vSwitch has two ports for ktsnd, which try two
 * names each second: that of the options, and the same with ".2" appended. A ktsnd that takes over listens at
 * the name that its predecessor does not use, so that it is connected before the other ends:
 *
 *   port 1  ---- first ktsnd ----|                 |---- third ...
 *   port 2                 |---- second ktsnd -------|
 *
 * Main thread.
 */
#ifndef KTSN_DAEMON_VHOST_SOCKET_H
#define KTSN_DAEMON_VHOST_SOCKET_H

#include <stdbool.h>

enum { VHOST_PATH_BYTES_MAX = 105 }; /* of the option, so that the longer name fits struct sockaddr_un */

struct vhost_socket {
	char path[VHOST_PATH_BYTES_MAX + 3];  /* the name for this ktsnd */
	char other[VHOST_PATH_BYTES_MAX + 3]; /* the name that a predecessor may use */
};

/* Finds an unused name, and removes the sockets of killed ktsnd. 0, or -errno after an error message. */
int vhost_socket_choose(struct vhost_socket *vhost, const char *path, bool take_over);

/* Moves the socket to the predecessor's name, if Open vSwitch has only one port for ktsnd; it connects again
 * when the predecessor has ended. 0, or -errno after an error message. */
int vhost_socket_move(struct vhost_socket *vhost);

#endif
