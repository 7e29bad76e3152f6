/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to the kernel about one network namespace, over rtnetlink: links, routes, neighbours. ktsnd uses
 * the kernel's tables and keeps none of its own.
 *
 * Control thread. Every call is one round trip to the kernel, which fails with -ETIMEDOUT after 200 ms.
 * Messages of other senders are ignored.
 */
#ifndef KTSN_DAEMON_RTNL_H
#define KTSN_DAEMON_RTNL_H

#include "address.h"
#include "rtnl_bridge.h"
#include "rtnl_socket.h"

#include <stdbool.h>
#include <stdint.h>

/* Group of links ("ovs") from networks' bridges into Open vSwitch; `ktsn ovs setup` sets it, and names them
 * tsnvx42 for network 42. */
enum { SWITCH_LINK_GROUP = 0x6f7673 };

struct rtnl_link {
	int index;
	int peer_index;   /* the other end of a veth, as its own namespace numbers it; 0: none */
	int master_index; /* the bridge that it is a port of; 0: none */
	uint32_t mtu_bytes;
	uint8_t mac[6];
	bool ethernet;
	bool up;
	bool carrying; /* up, and has a carrier */
	bool tunnel;   /* a VXLAN device, or a link into Open vSwitch (SWITCH_LINK_GROUP) */
	uint32_t vni;  /* of a VXLAN device, or of the network of a link into Open vSwitch; else 0 */
	bool snooping; /* a bridge with multicast snooping */
};

enum rtnl_route_type {
	ROUTE_OTHER, /* blackhole and the like */
	ROUTE_UNICAST,
	ROUTE_LOCAL, /* an address of this namespace */
	ROUTE_BROADCAST,
	ROUTE_MULTICAST,
};

struct rtnl_route_query {
	struct ktsn_address destination;
	struct ktsn_address source; /* any: not bound */
	int link_index;             /* the interface it must leave through; 0: whichever */
};

struct rtnl_route {
	int link_index;
	struct ktsn_address source;  /* the address to send from */
	struct ktsn_address gateway; /* any: the destination is on the link */
	uint32_t mtu_bytes;          /* that the route was configured with; 0: none */
	bool mtu_learnt;             /* the kernel uses another one, until it expires */
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
	bool configured; /* permanent: the kernel has nothing to resolve or confirm */
	uint8_t mac[6];
};

/* Reads a link by name or index. 0; -ENODEV when there is no such link; or another -errno. */
int rtnl_link_get(struct rtnl *rtnl, const char *name, struct rtnl_link *link);
int rtnl_link_at(struct rtnl *rtnl, int link_index, struct rtnl_link *link);

/* Calls `visit` for each link of the namespace. 0 or -errno. */
int rtnl_links_each(struct rtnl *rtnl, void (*visit)(const struct rtnl_link *link, void *context),
		    void *context);

/* Reads at most `room` addresses of a link. Returns their number, or -errno. */
int rtnl_addresses_get(struct rtnl *rtnl, int link_index, struct ktsn_address *addresses, uint32_t room);

/* Returns the index of the link that has the address, 0 when there is none, or -errno. */
int rtnl_address_owner(struct rtnl *rtnl, const struct ktsn_address *address);

/* Returns whether a link has an address: 1, 0 or -errno. */
int rtnl_address_on(struct rtnl *rtnl, int link_index, const struct ktsn_address *address);

/* Finds the route of a datagram in the namespace. 0, or -errno as from sending. */
int rtnl_route_get(struct rtnl *rtnl, const struct rtnl_route_query *query, struct rtnl_route *route);

/* Reads the state of a neighbour. 0 (NEIGHBOR_UNKNOWN when the kernel has no entry) or -errno. */
int rtnl_neighbor_get(struct rtnl *rtnl, int link_index, const struct ktsn_address *address,
		      struct rtnl_neighbor *neighbor);

/* Makes the kernel resolve or confirm a neighbour, as if a datagram had been sent to it. Must not be used for
 * a configured neighbour: since 5.16 Linux would replace the entry by one to be resolved. */
int rtnl_neighbor_use(struct rtnl *rtnl, int link_index, const struct ktsn_address *address);

/* Callbacks of a monitor; each may be NULL. */
struct rtnl_watcher {
	void (*neighbor_changed)(const struct rtnl_neighbor *neighbor, void *context);
	void (*forwarding_changed)(const struct rtnl_forwarding *entry, void *context);
	/* `carrying`: up, and with a carrier. MTU of 0: the link is gone. */
	void (*link_changed)(int link_index, bool carrying, uint32_t mtu_bytes, void *context);
	void (*addresses_changed)(int link_index, void *context);
	void (*groups_changed)(void *context); /* multicast groups of ports of bridges */
	void (*routes_changed)(void *context); /* of IPv4, if the monitor was opened with `routes` */
	void *context;
};

/* Calls the watcher for each change that the monitor has received (rtnl_monitor_open). 0; -ENOBUFS when the
 * kernel dropped changes and the caller must read again what it needs; or another -errno. */
int rtnl_monitor_read(struct rtnl *rtnl, const struct rtnl_watcher *watcher);

#endif
