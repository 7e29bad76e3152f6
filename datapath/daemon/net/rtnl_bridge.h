/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of the bridges and VXLAN devices of a namespace: forwarding entries (FDB) have the port or remote
 * node of a hardware address; the multicast database (MDB) has the groups of each port, from reports of IGMP
 * and MLD. Control thread.
 */
#ifndef KTSN_DAEMON_RTNL_BRIDGE_H
#define KTSN_DAEMON_RTNL_BRIDGE_H

#include "address.h"

#include <stdbool.h>
#include <stdint.h>

struct nlmsghdr;
struct rtnl;

/* ---- forwarding entries ---- */

/* The device that has an entry. */
enum rtnl_forwarding_device { FORWARDING_BRIDGE, FORWARDING_TUNNEL };

struct rtnl_forwarding {
	int device_link_index; /* the bridge or VXLAN device */
	uint8_t mac[6];
	bool known;          /* false: there is no entry (any more), or it is the node's own address */
	bool configured;     /* permanent; otherwise learnt */
	int port_link_index; /* of a bridge */
	uint32_t remote_be;  /* of a VXLAN device */
};

/* Reads the entry of an address. 0, with `known` false when there is none; or -errno. */
int rtnl_forwarding_get(struct rtnl *rtnl, enum rtnl_forwarding_device device, int device_link_index,
			const uint8_t mac[6], struct rtnl_forwarding *entry);

/* Parses a notification. Returns false when rtnl_forwarding_get() could not return its entry. */
bool rtnl_forwarding_parse(const struct nlmsghdr *header, struct rtnl_forwarding *entry);

/* ---- multicast groups ---- */

struct rtnl_group {
	int bridge_link_index;
	int link_index; /* the port; the bridge itself when the node is a member */
	bool router;    /* the port wants all groups; `address` is unspecified */
	struct ktsn_address address;
};

/* Calls `visit` for each entry of each bridge. 0 or -errno. */
int rtnl_groups_each(struct rtnl *rtnl, void (*visit)(const struct rtnl_group *group, void *context),
		     void *context);

#endif
