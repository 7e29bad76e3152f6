/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of Open vSwitch that DPDK has not set up completely is ended, so that Open vSwitch makes
 * another.
 *
 * When somebody connects to the vhost-user socket and has gone before DPDK comes to speak with him,
 * virtio-user cannot stop its queues, and takes them for enabled from then on: the next connection is made
 * without enabling them, its link is up, and Open vSwitch never fetches anything. With the connection after
 * that all is well. DPDK tells of it in its log only.
 *
 * DPDK's interrupt thread, but for vhost_renew_log().
 */
#ifndef KTSN_PORT_VHOST_RENEW_H
#define KTSN_PORT_VHOST_RENEW_H

#include <stdbool.h>
#include <stdio.h>

/* For DPDK to log to while Open vSwitch comes and goes: only what is critical is said, on stderr. NULL: no
 * memory. */
FILE *vhost_renew_log(void);
/* When the link comes up: whether it is that of such a connection to the socket at `path`, which is ended a
 * little later. */
bool vhost_renew_due(const char *path);

/* Ends the connections to that socket: who waits for an answer gets an error. Any thread. */
void vhost_connection_end(const char *path);

#endif
