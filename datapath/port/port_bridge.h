/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The port onto the bridges of this node, for messages between its own pods: a packet socket that serves all
 * of them, frame by frame (struct ktsn_port_frame, link_index). No device of DPDK, because that would also
 * receive everything that the bridges carry. The loop only copies a frame into the queue of its receiver, a
 * port of the bridge; the receiver's thread sends it (delivery.h).
 */
#ifndef KTSN_PORT_PORT_BRIDGE_H
#define KTSN_PORT_PORT_BRIDGE_H

#include "delivery.h"

/* Sends frames whose buffers are those of another port, `buffers`, which outlives it. Of `config` only what
 * starts threads, and the share of a receiver. 0 or -errno. */
int ktsn_port_bridge_create(struct ktsn_port **port, struct ktsn_port *buffers,
			    const struct ktsn_delivery_config *config);

#endif
