/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The packet socket at the uplink that sees what the tunnel brings about groups, and from which node. A
 * filter in the kernel lets nothing else through: announcements, and IGMP and MLD of the pods of other nodes.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_GROUP_TAP_H
#define KTSN_DAEMON_GROUP_TAP_H

#include <stdint.h>

/* The socket, which does not see what this node sends; or -errno. */
int group_tap_open(int link_index, uint16_t vxlan_port);

#endif
