/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a connection of Open vSwitch that DPDK has not set up completely, so that Open vSwitch connects again.
 *
 * If a client connects to the vhost-user socket and disconnects before DPDK handles the connection,
 * virtio-user cannot stop its queues and regards them as enabled from then on. So it does not enable them for
 * the next connection: the link is up, and Open vSwitch never fetches anything. The connection after that
 * works again. DPDK reports this only in its log.
 *
 * DPDK's interrupt thread, except vhost_renew_log().
 */
#ifndef KTSN_PORT_VHOST_RENEW_H
#define KTSN_PORT_VHOST_RENEW_H

#include <stdbool.h>
#include <stdio.h>

/* DPDK's log stream while Open vSwitch may connect and disconnect: only critical messages go to stderr. NULL:
 * no memory. */
FILE *vhost_renew_log(void);
/* Called when the link comes up. Whether it belongs to such a connection to the socket at `path`, which this
 * ends a little later. */
bool vhost_renew_due(const char *path);

/* Ends the connections to that socket: threads that wait for an answer get an error. Any thread. */
void vhost_connection_end(const char *path);

#endif
