/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first connection to ktsnd's vhost-user socket. DPDK's virtio-user device is not there until somebody
 * has connected to it once, and blocks so long; ktsnd must serve its pods before Open vSwitch is started,
 * too. So it connects to itself while the device is made, if Open vSwitch is not quicker, and lets go again.
 *
 * DPDK also waits for every answer of whoever connected, for ever. The thread of vhost-user in ovs-vswitchd
 * answers nothing while another thread of it stands still. So a connection that has not led to a device after
 * VHOST_ANSWER_MS is ended.
 *
 * Main thread.
 */
#ifndef KTSN_PORT_VHOST_FIRST_H
#define KTSN_PORT_VHOST_FIRST_H

#include <stdbool.h>

enum { VHOST_ANSWER_MS = 2000 };

/* From now on somebody connects to the socket at `path` as soon as it is there. 0 or -errno. */
int vhost_first_begin(const char *path);
/* Once the device is started. */
void vhost_first_end(const char *path);
/* Whether it was quicker than Open vSwitch. */
bool vhost_first_came(void);

struct vhost_answer;
/* Around all that DPDK asks Open vSwitch meanwhile. 0 or -errno. */
int vhost_answer_begin(struct vhost_answer **answer, const char *path);
/* Returns whether it did not answer, so that the connection was ended. */
bool vhost_answer_end(struct vhost_answer *answer);

#endif
