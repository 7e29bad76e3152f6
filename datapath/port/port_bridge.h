/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The port onto the bridges of this node, for messages between its own pods: a packet socket that serves all
 * of them, frame by frame (struct ktsn_port_frame, link_index). No device of DPDK, because that would also
 * receive everything that the bridges carry.
 */
#ifndef KTSN_PORT_PORT_BRIDGE_H
#define KTSN_PORT_PORT_BRIDGE_H

#include "port.h"

/* Sends frames whose buffers are those of another port, `buffers`, which outlives it. 0 or -errno. */
int ktsn_port_bridge_create(struct ktsn_port **port, struct ktsn_port *buffers);

#endif
