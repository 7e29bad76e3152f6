/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the kernel about one network namespace, over rtnetlink: links, routes, neighbours. The
 * kernel's own tables decide; ktsnd keeps none of its own.
 *
 * Control thread. Every call is one round trip to the kernel, of 200 ms at most: -ETIMEDOUT after that. Only
 * what the kernel itself sends counts.
 */
#ifndef KTSN_DAEMON_RTNL_H
#define KTSN_DAEMON_RTNL_H

#include "address.h"
#include "rtnl_bridge.h"
#include "rtnl_socket.h"

#include <stdbool.h>
#include <stdint.h>

/* By this group of links ("ovs") is known what leads from a network's bridge into Open vSwitch; `ktsn ovs
 * setup` sets it. */
enum { SWITCH_LINK_GROUP = 0x6f7673 };

struct rtnl_link {
	int index;
	int peer_index;   /* the other end of a veth, as its own namespace numbers it; 0: none */
	int master_index; /* the bridge that it is a port of; 0: none */
	uint32_t mtu_bytes;
	uint8_t mac[6];
	bool ethernet;
	bool up;
	bool tunnel;   /* a VXLAN device, or the way into Open vSwitch (SWITCH_LINK_GROUP) */
	uint32_t vni;  /* of a VXLAN device, else 0 */
	bool snooping; /* a bridge that listens to who joins groups */
};

enum rtnl_route_type {
	ROUTE_OTHER, /* blackhole and the like */
	ROUTE_UNICAST,
	ROUTE_LOCAL, /* an address of this namespace */
	ROUTE_BROADCAST,
	ROUTE_MULTICAST,
};

/* What is asked of the routes. */
struct rtnl_route_query {
	struct ktsn_address destination;
	struct ktsn_address source; /* any: not bound */
	int link_index;             /* the interface it must leave through; 0: whichever */
};

struct rtnl_route {
	int link_index;
	struct ktsn_address source;  /* the address to send from */
	struct ktsn_address gateway; /* any: the destination is on the link */
	enum rtnl_route_type type;
};

enum rtnl_neighbor_state {
	NEIGHBOR_UNKNOWN, /* no entry, or not being resolved */
	NEIGHBOR_RESOLVING,
	NEIGHBOR_VALID,
	NEIGHBOR_FAILED,
};

struct rtnl_neighbor {
	int link_index;
	struct ktsn_address address;
	enum rtnl_neighbor_state state;
	bool configured; /* by someone, for good: the kernel has nothing to resolve or confirm */
	uint8_t mac[6];
};

/* 0; -ENODEV when there is no such link. */
int rtnl_link_get(struct rtnl *rtnl, const char *name, struct rtnl_link *link);

int rtnl_link_at(struct rtnl *rtnl, int link_index, struct rtnl_link *link);

/* Calls `visit` for each link of the namespace. 0 or -errno. */
int rtnl_links_each(struct rtnl *rtnl, void (*visit)(const struct rtnl_link *link, void *context),
		    void *context);

/* Addresses of a link, at most `room`. The number of them, or -errno. */
int rtnl_addresses_get(struct rtnl *rtnl, int link_index, struct ktsn_address *addresses, uint32_t room);

/* The link that has the address: its index, 0 when none has, or -errno. */
int rtnl_address_owner(struct rtnl *rtnl, const struct ktsn_address *address);

/* Where the namespace would send a datagram. 0, or -errno as sending would give. */
int rtnl_route_get(struct rtnl *rtnl, const struct rtnl_route_query *query, struct rtnl_route *route);

/* State of a neighbour. 0 (NEIGHBOR_UNKNOWN when the kernel has no entry) or -errno. */
int rtnl_neighbor_get(struct rtnl *rtnl, int link_index, const struct ktsn_address *address,
		      struct rtnl_neighbor *neighbor);

/* Has the kernel resolve it, or confirm what it knows, as if a datagram had been sent to it. Not for one that
 * is configured: Linux from 5.16 on would turn that into one to be resolved. */
int rtnl_neighbor_use(struct rtnl *rtnl, int link_index, const struct ktsn_address *address);

/* What a monitor tells of; each may be NULL. */
struct rtnl_watcher {
	void (*neighbor_changed)(const struct rtnl_neighbor *neighbor, void *context);
	void (*forwarding_changed)(const struct rtnl_forwarding *entry, void *context);
	/* `carrying`: up, and with a carrier. MTU of 0: it has gone. */
	void (*link_changed)(int link_index, bool carrying, uint32_t mtu_bytes, void *context);
	void (*addresses_changed)(int link_index, void *context);
	void (*groups_changed)(void *context); /* what ports of bridges are members of */
	void *context;
};

/*
 * Changes of neighbours, forwarding entries, links, addresses and groups: a second, non-blocking socket.
 * _read calls the watcher for each change received and returns 0; -ENOBUFS when the kernel dropped some, and
 * the caller must ask for what it needs.
 */
int rtnl_monitor_read(struct rtnl *rtnl, const struct rtnl_watcher *watcher);

#endif
