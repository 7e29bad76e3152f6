/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The port to the bridges of this node, for messages between its own pods: one packet socket for all bridges;
 * each frame has its link (struct ktsn_port_frame, link_index). It is not a DPDK device, because that would
 * also receive all frames of the bridges. The loop only copies a frame into the queue of its receiver, a port
 * of the bridge; the receiver's thread sends it (delivery.h).
 */
#ifndef KTSN_PORT_PORT_BRIDGE_H
#define KTSN_PORT_PORT_BRIDGE_H

#include "delivery.h"

/* Creates the port. It uses the frame buffers of another port, `buffers`, which must outlive it, and sets
 * `send` and `context` of its copy of `config` itself. 0 or -errno. */
int ktsn_port_bridge_create(struct ktsn_port **port, struct ktsn_port *buffers,
			    const struct ktsn_delivery_config *config);

#endif
