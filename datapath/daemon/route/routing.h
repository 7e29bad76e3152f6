/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Begins and ends what ktsnd knows of the routes of frames on its node, and has it follow the kernel and the
 * control socket.
 *
 * Control thread. Part of route: above loop and net, below node.
 */
#ifndef KTSN_DAEMON_ROUTING_H
#define KTSN_DAEMON_ROUTING_H

#include "peers.h"

/* Loop and events are the caller's. 0 or -errno. */
int routing_init(struct routing *routing, struct loop *loop, struct events *events,
		 const struct uplink *uplink);
/* Removes all peers; the loop still runs. */
void routing_close(struct routing *routing);
void routing_fini(struct routing *routing);

/* Has destinations follow ports and MTUs, confirms neighbours. Returns ms until it is due again, -1: not. */
int routing_tick(struct routing *routing);

/* What the control socket changes. 0, -ENOMEM, or -EINVAL with *refusal filled in; then nothing changed. */
int routing_peer_add(struct routing *routing, uint32_t vni, uint32_t address_be, const struct subnet *subnets,
		     uint32_t subnet_count, struct refusal *refusal);
int routing_peer_del(struct routing *routing, uint32_t vni, uint32_t address_be);
/* Replaces what a network asks, of messages that wait as well. 0, -ENOMEM, or -EINVAL with *refusal filled
 * in; then nothing changed. */
int routing_encryption_set(struct routing *routing, uint32_t vni, enum loop_encryption encryption,
			   struct refusal *refusal);

#endif
