/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first connection to ktsnd's vhost-user socket, its answers, and the end of half-open ones. The creation
 * of DPDK's virtio-user device blocks until a client has connected once, but ktsnd must also serve its pods
 * before Open vSwitch is started. So ktsnd connects to itself while the device is created, if Open vSwitch is
 * not quicker, and disconnects again.
 *
 * DPDK also waits for every answer of the client, without a timeout. The thread for vhost-user in
 * ovs-vswitchd answers nothing while another of its threads is blocked. So a connection that has not led to a
 * device after VHOST_ANSWER_MS is ended.
 *
 * Main thread, except where another one is named.
 */
#ifndef KTSN_PORT_VHOST_FIRST_H
#define KTSN_PORT_VHOST_FIRST_H

#include <stdbool.h>
#include <stdio.h>

enum { VHOST_ANSWER_MS = 2000 };

/* Starts to connect to the socket at `path` as soon as it exists. 0 or -errno. */
int vhost_first_begin(const char *path);
/* Ends that connection, after the device has started. */
void vhost_first_end(const char *path);
/* Whether ktsnd's own connection was the first. */
bool vhost_first_connected(void);

struct vhost_answer;
/* Called before DPDK sends requests to Open vSwitch. 0 or -errno. */
int vhost_answer_begin(struct vhost_answer **answer, const char *path);
/* Called after these requests. Returns whether an answer was missing, so that the connection was ended. */
bool vhost_answer_end(struct vhost_answer *answer);

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

/* DPDK's log stream while Open vSwitch may connect and disconnect: only critical messages go to stderr. NULL:
 * no memory. */
FILE *vhost_renew_log(void);
/* Called when the link comes up. Whether it belongs to such a connection to the socket at `path`, which this
 * ends a little later. */
bool vhost_renew_due(const char *path);

#endif
