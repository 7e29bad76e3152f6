/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of all routes of frames on the node: its start and end, and its updates from the kernel and the
 * control socket.
 *
 * Control thread. Part of route: above loop and net, below node.
 */
#ifndef KTSN_DAEMON_ROUTING_H
#define KTSN_DAEMON_ROUTING_H

#include "peers.h"

/* Opens the node's namespace and the sockets of groups. Loop and events belong to the caller. 0 or -errno. */
int routing_init(struct routing *routing, struct loop *loop, struct events *events,
		 const struct uplink *uplink);
/* Removes all peers; the loop still runs. */
void routing_close(struct routing *routing);
void routing_fini(struct routing *routing);

/* Updates destinations after changes of ports and MTUs, and confirms neighbours. Returns ms until it must be
 * called again, or -1. */
int routing_tick(struct routing *routing);

/* Takes the indexes that the bridges of endpoints have now. */
void routing_bridges_follow(struct routing *routing);

/* Changes from the control socket. 0, -ENOMEM, or -EINVAL with *refusal filled in; after an error nothing has
 * changed. */
int routing_peer_add(struct routing *routing, uint32_t vni, uint32_t address_be, uint16_t port,
		     const struct subnet *subnets, uint32_t subnet_count, struct refusal *refusal);
int routing_peer_del(struct routing *routing, uint32_t vni, uint32_t address_be);
/* Sets the encryption of a network, for waiting messages too. 0, -ENOMEM, or -EINVAL with *refusal filled in;
 * after an error nothing has changed. */
int routing_encryption_set(struct routing *routing, uint32_t vni, enum loop_encryption encryption,
			   struct refusal *refusal);

#endif
