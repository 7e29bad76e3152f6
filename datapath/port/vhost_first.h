/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first connection to ktsnd's vhost-user socket. DPDK's virtio-user device is not there until somebody
 * has connected to it once, and blocks so long; ktsnd must serve its pods before Open vSwitch is started,
 * too. So it connects to itself while the device is made, if Open vSwitch is not quicker, and lets go again.
 *
 * Main thread.
 */
#ifndef KTSN_PORT_VHOST_FIRST_H
#define KTSN_PORT_VHOST_FIRST_H

#include <stdbool.h>

/* From now on somebody connects to the socket at `path` as soon as it is there. 0 or -errno. */
int vhost_first_begin(const char *path);
/* Once the device is started. */
void vhost_first_end(const char *path);
/* Whether it was quicker than Open vSwitch. */
bool vhost_first_came(void);

#endif
