/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the bridges of a namespace have learnt of multicast groups: the kernel listens to the reports of IGMP
 * and MLD and keeps a table (MDB) of which port is a member of which group.
 *
 * Control thread.
 */
#ifndef KTSN_DAEMON_RTNL_GROUPS_H
#define KTSN_DAEMON_RTNL_GROUPS_H

#include "address.h"

#include <stdbool.h>

struct rtnl;

struct rtnl_group {
	int bridge_link_index;
	int link_index; /* the port; the bridge itself when the node is a member */
	bool router;    /* the port wants all groups, and `address` is none */
	struct ktsn_address address;
};

/* Calls `visit` for each entry of each bridge. 0 or -errno. */
int rtnl_groups_each(struct rtnl *rtnl, void (*visit)(const struct rtnl_group *group, void *context),
		     void *context);

#endif
